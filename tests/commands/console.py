"""The command line as tests use it, and a task of a user's."""

from hrnn.cli import main


def hrnn(capsys, *arguments):
    """Run a command in this process: exit code, standard output, standard error."""
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as stopped:
        code = stopped.code
    output = capsys.readouterr()
    return code, output.out, output.err


def complaint(capsys, *arguments):
    """The one sentence that a mistaken command prints."""
    code, _, err = hrnn(capsys, *arguments)
    assert code == 2
    assert "Traceback" not in err
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    return lines[0]


OWN_TASK = '''
from dataclasses import dataclass
import torch
from hrnn.tasks import Batch, Metric, Reading, Task, cross_entropy, cut
from hrnn import Tokens

@dataclass(frozen=True)
class Parity(Task):
    """Is the number of ones so far odd?"""
    steps: int = 6
    metrics = (Metric("accuracy", higher_is_better=True),)
    inputs = Tokens(2)
    outputs = 2

    def loss(self, logits, target):
        values = cross_entropy(logits, target)
        return values, {"accuracy": (logits.argmax(-1) == target).float()}

    def batch(self, index, reading):
        x = torch.randint(2, (self.steps, reading.batch), generator=torch.Generator().manual_seed(index))
        return Batch(cut(x, x.cumsum(0) % 2, reading.window))

    def evaluation(self, part, reading):
        yield self.batch(-1 if part == "test" else -2, reading)
'''

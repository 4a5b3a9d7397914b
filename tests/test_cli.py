"""The command line: every command does what it says, and help does not wait for torch."""

import json
import subprocess
import sys

import pytest

from hrnn import __version__
from hrnn.cli import COMMANDS, main
from tests.tiny import SENTENCE, TINY, literal_boundaries, write_mnist, write_text


def hrnn(capsys, *arguments):
    """Run a command in this process: exit code, standard output, standard error."""
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as stopped:
        code = stopped.code
    output = capsys.readouterr()
    return code, output.out, output.err


@pytest.fixture
def text_run(tmp_path, capsys):
    options = ("--data", write_text(tmp_path / "text.txt"), "--window", 10, "--learning-rate", 0.02, "--updates", 60)
    assert hrnn(capsys, "train", "text", *TINY, *options, "--run", tmp_path / "run")[0] == 0
    return tmp_path / "run"


def test_help_is_quick_because_it_imports_little():
    program = "import sys; from hrnn.cli import main; main(['--help']); print({'torch', 'numpy', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")
    assert all(name in done.stdout for name in COMMANDS)
    assert "hrnn train copy" in done.stdout


def test_the_module_can_be_run():
    done = subprocess.run([sys.executable, "-m", "hrnn", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == __version__


@pytest.mark.parametrize("name", ["copy", "pixels", "text", "needle"])
def test_every_task_has_a_help_text_with_defaults_and_examples(capsys, name):
    code, out, _ = hrnn(capsys, "train", name, "--help")
    assert code == 0
    assert "--hidden-sizes" in out
    assert "(default: 0.001)" in out
    assert f"    hrnn train {name} --" in out
    assert "where not given: --hidden-sizes" in " ".join(out.split())


def test_train_evaluate_and_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ("--length", 3, "--periods", 3, "--window", 10, "--updates", 4, "--test-sequences", 20)
    code, out, err = hrnn(capsys, "train", "copy", *TINY, *options, "--json")
    assert code == 0
    result = json.loads(out)
    assert result["run"] == "runs/copy-ours-0"
    assert result["updates"] == 4
    assert "update 4" in err
    code, out, _ = hrnn(capsys, "evaluate", "runs/copy-ours-0", "--json")
    assert code == 0
    assert json.loads(out)["recalled_bits_per_character"] == result["test"]["recalled_bits_per_character"]
    code, out, _ = hrnn(capsys, "evaluate", "runs/copy-ours-0", "--length", 7)
    assert f"{result['test']['recalled_bits_per_character']:.4f}" not in out
    code, out, _ = hrnn(capsys, "runs", "--json")
    (summary,) = json.loads(out)
    assert (summary["task"], summary["model"], summary["state"], summary["updates"]) == ("copy", "ours", "done", 4)
    code, out, _ = hrnn(capsys, "runs", tmp_path)
    assert code == 0
    assert "copy" in out


def test_a_finished_run_is_not_repeated_but_can_be_extended(tmp_path, capsys):
    run = tmp_path / "run"
    options = ("--steps", 8, "--periods", 3, "--updates", 3, "--test-sequences", 5, "--journal-every", 1)
    assert hrnn(capsys, "train", "needle", *TINY, *options, "--run", run)[0] == 0
    before = (run / "journal.jsonl").read_text()
    code, out, _ = hrnn(capsys, "resume", run)
    assert (code, "3 updates" in out) == (0, True)
    assert (run / "journal.jsonl").read_text() == before
    code, out, _ = hrnn(capsys, "resume", run, "--updates", 5, "--json")
    assert (code, json.loads(out)["updates"]) == (0, 5)
    records = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    assert [record["update"] for record in records if record["kind"] == "update"] == [1, 2, 3, 4, 5]
    assert [record["kind"] for record in records].count("end") == 1


def test_a_time_limit_stops_and_says_how_to_go_on(tmp_path, capsys):
    options = ("--length", 3, "--periods", 3, "--updates", 4, "--minutes", 0, "--run", tmp_path / "run")
    code, _, err = hrnn(capsys, "train", "copy", *TINY, *options)
    assert code == 0
    assert f"stopped (time limit); continue with: hrnn resume {tmp_path / 'run'}" in err


def test_sampling_continues_a_prompt(text_run, capsys):
    code, out, _ = hrnn(capsys, "sample", text_run, "--prompt", "the ", "--length", 30, "--json")
    assert code == 0
    written = json.loads(out)["text"]
    assert len(written) == 30
    assert set(written) <= set(SENTENCE)
    code, again, _ = hrnn(capsys, "sample", text_run, "--prompt", "the ", "--length", 30)
    assert again == f"the {written}\n"
    code, other, _ = hrnn(capsys, "sample", text_run, "--prompt", "the ", "--length", 30, "--seed", 1)
    assert other != again
    likeliest = {hrnn(capsys, "sample", text_run, "--temperature", 0, "--seed", seed)[1] for seed in (1, 2)}
    assert len(likeliest) == 1


def test_a_sampled_text_has_the_boundaries_it_would_have_in_training():
    from hrnn.tasks.boundaries import compiled
    from hrnn.training.sampling import Boundaries

    text = "a  b. c\n\nd e.\nf"
    for names in (["word"], ["word", "line"], [r"\s+"], [r"\b", "sentence"]):
        whole = literal_boundaries(text, names)
        growing = Boundaries(compiled(names))
        assert [growing.read(character) for character in text] == whole[:-1].tolist()


def test_a_boundary_that_the_text_never_has_is_warned_about_and_unknown_characters_can_be_a_prompt(tmp_path, capsys):
    text, run = write_text(tmp_path / "text.txt"), tmp_path / "run"
    options = ("--data", text, "--window", 10, "--updates", 1, "--boundaries", "wrod", "--run", run)
    code, _, err = hrnn(capsys, "train", "text", *TINY, *options)
    assert code == 0
    assert "'wrod' is found nowhere in the training text, so level 1 never ticks; did you mean word?" in " ".join(err.split())
    code, out, _ = hrnn(capsys, "sample", run, "--prompt", "the ÖX", "--length", 200, "--temperature", 9, "--json")
    assert code == 0
    assert set(json.loads(out)["text"]) <= set(SENTENCE)


def test_evaluation_on_other_data(tmp_path, capsys, text_run):
    other = tmp_path / "other.txt"
    other.write_text("the dog jumps over the fox\n" * 5)
    code, out, _ = hrnn(capsys, "evaluate", text_run, "--data", other, "--json")
    assert code == 0
    assert json.loads(out)["bits_per_character"] > 0
    (tmp_path / "text.txt").unlink()  # what is evaluated needs no training text
    assert hrnn(capsys, "evaluate", text_run, "--data", other, "--json")[1] == out
    other.write_text("THE DOG\n" * 5)
    code, out, _ = hrnn(capsys, "evaluate", text_run, "--data", other, "--json")
    assert code == 0
    assert json.loads(out)["unknown"] == 5 * len("THEDOG") - 1  # the first character is no target
    code, out, _ = hrnn(capsys, "evaluate", text_run, "--data", other)
    assert "unknown 29\n" in out


def test_evaluation_of_validation_and_of_a_named_checkpoint(tmp_path, capsys):
    data = write_mnist(tmp_path / "mnist", test=20)
    options = (
        "--data",
        data,
        "--pool",
        4,
        "--periods",
        7,
        "--updates",
        4,
        "--validate-every",
        2,
        "--run",
        tmp_path / "run",
    )
    assert hrnn(capsys, "train", "pixels", *TINY, *options)[0] == 0
    code, out, _ = hrnn(capsys, "evaluate", tmp_path / "run", "--part", "validation", "--checkpoint", 2, "--json")
    journal = [json.loads(line) for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines()]
    recorded = next(record for record in journal if record["kind"] == "validation")
    assert json.loads(out)["loss"] == recorded["loss"]
    code, _, err = hrnn(capsys, "evaluate", tmp_path / "run", "--checkpoint", 3)
    assert code == 2
    assert "--checkpoint is '3'; give best, last, or one of [0, 2" in err


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


def test_a_users_own_task(tmp_path, capsys, monkeypatch):
    (tmp_path / "tasks_of_mine.py").write_text(OWN_TASK)
    monkeypatch.chdir(tmp_path)
    options = ("--steps", 5, "--periods", 3, "--updates", 3, "--json")
    code, out, err = hrnn(capsys, "train", "--task", "tasks_of_mine:Parity", *TINY, *options)
    assert code == 0, err
    assert json.loads(out)["run"] == "runs/parity-ours-0"
    assert 0 <= json.loads(out)["test"]["accuracy"] <= 1
    code, out, _ = hrnn(capsys, "resume", "runs/parity-ours-0", "--updates", 5, "--json", "--task", "tasks_of_mine:Parity")
    assert json.loads(out)["updates"] == 5


def test_the_demo_compares_four_models_and_continues(tmp_path, capsys):
    options = ("--folder", tmp_path / "demo", "--updates", 12)
    code, out, _ = hrnn(capsys, "demo", *options)
    assert code == 0
    rows = [line.split() for line in out.splitlines()[5:9]]
    assert [row[0] for row in rows] == ["ours", "hrnn", "gr-hrnn", "mr-hrnn"]
    assert [row[-2] for row in rows] == ["24", "40", "24", "24"]
    ours, hrnn_, _, mr = (int(row[-1]) for row in rows)  # megabytes of a longer window
    assert 0 < 2 * ours < mr < hrnn_
    assert (tmp_path / "demo" / "curves.png").exists()
    (tmp_path / "demo" / "hrnn" / "result.json").unlink()
    before = (tmp_path / "demo" / "ours" / "journal.jsonl").read_bytes()
    assert hrnn(capsys, "demo", *options)[0] == 0
    assert (tmp_path / "demo" / "ours" / "journal.jsonl").read_bytes() == before
    code, _, err = hrnn(capsys, "demo", *options, "--seed", 1)
    assert code == 2
    assert "holds a run with other options" in err

"""Opening a run never imports a module that only the run names: somebody else may have written it."""

import sys

import pytest

import hrnn
from hrnn.errors import UserError
from hrnn.launching.units import Unit
from hrnn.tasks import Needle
from hrnn.training import folder as folders
from hrnn.training.config import Budget, Config, Model, resolved
from hrnn.training.identity import Trust
from hrnn.training.loop import train
from tests.commands.console import OWN_TASK
from tests.commands.console import hrnn as command
from tests.tiny import TINY

CELL = """
import torch
class Leaky(torch.nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.new = torch.nn.Linear(input_size + hidden_size, hidden_size)
    def initial_state(self, batch):
        return (torch.zeros(batch, self.hidden_size),)
    def step(self, x, state):
        return (0.5 * state[0] + 0.5 * torch.tanh(self.new(torch.cat([x, state[0]], 1))),)
class Flat(torch.nn.Linear):
    def __init__(self, parts, input_size, size):
        super().__init__(parts[0] * input_size, size)
    def forward(self, inputs):
        return super().forward(inputs.flatten(1))
"""
NAMED = ("--task", "foreign_task:Parity", "--cell", "foreign_cell:Leaky", "--reader", "foreign_cell:Flat")


@pytest.fixture
def foreign(tmp_path, capsys, monkeypatch):
    """A run with a task, a cell and a reader of its own, whose modules note that they were imported, and are forgotten."""
    note = f"\nfrom pathlib import Path\nPath({str(tmp_path / 'imported')!r}).touch()\n"
    code = tmp_path / "code"
    code.mkdir()
    (code / "foreign_task.py").write_text(OWN_TASK + note)
    (code / "foreign_cell.py").write_text(CELL + note)
    monkeypatch.chdir(code)
    monkeypatch.setattr(sys, "path", [*sys.path])
    options = ("--reads", "inputs", "--steps", 5, "--periods", 3, "--updates", 2, "--run", tmp_path / "run")
    assert command(capsys, "train", *NAMED, *TINY, *options)[0] == 0
    forget(tmp_path)
    yield tmp_path / "run"
    forget(tmp_path)


def forget(home):
    for name in ("foreign_task", "foreign_cell"):
        sys.modules.pop(name, None)
    (home / "imported").unlink(missing_ok=True)


def test_no_command_imports_what_only_the_run_names(capsys, foreign):
    home = foreign.parent
    for arguments in (("resume", foreign, "--updates", 3), ("evaluate", foreign), ("sample", foreign)):
        code, _, err = command(capsys, *arguments)
        assert code == 2
        assert f"add {' '.join(NAMED)} (or --trust)" in err
    assert (
        "add --cell foreign_cell:Leaky --reader foreign_cell:Flat (or"
        in command(capsys, "evaluate", foreign, "--task", "foreign_task:Parity")[2]
    )
    assert "--task is os:system" in command(capsys, "evaluate", foreign, "--task", "os:system")[2]
    assert "--reader is os:system" in command(capsys, "evaluate", foreign, *NAMED[:4], "--reader", "os:system")[2]
    with pytest.raises(UserError, match="names code of its own"):
        hrnn.load(foreign)
    with pytest.raises(UserError, match="names code of its own"):
        train(foreign)
    assert command(capsys, "runs", home)[0] == 0
    assert command(capsys, "plot", foreign, "--output", home / "a.svg")[0] == 0
    assert not (home / "imported").exists()
    assert "foreign_task" not in sys.modules


def test_what_the_user_names_or_trusts_is_imported(capsys, foreign):
    assert command(capsys, "evaluate", foreign, *NAMED)[0] == 0
    assert (foreign.parent / "imported").exists()
    assert command(capsys, "resume", foreign, "--updates", 3, "--trust")[0] == 0
    for reader in (NAMED[-1], [NAMED[-1]]):
        assert hrnn.load(foreign, task="foreign_task:Parity", cell="foreign_cell:Leaky", reader=reader).update in (2, 3)
    _, _, err = command(capsys, "resume", foreign, "--updates", 9, "--minutes", 1e-9, *NAMED)
    assert f"hrnn resume {foreign} {' '.join(NAMED)}" in err


def test_a_module_that_is_not_found_is_said_to_have_been_elsewhere(capsys, foreign, monkeypatch):
    monkeypatch.chdir(foreign.parent)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not path.endswith("code")])
    code, _, err = command(capsys, "evaluate", foreign, "--trust")
    assert code == 2
    assert "No module named 'foreign_task'" in err
    assert f"it was in {foreign.parent / 'code'} when the run began: work there, or add that folder to PYTHONPATH" in err


@pytest.mark.parametrize("name", [5, None, [["a:b"]], {"a:b": 1}])
def test_names_that_are_none(tmp_path, name):
    usual = {"cell": "lstm", "reader": ["linear"]}
    sections = [({"name": name}, usual), *(({"name": "copy"}, {**usual, option: name}) for option in usual)]
    for entries in ({"task": task, "model": model} for task, model in sections):
        with pytest.raises(UserError, match="is not a name"):
            Trust(trust=True).load(tmp_path, entries, {})


def test_a_sweep_trusts_what_its_own_command_names(tmp_path):
    model = Model(
        hidden_sizes=(4, 4), periods=(2,), window=4, cell="mine:Cell", reader=("mine:A", "linear", "mine:B", "mine:A")
    )
    trusted = Trust.of(Unit("a", Config(Needle(steps=4), model)).config)
    assert trusted == Trust(cell="mine:Cell", reader=("mine:A", "mine:B"))
    assert trusted.words == ["", "mine:Cell", "mine:A", "mine:B"]
    assert Trust.of(resolved(Config(Needle(steps=4), budget=Budget(updates=1)))) == Trust()
    assert folders.resume_command(tmp_path) == f"hrnn resume {tmp_path}"

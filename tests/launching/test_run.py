"""The engine of many runs: what is missing is trained, once; nothing is overwritten; signals and failures are survived."""

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from hrnn.errors import UserError
from hrnn.formats import numbered
from hrnn.launching.processes import LOG, processes
from hrnn.launching.progress import ProgressTable, last_update, standing
from hrnn.launching.run import run
from hrnn.launching.units import Ending, Unit, prepare
from hrnn.tasks import Copy, Needle
from hrnn.training import folder as folders
from hrnn.training.checkpoint import CheckpointFolder
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, resolved
from hrnn.training.journal import JOURNAL
from hrnn.training.loop import start, train
from tests.commands.sweeping import journal
from tests.holding import ROOT, held, holding
from tests.waiting import PATIENCE, wait_for

PROGRAM = """
import sys
from pathlib import Path
from hrnn.launching.processes import processes
from hrnn.launching.run import run
from tests.launching.test_run import units
ending = run(Path(sys.argv[1]), units(int(sys.argv[2])), processes(2))
sys.exit(130 if ending.interrupted else 1 if ending.failures else 0)
"""


def unit(seed=0, updates=3, **learning):
    config = Config(
        Needle(steps=12, test_sequences=5),
        Model(hidden_sizes=(8, 8), periods=(3,), window=12),
        Learning(batch=4, **learning),
        Budget(updates=updates, validate_every=50),
        Runtime(seed=seed, checkpoint_seconds=0.2, journal_every=1, tensorboard=False),
    )
    return Unit(f"ours/seed-{seed}", resolved(config))


def units(updates=3):
    return [unit(seed, updates) for seed in (0, 1)]


class Notes:
    """A watcher that writes down what it is told."""

    def __init__(self):
        self.told = []

    def changed(self, unit, state):
        self.told.append((unit.name, state))

    def look(self):
        pass


def test_what_is_missing_is_trained_in_order_and_nothing_twice(tmp_path):
    wanted = [unit(0), unit(1), unit(2)]
    start(wanted[0].config, tmp_path / wanted[0].name)
    finished = (tmp_path / wanted[0].name / JOURNAL).read_text()
    half = tmp_path / wanted[2].name
    start(wanted[2].config, half, minutes=0)
    notes = Notes()
    assert run(tmp_path, [wanted[2], wanted[1], wanted[0]], processes(1), notes) == Ending()
    assert notes.told == [(one.name, state) for one in (wanted[2], wanted[1]) for state in ("running", "done")]
    assert (tmp_path / wanted[0].name / JOURNAL).read_text() == finished
    for one in wanted:
        start(one.config, tmp_path / "alone" / one.name)
        assert journal(tmp_path / one.name) == journal(tmp_path / "alone" / one.name)
    again = Notes()
    assert run(tmp_path, wanted, processes(1), again) == Ending()
    assert again.told == []


def test_another_run_in_a_folder_is_refused_before_anything_is_written(tmp_path):
    other = replace(unit(1), name="ours/seed-0")
    folders.create(tmp_path / other.name, other.config, overwrite=False)
    before = (tmp_path / other.name / folders.CONFIG).read_text()
    with pytest.raises(UserError, match=r"ours/seed-0 holds a run with other options \(upkeep.seed is 1 there and 0 here\)"):
        prepare(tmp_path, [unit(3), unit(0)])
    assert (tmp_path / other.name / folders.CONFIG).read_text() == before
    assert not (tmp_path / "ours/seed-3").exists()


def test_a_mistake_in_the_options_is_found_before_anything_is_written(tmp_path):
    wrong = unit(1)
    wrong = replace(wrong, config=replace(wrong.config, budget=Budget(epochs=1)))
    with pytest.raises(UserError, match="--epochs is for tasks whose data end"):
        prepare(tmp_path, [unit(0), wrong])
    assert list(tmp_path.iterdir()) == []


def test_two_calls_in_one_folder_at_the_same_time(tmp_path):
    with folders.locked(tmp_path), pytest.raises(UserError, match="another process"):
        run(tmp_path, units())


def test_one_that_fails_does_not_stop_the_others(tmp_path):
    diverging = unit(0, optimizer="sgd", learning_rate=1e38)
    ending = run(tmp_path, [diverging, unit(1)], processes(1), notes := Notes())
    assert not ending.interrupted
    assert list(ending.failures) == [diverging.name]
    assert "at update" in ending.failures[diverging.name]
    assert notes.told[1] == (diverging.name, f"failed: {ending.failures[diverging.name]}")
    assert folders.read_result(tmp_path / unit(1).name)["updates"] == 3


def begin(folder, variables=None):
    command = [sys.executable, "-c", PROGRAM, str(folder), str(UPDATES)]
    environment = os.environ | (variables or {})
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0, cwd=ROOT, env=environment)


UPDATES, HELD = 60, 12


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The journals of runs that nobody interrupts."""
    places = [tmp_path_factory.mktemp("alone") / "run" for _ in units()]
    for one, place in zip(units(UPDATES), places, strict=True):
        start(one.config, place)
    return [journal(place) for place in places]


@pytest.mark.parametrize("kill", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL])
def test_interrupted_or_killed_it_goes_on_where_it_was(tmp_path, kill, alone):
    """SIGINT to the parent alone; SIGKILL to its whole group, as a terminal that is closed or a machine short of memory."""
    places = [tmp_path / "runs" / one.name for one in units()]
    process = begin(tmp_path / "runs", holding(HELD, tmp_path / "held"))
    for place in places:
        held(tmp_path / "held", place.name, over=process.poll)
    if kill == signal.SIGKILL:
        os.killpg(process.pid, kill)
    else:
        process.send_signal(kill)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == (130 if kill == signal.SIGINT else -kill), said
    wait_for(lambda: not any(folders.is_locked(place) for place in places), "a child is still at work")
    reached = [last_update(place)["update"] for place in places]
    assert reached == [HELD, HELD]
    assert not any((place / folders.RESULT).exists() for place in places)
    checkpoints = [CheckpointFolder(place / folders.CHECKPOINTS, 3).updates()[-1] for place in places]
    assert checkpoints == reached  # the children stopped in order, and nothing is lost
    process = begin(tmp_path / "runs")
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert "continues: update" in said
    assert "ours/seed-1 done: update 60" in said
    for place, uninterrupted in zip(places, alone, strict=True):
        assert journal(place) == uninterrupted


def test_the_table_shows_the_runs_at_work_and_what_failed(tmp_path):
    wanted = [unit(seed, updates=8) for seed in range(30)]
    for one in wanted[:2]:
        start(one.config, tmp_path / one.name, minutes=0)
        train(tmp_path / one.name)
    console = Console(file=io.StringIO(), force_terminal=True, width=150)
    with ProgressTable(tmp_path, wanted, console) as table:
        table.changed(wanted[20], "running")
        table.changed(wanted[21], "failed: out of luck")
        table.look()
    shown = console.file.getvalue()
    assert "2 of 30 done" in shown
    assert "26 waiting" in shown
    assert "out of luck" in shown
    assert "ours/seed-20" in shown
    assert "ours/seed-29" not in shown  # thirty rows would not fit a terminal
    now = standing(tmp_path, wanted[0])
    assert (now.update, now.share) == (8, 1.0)
    assert "accuracy" in now.numbers


def test_a_run_that_ended_stands_with_its_result_and_not_with_its_last_batch(tmp_path):
    one = Unit("both/seed-0", Config(Copy()))
    place = tmp_path / one.name
    place.mkdir(parents=True)
    last = {"kind": "update", "update": 9, "solved": 0, "recalled_bits_per_character": 0.16}
    (place / JOURNAL).write_text(json.dumps(last) + "\n")
    assert standing(tmp_path, one).numbers == "length solved 0, recalled bits 0.1600"
    result = {"longest_solved_length": 24, "test": {"recalled_bits_per_character": 0.125}}
    (place / folders.RESULT).write_text(json.dumps(numbered("run", result)))
    assert standing(tmp_path, one).numbers == "length solved 24, recalled bits 0.1250 on test"


def test_a_journal_that_ends_in_the_middle_of_a_line(tmp_path):
    assert last_update(tmp_path) == {}
    records = [{"kind": "update", "update": 5}, {"kind": "validation", "update": 6}]
    (tmp_path / JOURNAL).write_text("\n".join(map(json.dumps, records)) + '\n{"kind": "upd')
    assert last_update(tmp_path)["update"] == 5


def test_what_a_child_says_is_kept(tmp_path):
    narrow = unit(0)
    model = Model(hidden_sizes=(8, 8, 8), periods=(3, 2), window=narrow.config.window)
    learning = replace(narrow.config.learning, update_every=None)
    narrow = replace(narrow, config=resolved(replace(narrow.config, model=model, learning=learning)))
    assert run(tmp_path, [narrow], processes(1), Notes()) == Ending()
    assert "warning: level 1 has 8 units" in (tmp_path / narrow.name / LOG).read_text()

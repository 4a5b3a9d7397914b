"""Where levels move within a window its loss is optimistic; now and then a window is scored before it is learned."""

import math
from dataclasses import replace

import pytest

from hrnn.cli import main
from hrnn.errors import UserError
from hrnn.state import State
from hrnn.tasks import Needle, Text
from hrnn.training import folder as folders
from hrnn.training import network as networks
from hrnn.training.checkpoint import CheckpointFolder
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, resolved
from hrnn.training.evaluation import score
from hrnn.training.journal import read as read_journal
from hrnn.training.loop import start
from tests.tiny import write_text

QUIET = Runtime(tensorboard=False, journal_every=3)


def updates_of(folder):
    return [record for record in read_journal(folder) if record["kind"] == "update"]


def unlocked(folder, updates, frozen_every=0):
    """A run on a stream of text."""
    folder.mkdir(exist_ok=True)
    config = Config(
        Text(data=(write_text(folder / "text.txt"),), boundaries=(), symbols="bytes"),
        Model(hidden_sizes=(8, 12), periods=(4,), window=20),
        Learning(batch=5, learning_rate=0.02, update="segment", schedule="constant"),
        Budget(updates=updates),
        replace(QUIET, frozen_every=frozen_every),
    )
    run = folder / f"run-{frozen_every}"
    start(config, run)
    return run


def test_a_window_is_scored_before_it_is_learned_and_nothing_else_changes(tmp_path):
    frozen, plain = unlocked(tmp_path, 12, frozen_every=4), unlocked(tmp_path, 12)
    records = updates_of(frozen)
    assert [record["update"] for record in records if "frozen_loss" in record] == [6, 9, 12]  # with what came before
    names = ("frozen_loss", "frozen_bits_per_character", "seconds", "cpu_seconds")
    without = [{name: value for name, value in record.items() if name not in names} for record in records]
    assert without == [{name: value for name, value in one.items() if name not in names} for one in updates_of(plain)]

    earlier, _ = CheckpointFolder(unlocked(tmp_path / "again", 11) / folders.CHECKPOINTS, 3).newest()
    config = folders.read_run(plain).config()
    network = networks.build(config)
    network.load_state_dict(earlier.section("network"))
    (window,) = config.task.batch(11, networks.reading(config)).windows
    values, _, _ = score(network, config.task, window, State.from_tensors(earlier.section("state")))
    assert records[-1]["frozen_loss"] == pytest.approx(float(values.mean()), rel=1e-6)
    assert records[-1]["frozen_bits_per_character"] == pytest.approx(records[-1]["frozen_loss"] / math.log(2))


def test_a_resumed_run_has_the_same_frozen_losses(tmp_path):
    straight, resumed = unlocked(tmp_path, 12, frozen_every=4), unlocked(tmp_path / "again", 5, frozen_every=4)
    assert main(["resume", str(resumed), "--updates", "12"]) == 0  # from a checkpoint with the sums of window 4
    found = [[(record["update"], record.get("frozen_loss")) for record in updates_of(run)] for run in (straight, resumed)]
    assert found[0] == found[1]
    assert [update for update, loss in found[0] if loss] == [6, 9, 12]


def test_it_is_for_levels_that_move_within_a_window(tmp_path):
    config = Config(
        Needle(steps=6, test_sequences=20),
        Model(hidden_sizes=(8, 8), periods=(4,)),
        Learning(batch=5, update="batch"),
        Budget(updates=4),
        replace(QUIET, frozen_every=1),
    )
    start(config, tmp_path / "run")
    assert not any("frozen_loss" in record for record in updates_of(tmp_path / "run"))
    with pytest.raises(UserError, match="--frozen-every is -1"):
        resolved(replace(config, upkeep=replace(QUIET, frozen_every=-1)))

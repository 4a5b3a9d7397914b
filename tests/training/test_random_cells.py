"""Cells that drop out or normalise: a run tests them as they are used later, and draws the same numbers where it is resumed."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import hrnn
from hrnn.cli import main
from hrnn.training.evaluation import evaluate
from hrnn.training.journal import read as read_journal
from hrnn.training.loop import start
from hrnn.training.network import reading
from tests.training.test_average import checkpoint, needle, same

CELL = f"{__name__}:Dropping"


class Dropping(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.hidden, self.cell, self.dropout = hidden, nn.GRUCell(inputs, hidden), nn.Dropout(0.5)
        self.register_buffer("calls", torch.zeros(()))

    def initial_state(self, batch):
        return (self.cell.weight_hh.new_zeros(batch, self.hidden),)

    def step(self, x, state):
        if self.training:  # as batch normalisation would
            self.calls += 1
        return (self.dropout(self.cell(x, state[0])),)


def dropping(average=None, updates=6):
    config = needle("segment", average, updates)
    upkeep = replace(config.upkeep, frozen_every=2)
    return replace(config, model=replace(config.model, cell=CELL, betas=(1.0,)), upkeep=upkeep)


@pytest.mark.parametrize("average", [None, 3.0])
def test_a_run_is_tested_as_it_is_evaluated_later(tmp_path, average):
    result = start(dropping(average), tmp_path / "run").result
    trained = hrnn.load(tmp_path / "run", cell=CELL)
    config = trained.config
    assert evaluate(trained.network, config.task, config.task.evaluation("test", reading(config))) == result["test"]


def test_scoring_changes_nothing_that_is_learned(tmp_path):
    config = dropping()
    start(config, tmp_path / "scored")
    start(replace(config, upkeep=replace(config.upkeep, frozen_every=0)), tmp_path / "not")
    scored, plain = (checkpoint(tmp_path / name, 6).section("network") for name in ("scored", "not"))
    assert any(name.endswith("calls") and float(value) for name, value in scored.items())
    assert same(scored, plain)


def test_a_resumed_run_drops_out_as_one_that_was_not_stopped(tmp_path):
    before = torch.get_rng_state()
    start(dropping(3.0), tmp_path / "straight")
    assert torch.equal(torch.get_rng_state(), before)  # the caller's random numbers
    torch.rand(3)
    start(dropping(3.0, updates=3), tmp_path / "resumed")
    assert main(["resume", str(tmp_path / "resumed"), "--updates", "6", "--cell", CELL]) == 0
    for section in ("network", "average"):
        assert same(*(checkpoint(tmp_path / name, 6).section(section) for name in ("straight", "resumed")))
    losses = [one["loss"] for one in read_journal(tmp_path / "straight") if one["kind"] == "update"]
    assert len(set(losses)) == len(losses)

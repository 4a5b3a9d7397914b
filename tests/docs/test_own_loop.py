"""The loops of docs/own_loop.md: all have the same losses, and those of `hrnn train` on the same sequences."""

import json
import sys
import types
from dataclasses import dataclass

import pytest
import torch

import hrnn
from hrnn.tasks import Batch, Task, Window, cross_entropy
from hrnn.training.config import Budget, Config, Learning, Model, Runtime
from hrnn.training.loop import start
from tests.docs.documented import DOCS, code_in

SHARED, PLAIN, ACCELERATE, LIGHTNING = code_in(DOCS / "own_loop.md")
LOOPS = {"plain": PLAIN, "accelerate": ACCELERATE, "lightning": LIGHTNING}
PAGE = "docs_own_loop"


def looped(monkeypatch, loop, updates=None, **lengths):
    """The losses of a loop of the page; lengths: other ones of its sequences."""
    module = types.ModuleType(PAGE)
    monkeypatch.setitem(sys.modules, PAGE, module)
    names = vars(module)
    exec(compile(SHARED, "own_loop.md", "exec"), names)
    for name, value in lengths.items():
        setattr(names["Bits"], name, value)
    names["UPDATES"] = updates or names["UPDATES"]
    exec(compile(LOOPS[loop], "own_loop.md", "exec"), names)
    return names


def trained(page, folder, monkeypatch):
    """`hrnn train` on the same batches, with the setting that the page has: the loss of every update."""

    @dataclass(frozen=True)
    class SameBits(Task):
        inputs, outputs = hrnn.Tokens(3), 3

        def loss(self, logits, target):
            return cross_entropy(logits, target)

        def batch(self, index, reading):
            items = page["Bits"](page["UPDATES"] * page["ROWS"])
            batch = page["padded"]([items[index * reading.batch + row] for row in range(reading.batch)])
            assert len(set(batch["lengths"].tolist())) == 1  # otherwise a mask would be needed, and padding would be decoded
            return Batch([Window(batch["x"], batch["y"])])

        def parts(self):
            return ()

        def evaluation(self, part, reading):
            yield from ()

    module = types.ModuleType("same_bits")
    module.SameBits, SameBits.__module__, SameBits.__qualname__ = SameBits, "same_bits", "SameBits"
    monkeypatch.setitem(sys.modules, "same_bits", module)
    config = Config(
        SameBits(),
        Model(hidden_sizes=(24, 24), periods=(4,), window=100, betas=(1.0,)),
        Learning(batch=page["ROWS"], update="batch", learning_rate=page["RATE"], clip=1.0, average=None),
        Budget(updates=page["UPDATES"]),
        Runtime(tensorboard=False, journal_every=1),
    )
    start(config, folder)
    records = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    return [record["loss"] for record in records if record["kind"] == "update"]


def test_the_plain_loop_has_the_losses_of_hrnn_train(monkeypatch, tmp_path):
    page = looped(monkeypatch, "plain", updates=8, shortest=4)
    assert page["losses"] == pytest.approx(trained(page, tmp_path / "run", monkeypatch), abs=1e-4)


def test_the_plain_loop_learns_sequences_of_different_lengths(monkeypatch):
    losses = looped(monkeypatch, "plain")["losses"]
    assert sum(losses[-3:]) / 3 < 0.6 * losses[0]


@pytest.mark.long
@pytest.mark.parametrize("loop", ["accelerate", "lightning"])
def test_the_other_loops_have_the_losses_of_the_plain_one_and_of_hrnn_train(loop, monkeypatch, tmp_path):
    pytest.importorskip(loop, reason=f"{loop} is not installed: pip install {loop}")
    monkeypatch.chdir(tmp_path)
    plain, other = (looped(monkeypatch, name)["losses"] for name in ("plain", loop))
    assert len(other) == len(plain)
    assert other == pytest.approx(plain, abs=1e-5)
    page = looped(monkeypatch, loop, shortest=4)
    assert page["losses"] == pytest.approx(trained(page, tmp_path / "run", monkeypatch), abs=1e-3)


@pytest.mark.long
def test_the_plain_loop_ends_where_hrnn_train_ends(monkeypatch, tmp_path):
    page = looped(monkeypatch, "plain", updates=600, shortest=4)
    learned, there = page["losses"], trained(page, tmp_path / "run", monkeypatch)
    assert sum(learned[-10:]) / 10 == pytest.approx(sum(there[-10:]) / 10, abs=0.02)
    assert sum(learned[-10:]) / 10 < 0.1  # who tells blanks from bits and guesses the bits has 0.35
    assert torch.isfinite(torch.tensor(learned)).all()

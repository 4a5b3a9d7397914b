"""--gradient: every method by its name, with its knob, in a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import hrnn
from hrnn.errors import UserError
from hrnn.tasks import Copy
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, resolved
from hrnn.training.loop import start, train
from hrnn.training.methods import METHODS, parsed
from hrnn.training.network import build

SMALL = Config(
    Copy(length=6, test_sequences=10),
    Model(hidden_sizes=(5, 6), periods=(3,), window=12, decoder_units=4),
    Learning(batch=4, update="batch", average=None),
    Budget(updates=4),
    Runtime(tensorboard=False, journal_every=1),
)
NAMES = {
    "restricted": "restricted",
    "full": "full",
    "truncated": "truncated:5",
    "checkpointed": "checkpointed",
    "checkpointed-top": "checkpointed-top",
    "replay": "replay:0.5",
    "synthetic": "synthetic",
}


def with_gradient(name, **changes):
    return replace(SMALL, model=replace(SMALL.model, gradient=name, **changes))


def losses(folder):
    trained = hrnn.load(folder, checkpoint="last")
    return {name: value.clone() for name, value in trained.network.state_dict().items()}


def same(a, b, tolerance=0.0):
    return all(float((a[name] - b[name]).abs().max()) <= tolerance for name in b if name in a)


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """The weights after a few updates, by method."""
    assert set(NAMES) == set(METHODS)
    place, found = tmp_path_factory.mktemp("methods"), {}
    for name, option in NAMES.items():
        start(with_gradient(option), place / name)
        found[name] = losses(place / name)
    return found


def test_methods_that_claim_to_be_equal_learn_the_same(learned):
    assert Model("ours").method == "restricted"
    assert Model("hrnn").method == "full"
    assert same(learned["checkpointed"], learned["full"], 1e-5)
    assert same(learned["checkpointed-top"], learned["restricted"], 1e-5)
    others = ("full", "truncated", "replay", "synthetic")
    for name in others:
        assert not same(learned[name], learned["restricted"], 1e-4), name
    assert not same(learned["truncated"], learned["full"], 1e-4)


def test_where_nothing_hidden_goes_up_all_learn_the_same(tmp_path):
    edges = {"reads": ("inputs",), "context": ("state",), "output_levels": "all", "burn_in": 2, "segments": (2,)}
    found = []
    for model, gradient in (("ours", None), ("hrnn", None), ("gr-hrnn", "checkpointed")):
        start(with_gradient(gradient, model=model, **edges), tmp_path / model)
        found.append(losses(tmp_path / model))
    assert same(found[0], found[1], 1e-5)
    assert same(found[0], found[2], 1e-5)
    assert not same(found[0], build(resolved(with_gradient(None, **edges))).state_dict(), 1e-3), "they learn"


def test_a_method_with_weights_of_its_own_goes_on_where_it_stopped(tmp_path):
    config = with_gradient("synthetic")
    start(config, tmp_path / "whole")
    start(replace(config, budget=Budget(updates=2)), tmp_path / "parts")
    train(tmp_path / "parts", budget=Budget(updates=4))
    whole, parts = losses(tmp_path / "whole"), losses(tmp_path / "parts")
    own = [name for name in whole if name.startswith("method.")]
    assert own
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    fresh = build(resolved(config)).state_dict()
    assert not any(torch.equal(whole[name], fresh[name]) for name in own if "weight" in name), "they learn"


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("biased-replay:0.2", "--gradient is 'biased-replay:0.2'; give one of restricted, full"),
        ("nonsense", "--gradient is 'nonsense'; give one of restricted, full"),
        ("truncated", "give truncated:50, so many steps"),
        ("truncated:0", "give truncated:50"),
        ("truncated:x", "give truncated:50"),
        ("checkpointed:much", "checkpointed:100MB"),
        ("replay", "give replay:0.2"),
        ("replay:2", "a probability"),
        ("replay:nan", "a probability"),
        ("full:3", "give full, which has no knob"),
    ],
)
def test_what_is_no_method_is_refused(option, words):
    with pytest.raises(UserError) as error:
        resolved(with_gradient(option))
    assert words in str(error.value)


def test_what_does_not_go_together_is_refused():
    segment = replace(SMALL.learning, update="segment")
    with pytest.raises(UserError, match="complete when a segment ends, which replay"):
        resolved(replace(with_gradient("replay:0.5"), learning=segment))
    with pytest.raises(UserError, match="which --model mr-hrnn does not take"):
        resolved(with_gradient("checkpointed", model="mr-hrnn"))
    flat = Config(Copy(), Model("lstm", gradient="synthetic"), SMALL.learning)
    with pytest.raises(UserError, match="which --model lstm does not take"):
        resolved(flat)
    assert resolved(replace(flat, model=Model("lstm", gradient="truncated:20"))).model.method == "truncated:20"
    assert resolved(Config(Copy(), Model(gradient="full"))).learning.update == "batch"


def test_knobs():
    assert parsed("checkpointed:1.5MB")[1] == 1_500_000
    assert parsed("truncated:007")[1] == 7
    assert parsed("replay:1")[1] == 1.0
    method, knob = parsed("truncated:50")
    assert (method.keeps(1000, knob), method.keeps(20, knob)) == (50, 20)
    assert METHODS["checkpointed"].keeps(10_000, None) == 100


def test_too_little_memory_is_refused_before_there_is_a_folder_or_an_old_run_is_replaced(tmp_path):
    start(SMALL, tmp_path / "run")
    before = (tmp_path / "run" / "config.json").read_bytes()
    for folder in ("run", "new"):
        with pytest.raises(UserError, match=r"--gradient is 'checkpointed:1KB': bytes is 1000, and .* give at least that"):
            start(with_gradient("checkpointed:1KB"), tmp_path / folder, overwrite=True)
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "run" / "config.json").read_bytes() == before

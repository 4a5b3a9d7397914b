"""Averaged weights: what they are, who uses them, and that training does not."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from hrnn.cli import main
from hrnn.errors import UserError
from hrnn.tasks import Copy, Needle
from hrnn.training import folder as folders
from hrnn.training.average import Average
from hrnn.training.checkpoint import read as read_checkpoint
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, resolved
from hrnn.training.evaluation import evaluate, values_of
from hrnn.training.journal import read as read_journal
from hrnn.training.learning import learn
from hrnn.training.loop import start
from hrnn.training.network import build, reading
from hrnn.training.run import Run
from hrnn.training.saving import return_to, save
from hrnn.training.sizes import bytes_needed, weights
from hrnn.training.trained import load

EVERY = Runtime(tensorboard=False, journal_every=2, checkpoint_seconds=0, checkpoints=100)  # a checkpoint after every batch


def needle(update="batch", average=3.0, updates=6):
    return Config(
        Needle(steps=12, test_sequences=40),
        Model(hidden_sizes=(8, 8), periods=(4,), window=12),
        Learning(batch=5, learning_rate=0.05, update=update, average=average),
        Budget(updates=updates, validate_every=2),
        EVERY,
    )


def checkpoint(folder, update):
    return read_checkpoint(folder / "checkpoints" / f"update-{update:09d}.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def by_hand(folder, updates, constant):
    """From the weights after every update; what decoders know of their targets is no weight, and copied."""
    average = checkpoint(folder, 1).section("network")
    for update in range(2, updates + 1):
        weights = checkpoint(folder, update).section("network")
        average = {name: value + (weights[name] - value) / constant for name, value in average.items()}
        average |= {name: value for name, value in weights.items() if ".statistics." in name}
    return average


@pytest.mark.parametrize("update", ["batch", "segment"])
def test_it_is_the_moving_average_and_what_is_validated_tested_and_loaded(tmp_path, update):
    run = tmp_path / "run"
    config = needle(update)
    result = start(config, run).result
    assert same(checkpoint(run, 1).section("average"), checkpoint(run, 1).section("network"))
    for update in (2, 6):
        found, expected = checkpoint(run, update).section("average"), by_hand(run, update, 3.0)
        assert found.keys() == expected.keys()
        assert all(torch.allclose(found[name], expected[name], rtol=1e-5, atol=1e-6) for name in found)
    config = resolved(config)
    for record in read_journal(run):
        if record["kind"] == "validation":
            network = build(config)
            network.load_state_dict(checkpoint(run, record["update"]).section("average"))
            scores = evaluate(network, config.task, config.task.evaluation("validation", reading(config)))
            assert scores["loss"] == record["loss"]
            network.load_state_dict(checkpoint(run, record["update"]).section("network"))
            scores = evaluate(network, config.task, config.task.evaluation("validation", reading(config)))
            assert scores["loss"] != record["loss"]
    for which in ("best", "last"):
        trained = load(run, which)
        assert same(trained.network.state_dict(), checkpoint(run, trained.update).section("average"))
    best = load(run).network
    assert evaluate(best, config.task, config.task.evaluation("test", reading(config))) == result["test"]


@pytest.mark.parametrize("update", ["batch", "segment"])
def test_training_does_not_use_it(tmp_path, update):
    for name, average in (("with", 3.0), ("without", None)):
        start(needle(update, average), tmp_path / name)
    averaged, plain = (checkpoint(tmp_path / name, 6) for name in ("with", "without"))
    assert same(averaged.section("network"), plain.section("network"))
    assert averaged.section("average").keys() == averaged.section("network").keys()
    assert not plain.section("average")
    assert same(load(tmp_path / "without", "last").network.state_dict(), plain.section("network"))


def test_a_constant_of_one_is_the_weights(tmp_path):
    start(needle(average=1.0), tmp_path / "run")
    last = checkpoint(tmp_path / "run", 6)
    assert same(last.section("average"), last.section("network"))


@pytest.mark.parametrize("update", ["batch", "segment"])
def test_a_resumed_run_has_the_same_average(tmp_path, update):
    start(needle(update), tmp_path / "straight")
    for updates in (1, 4):
        resumed = tmp_path / f"resumed-{updates}"
        start(needle(update, updates=updates), resumed)
        assert main(["resume", str(resumed), "--updates", "6"]) == 0
        first, second = (checkpoint(folder, 6) for folder in (tmp_path / "straight", resumed))
        assert same(first.section("average"), second.section("average"))
        assert not same(first.section("average"), first.section("network"))


def test_a_curriculum_tests_the_average_and_returns_to_it(tmp_path):
    config = Config(
        Copy(start=1, step=1, until=2, solved=0.9, test_sequences=50),
        Model(hidden_sizes=(8, 8), periods=(2,), window=10),
        Learning(batch=10, learning_rate=0.02, update="batch", average=8.0),
        Budget(updates=200),
        EVERY,
    )
    run = tmp_path / "run"
    start(config, run)
    config, first = resolved(config), next(record for record in read_journal(run) if record["kind"] == "length")
    assert first["outcome"] == "solved"
    tests = checkpoint(run, first["update"]).facts["course"]["tests"]
    network, bits = build(config), {}
    for section in ("average", "network"):
        network.load_state_dict(checkpoint(run, first["update"]).section(section))
        batches = config.task.tests("test", tests, 1, reading(config))
        (values,) = zip(*(values_of(network, config.task, batch) for batch in batches), strict=True)
        bits[section] = float(torch.cat(values, 1)[1].double().mean() / torch.log(torch.tensor(2.0)))
    assert first["recalled_bits_per_character"] == pytest.approx(bits["average"], abs=1e-6)
    assert first["recalled_bits_per_character"] != pytest.approx(bits["network"], abs=1e-4)

    folder = tmp_path / "other"
    folder.mkdir()
    other = Run(config, folder)
    for _ in range(3):
        list(learn(other, other.course.batch(0)))
    save(other)
    then = {name: value.clone() for name, value in other.average.network.state_dict().items()}
    list(learn(other, other.course.batch(1)))
    assert not same(then, other.average.network.state_dict())
    return_to(other, 3)
    assert same(then, other.average.network.state_dict())
    assert other.position.updates == 4


def test_buffers_are_copied():
    def module(value):
        one = nn.Linear(2, 2)
        nn.init.constant_(one.weight, value)
        one.register_buffer("seen", torch.tensor(int(value)))
        return one

    average = Average(module(0.0), 4.0)
    average.add(module(8.0), 1)
    average.add(module(16.0), 2)
    assert bool((average.network.weight == 10).all())
    assert average.network.seen == 16


def test_it_is_counted_where_a_run_may_be_too_large():
    on, off = (resolved(needle(average=average)) for average in (3.0, None))
    more = bytes_needed(on)["weights"] - bytes_needed(off)["weights"]
    assert more == 2 * 4 * weights(on)  # itself, and in a checkpoint
    assert bytes_needed(on, learning=False) == bytes_needed(off, learning=False)


def test_it_can_be_turned_off_and_its_constant_is_checked(tmp_path):
    small = ["copy", "--length", "2", "--hidden-sizes", "4", "4", "--periods", "2", "--window", "4", "--updates", "1"]
    for name, words, expected in (("off", ["--average", "None"], None), ("on", [], 5.0), ("ten", ["--average", "10"], 10.0)):
        assert main(["train", *small, *words, "--run", str(tmp_path / name)]) == 0
        assert folders.read_run(tmp_path / name).config().learning.average == expected
    with pytest.raises(UserError, match=r"--average is 0\.5"):
        resolved(needle(average=0.5))
    with pytest.raises(UserError, match="--average is"):
        resolved(replace(needle(), learning=Learning(average=float("nan"))))

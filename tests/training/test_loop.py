"""One run end to end, in this process: what it writes, how it stops, what it says."""

import json
from dataclasses import replace

import pytest
import torch

from hrnn.errors import DivergedError, UserError
from hrnn.tasks import Copy, Needle, Pixels, Text
from hrnn.training import folder as folders
from hrnn.training.checkpoint import read as read_checkpoint
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, resolved
from hrnn.training.evaluation import Sums
from hrnn.training.journal import read as read_journal
from hrnn.training.learning import learn
from hrnn.training.loop import start, train
from hrnn.training.run import Run
from hrnn.training.saving import save
from tests.tiny import write_mnist, write_text

SMALL = Model(hidden_sizes=(8, 8), periods=(4,), window=40)
QUIET = Runtime(tensorboard=False, journal_every=2)


def of_kind(folder, kind):
    return [record for record in read_journal(folder) if record["kind"] == kind]


@pytest.mark.parametrize("update", ["batch", "segment"])
def test_text_without_boundaries_ticks_by_periods(tmp_path, update):
    config = Config(
        Text(data=(write_text(tmp_path / "text.txt"),), boundaries=(), symbols="bytes"),
        Model(hidden_sizes=(8, 12), periods=(4,), window=20),
        Learning(batch=5, learning_rate=0.02, update=update),
        Budget(updates=20),
        QUIET,
    )
    start(config, tmp_path / "run")
    updates = of_kind(tmp_path / "run", "update")
    assert updates[-1]["bits_per_character"] < updates[0]["bits_per_character"] - 0.5


@pytest.mark.parametrize(
    ("budget", "updates"),
    [(Budget(updates=7), 7), (Budget(sequences=20), 4), (Budget(updates=7, sequences=20), 4), (Budget(epochs=0.5), 22)],
)
def test_budgets_count_updates_sequences_or_epochs(tmp_path, budget, updates):
    data = write_mnist(tmp_path / "mnist", training=240, test=5)
    config = Config(Pixels(data=data, pool=4), SMALL, Learning(batch=5, update="batch"), budget, QUIET)
    assert start(config, tmp_path / "run").result["updates"] == updates


def test_a_time_limit_stops_for_now_and_nothing_else(tmp_path):
    config = Config(Needle(steps=6, test_sequences=5), SMALL, Learning(batch=5), Budget(updates=6), QUIET)
    straight = start(config, tmp_path / "straight").result
    stopped = start(config, tmp_path / "run", minutes=0.0)
    assert stopped.stopped == "time limit"
    assert folders.read_result(tmp_path / "run") is None
    assert train(tmp_path / "run").result["test"] == straight["test"]


def weights(folder):
    return read_checkpoint(max((folder / "checkpoints").glob("*.safetensors"))).section("network")


def test_gradients_of_a_batchs_windows_are_summed_before_the_update(tmp_path):
    model = replace(SMALL, window=5, model="hrnn")
    config = resolved(Config(Copy(length=6), model, Learning(batch=5), Budget(updates=1), QUIET))
    (tmp_path / "run").mkdir()
    run, other = Run(config, tmp_path / "run"), Run(config, tmp_path / "run")
    batch = run.course.batch(0)
    assert len(batch.windows) == 3
    (sums,) = learn(run, batch)
    network, state, total = other.network, None, 0.0
    for window in batch.windows:
        result = other.gradient.backward(
            network.levels,
            window.x,
            window.y,
            loss=lambda output, target: other.task.loss(network(output), target),
            betas=config.betas,
            state=state,
            weight=1 / 60,
            local_weight=1 / 60,
            generator=other.indices,
        )
        state, total = result.state, total + float(result.loss)
    assert total == pytest.approx(sums.loss / 60)
    other.optimizers[0].step()
    expected = network.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in run.network.state_dict().items())


def test_an_update_per_window_moves_more_often(tmp_path):
    for update, count in (("batch", 4), ("window", 12)):
        config = Config(
            Copy(length=6, test_sequences=10),
            replace(SMALL, window=5),
            Learning(batch=5, update=update),
            Budget(sequences=20),
            QUIET,
        )
        assert start(config, tmp_path / update).result["updates"] == count
    first, second = weights(tmp_path / "batch"), weights(tmp_path / "window")
    assert any(not torch.equal(first[name], second[name]) for name in first)


def test_levels_move_within_the_window(tmp_path):
    found = {}
    for name, update, every in (("locked", "window", None), ("never", "segment", (0,)), ("each", "segment", (1,))):
        config = Config(
            Copy(length=6, test_sequences=10),
            replace(SMALL, window=8),
            Learning(batch=5, update=update, update_every=every, clip=None),  # which is by level or over all
            Budget(sequences=20),
            QUIET,
        )
        assert start(config, tmp_path / name).result["updates"] == 8
        found[name] = weights(tmp_path / name)
        moves = of_kind(tmp_path / name, "update")[-1].get("moves")
        # Four batches of 12 steps: windows of 8 and 4, in segments of 4.
        assert moves == {"locked": None, "never": [8, 8], "each": [12, 8]}[name]
    assert all(torch.equal(value, found["locked"][name]) for name, value in found["never"].items())
    assert any(not torch.equal(value, found["locked"][name]) for name, value in found["each"].items())


@pytest.mark.parametrize(
    "learning",
    [
        Learning(batch=5, clip=1e-3),
        Learning(batch=5, schedule="cosine"),
        Learning(batch=5, schedule="linear"),
        Learning(batch=5, warmup=3),
        Learning(batch=5, weight_decay=0.1),
        Learning(batch=5, optimizer="sgd"),
        Learning(batch=5, optimizer="sgd", momentum=0.9),
    ],
)
def test_every_option_of_learning_changes_something(tmp_path, learning):
    budget = Budget(updates=3)
    plain = Learning(batch=5, optimizer=learning.optimizer)
    if plain == learning:
        plain = Learning(batch=5)
    for name, options in (("plain", plain), ("changed", learning)):
        start(Config(Copy(length=3, test_sequences=10), SMALL, options, budget, QUIET), tmp_path / name)
    first, second = weights(tmp_path / "plain"), weights(tmp_path / "changed")
    assert any(not torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    "change",
    [
        {"cell": "gru"},
        {"indices": "sampled"},
        {"decoder_units": 4},
        {"decoder_layers": 3},
        {"betas": (0.1,)},
        {"output_levels": "all"},
        {"reads": ("both",)},
        {"context": ("state",)},
        {"reads": ("inputs",), "reader": ("maximum",)},
        {"reads": ("inputs",), "burn_in": 2},
        {"reads": ("inputs",), "segments": (1,)},
    ],
)
def test_every_option_of_the_model_changes_something(tmp_path, change):
    plain = replace(SMALL, reads=change["reads"]) if len(change) > 1 else SMALL
    for name, model in (("plain", plain), ("changed", replace(SMALL, **change))):
        start(
            Config(Copy(length=4, test_sequences=10), model, Learning(batch=5), Budget(updates=2), QUIET),
            tmp_path / name,
        )
    first, second = weights(tmp_path / "plain"), weights(tmp_path / "changed")
    assert first.keys() != second.keys() or any(
        first[name].shape != second[name].shape or not torch.equal(first[name], second[name]) for name in first
    )


def test_the_same_seed_gives_the_same_run_and_another_another(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        start(
            Config(
                Copy(length=3, test_sequences=10),
                SMALL,
                Learning(batch=5),
                Budget(updates=3),
                replace(QUIET, seed=seed),
            ),
            tmp_path / name,
        )
    a, b, c = (weights(tmp_path / name) for name in "abc")
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert any(not torch.equal(a[name], c[name]) for name in a)


@pytest.mark.parametrize(
    ("update", "said"),
    [("batch", r"the loss is nan at update \d+"), ("segment", r"the gradient of level 0 is not finite at update \d+$")],
)
def test_a_loss_that_is_no_number_stops_the_run_before_it_spoils_the_weights(tmp_path, monkeypatch, update, said):
    config = Config(
        Copy(length=3, test_sequences=10),
        SMALL,
        Learning(batch=5, update=update),
        Budget(updates=40),
        replace(QUIET, checkpoint_seconds=0),
    )
    honest = Copy.loss

    def poisoned(self, logits, target):
        values, sums = honest(self, logits, target)
        poisoned.calls += 1
        return (values * float("nan") if poisoned.calls > 60 else values), sums

    poisoned.calls = 0
    monkeypatch.setattr(Copy, "loss", poisoned)
    with pytest.raises(DivergedError, match=said):
        start(config, tmp_path / "run")
    good = weights(tmp_path / "run")
    assert all(bool(torch.isfinite(value).all()) for value in good.values())
    monkeypatch.setattr(Copy, "loss", honest)
    assert train(tmp_path / "run").result["updates"] == 40


@pytest.mark.parametrize("update", ["batch", "segment"])
def test_a_step_beyond_float32_is_divergence(tmp_path, update):
    learning = Learning(batch=5, optimizer="adamax", learning_rate=9e37, update=update)  # which adamax divides by 0.1
    with pytest.raises(DivergedError, match="a step is too large for any weight at update 1"):
        start(Config(Copy(length=3), SMALL, learning, Budget(updates=4), QUIET), tmp_path / "run")
    assert all(bool(torch.isfinite(value).all()) for value in weights(tmp_path / "run").values())


def test_the_network_of_a_new_run_is_built_once(tmp_path, monkeypatch):
    from hrnn.training import network

    built = []
    monkeypatch.setattr(network, "Network", lambda config, kind=network.Network: built.append(kind(config)) or built[-1])
    for average, networks in ((None, 1), (5.0, 2)):  # averaged weights have one of their own
        built.clear()
        learning = Learning(batch=5, average=average)
        start(Config(Copy(length=3), SMALL, learning, Budget(updates=1), QUIET), tmp_path / f"run-{average}")
        assert len(built) == networks


def test_sums_come_back_from_json_and_add_up():
    first = Sums(1.5, 3, {"right": 2.0}, {0: 0.25, 2: 4.0}, 6, Sums(0.5, 1, {"right": 1.0}))
    again = Sums.from_json(json.loads(json.dumps(first.to_json())))
    assert again == first
    again.add(first)
    assert again == Sums(3.0, 6, {"right": 4.0}, {0: 0.5, 2: 8.0}, 12, Sums(1.0, 2, {"right": 2.0}))
    assert first.local_losses([1, 0, 0.1]) == [0.25 / 6, None, 4.0 / 6]
    assert replace(first, frozen=Sums(float("nan"), 1)).finite
    assert not replace(first, local={0: float("inf")}).finite


def test_weights_that_are_no_numbers_are_never_saved(tmp_path):
    config = resolved(Config(Copy(length=3, test_sequences=10), SMALL, Learning(batch=5), Budget(updates=4), QUIET))
    (tmp_path / "run").mkdir()
    run = Run(config, tmp_path / "run")
    with torch.no_grad():
        run.network.head.bias[0] = float("inf")
    with pytest.raises(DivergedError, match="weights"):
        save(run)
    assert not list((tmp_path / "run").glob("checkpoints/*"))


def test_two_processes_cannot_train_one_run(tmp_path):
    config = Config(Copy(length=3, test_sequences=10), SMALL, Learning(batch=5), Budget(updates=2), QUIET)
    start(config, tmp_path / "run")
    with folders.locked(tmp_path / "run"):
        assert folders.is_locked(tmp_path / "run")
        with pytest.raises(UserError, match="another process"):
            train(tmp_path / "run")
    assert not folders.is_locked(tmp_path / "run")


def test_the_journal_and_tensorboard_agree(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = Config(
        Copy(length=3, test_sequences=10), SMALL, Learning(batch=5), Budget(updates=6), replace(QUIET, tensorboard=True)
    )
    start(config, tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    losses = [(event.step, event.value) for event in events.Scalars("update/loss")]
    assert losses == [(r["update"], pytest.approx(r["loss"])) for r in of_kind(tmp_path / "run", "update")]
    assert "update/local_losses/0" in events.Tags()["scalars"]


def test_bad_data_leave_no_folder_behind(tmp_path):
    (tmp_path / "a.txt").write_text("abc " * 100)
    (tmp_path / "b.txt").write_text("xyz " * 100)
    task = Text(data=(tmp_path / "a.txt",), test=tmp_path / "b.txt", unknown=False)
    with pytest.raises(UserError, match="never had"):
        start(Config(task, Model(hidden_sizes=(8, 8), window=5), Learning(batch=5), Budget(updates=1)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match="--epochs is for tasks whose data end"):
        start(Config(Copy(), SMALL, budget=Budget(epochs=1)), tmp_path / "run")


def test_a_users_cell_is_trained_by_name(tmp_path, monkeypatch):
    (tmp_path / "cells_of_mine.py").write_text(
        "import torch\n"
        "class Leaky(torch.nn.Module):\n"
        "    def __init__(self, input_size, hidden_size):\n"
        "        super().__init__()\n"
        "        self.hidden_size = hidden_size\n"
        "        self.new = torch.nn.Linear(input_size + hidden_size, hidden_size)\n"
        "    def initial_state(self, batch):\n"
        "        return (torch.zeros(batch, self.hidden_size),)\n"
        "    def step(self, x, state):\n"
        "        return (0.5 * state[0] + 0.5 * torch.tanh(self.new(torch.cat([x, state[0]], 1))),)\n"
    )
    monkeypatch.chdir(tmp_path)
    config = Config(
        Copy(length=3, test_sequences=10),
        replace(SMALL, cell="cells_of_mine:Leaky"),
        Learning(batch=5),
        Budget(updates=2),
        QUIET,
    )
    assert start(config, tmp_path / "run").result["updates"] == 2
    entries = folders.read_entries(tmp_path / "run")
    assert (entries["model"]["cell"], entries["learning"]["update"]) == ("cells_of_mine:Leaky", "segment")


def test_a_single_level_moves_by_itself_too(tmp_path):
    config = Config(Copy(length=3), Model(hidden_sizes=(8,), periods=(), window=4), Learning(batch=5), Budget(updates=4), QUIET)
    assert start(config, tmp_path / "run").result["updates"] == 4
    assert folders.read_entries(tmp_path / "run")["learning"]["update"] == "segment"
    assert of_kind(tmp_path / "run", "update")[-1]["moves"] == [4]  # once a window

"""The recipes are the paper's, what should be equal between the rows of a table is equal, and the figures are well typed."""

import dataclasses
from pathlib import Path
from statistics import fmean, pstdev

import pytest

from hrnn.errors import UserError
from hrnn.studies.catalogue import STUDIES
from hrnn.studies.paper import EXPERIMENTS
from hrnn.studies.plan import Request, memory_of
from hrnn.studies.published import PUBLISHED
from hrnn.studies.recipes import COPY, complete, copy_ours, mnist_ours, ptb_ours, with_defaults, with_model
from hrnn.studies.searched import SEARCHED
from hrnn.studies.unlocked import UNLOCKED
from hrnn.tasks import Copy, Needle, Pixels, Text
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, resolved
from hrnn.training.network import unrolled
from tests.tiny import write_mnist


@pytest.fixture
def data(tmp_path):
    """Enough for a configuration to be resolved: MNIST is not read for that, Penn TreeBank's alphabet is."""
    (tmp_path / "mnist").mkdir()
    (tmp_path / "ptb").mkdir()
    for part in ("train", "valid", "test"):
        (tmp_path / "ptb" / f"ptb.{part}.txt").write_text("a few words of text\n" * 20)
    return tmp_path


def configs(experiment, profile, data):
    experiment = STUDIES[experiment] if isinstance(experiment, str) else experiment
    request = Request(experiment, data, profile, data=data)
    return {row.name: request.config(row, seed=7) for row in request.rows}


def all_configs(data, experiments=()):
    for experiment in experiments or (*STUDIES.values(), *SEARCHED.values()):
        for profile in experiment.profiles:
            yield experiment, profile, configs(experiment, profile, data)


def literal(rows):
    """Those that follow the paper to the letter, and unlocked updates."""
    return {name: config for name, config in rows.items() if name != "default"}


def test_every_row_is_a_run_and_rows_differ_in_what_they_are_about_only(data):
    for experiment, profile, every in all_configs(data, EXPERIMENTS.values()):
        rows = literal(every)
        assert all(config.upkeep.seed == 7 and config.upkeep.threads == 1 for config in rows.values())
        if experiment.name == "needle-long":  # equal steps at every length, not equal sequences
            assert len({config.budget.sequences * config.task.steps for config in rows.values()}) == 1
            continue
        assert len({config.budget for config in rows.values()}) == 1, (experiment.name, profile)
        assert len({config.task for config in rows.values()}) == 1
        assert len({(config.learning.learning_rate, config.learning.batch) for config in rows.values()}) == 1
        if experiment.name not in ("needle", "deep-copy"):
            assert len({config.betas for config in rows.values() if config.model.model != "gr-hrnn"}) == 1
        assert rows["unlocked"].learning.update == "segment"
        assert all(config.learning.update == "batch" for name, config in rows.items() if name != "unlocked")
        assert all(config.model.indices == "sampled" for config in rows.values())
        if (experiment.name, profile) != ("ptb", "paper"):
            default, other = every["default"], rows["unlocked"]
            assert (default.task, default.budget) == (other.task, other.budget)
            assert default.learning.learning_rate == other.learning.learning_rate


def test_defaults_are_spelled_out_and_fit_the_model(data):
    ours = with_defaults(copy_ours("desk"))
    assert (ours.betas, ours.model.indices) == ((1.0,), "all")
    assert (ours.learning.update, ours.learning.update_every, ours.learning.clip) == ("segment", (1,), 1.0)
    true = with_defaults(with_model("hrnn")(copy_ours("desk")))
    assert (true.betas, true.model.indices, true.learning.clip) == ((1.0,), "all", 1.0)
    assert (true.learning.update, true.learning.update_every) == ("batch", None)
    for name in ("copy", "ptb", "deep-copy"):
        spelled = configs(name, "desk", data)["default"]
        model, learning = spelled.model, spelled.learning
        user = Config(
            spelled.task,
            Model(hidden_sizes=model.hidden_sizes, periods=model.periods, window=model.window),
            Learning(batch=learning.batch, learning_rate=learning.learning_rate, schedule=learning.schedule),
            spelled.budget,
            spelled.upkeep,
        )
        assert resolved(user) == spelled, "what a user gets who sets nothing else"
    paper = configs("ptb", "paper", data)["default"]
    assert (paper.window, paper.budget.epochs) == (200, 12)
    assert (paper.learning.learning_rate, paper.learning.schedule) == (2e-3, "cosine")


def test_tables_of_our_defaults_are_of_what_a_user_gets_who_names_a_task_and_nothing_else(data):
    (data / "ptb" / "ptb.train.txt").write_text("a few words of text\n" * 90_000)  # enough for batches of 100
    learned = {
        ("copy-from-20", "paper"): Copy(until=108),
        ("mnist-784", "paper"): Pixels(data=data / "mnist"),
        ("permuted-mnist-784", "paper"): Pixels(data=data / "mnist", permuted=True),
        ("ptb", "paper"): Text(data=(data / "ptb",), unknown=False),
        ("needle", "desk"): Needle(),
    }
    for (name, profile), task in learned.items():
        row = configs(name, profile, data)["default"]
        window = 50 if name == "needle" else None  # all of a sequence, which a longer one has, too
        user = resolved(Config(task, Model(window=window), upkeep=row.upkeep))
        assert (user.task, user.model, user.learning) == (row.task, row.model, row.learning), name
        assert user.budget.epochs == row.budget.epochs or name.endswith("784")


def test_the_end_of_every_budget_is_validated(data):
    for experiment, profile, rows in all_configs(data):
        for name, config in rows.items():
            if config.budget.validate_every and experiment is not UNLOCKED:
                assert config.budget.sequences % (config.learning.batch * config.budget.validate_every) == 0, (
                    experiment.name,
                    profile,
                    name,
                )


def test_the_papers_sizes_in_hours(data):
    copy = configs("copy-from-20", "paper", data)
    assert list(copy) == ["default", "ours", "gr-hrnn", "hrnn", "mr-hrnn"]
    to_the_letter = configs("copy", "paper", data)
    for name, config in copy.items():
        assert (config.task.start, config.task.step, config.task.until, config.task.patience) == (20, 4, 108, None)
        assert config.budget.sequences == 2_000_000
        if name != "default":  # but for the start they are the paper's
            assert dataclasses.replace(config, task=to_the_letter[name].task) == to_the_letter[name]
    mnist = configs("mnist-784", "paper", data)
    shapes = {name: (config.hidden_sizes, config.periods, unrolled(config)) for name, config in mnist.items()}
    assert shapes == {
        "default": ((128, 256), (28,), 784),
        "hrnn": ((128, 256), (28,), 784),
        "default-10": ((256, 256), (10,), 784),
    }
    assert len({(config.learning.learning_rate, config.learning.batch, config.budget) for config in mnist.values()}) == 1
    assert mnist["default"].budget.sequences == 10 * 55_000
    permuted = configs("permuted-mnist-784", "paper", data)
    assert {name: (config.task.permuted, config.periods) for name, config in permuted.items()} == {
        "default": (True, (28,)),
        "hrnn": (True, (28,)),
    }
    deep = configs("deep-copy-from-50", "paper", data)
    assert {name: config.betas for name, config in deep.items()} == {"default": (1.0, 1.0), "lowest": (1.0, 0.0)}
    assert (deep["default"].task.start, deep["default"].task.step, deep["default"].task.until) == (50, 50, 500)
    assert (deep["default"].hidden_sizes, deep["default"].window) == ((64, 256, 1024), 1000)


def test_the_papers_settings(data):
    for experiment in EXPERIMENTS.values():
        if "paper" in experiment.profiles:
            for config in literal(configs(experiment, "paper", data)).values():
                assert (config.learning.batch, config.learning.learning_rate) == (100, 0.001)
                assert (config.learning.optimizer, config.model.cell) == ("adam", "lstm")
                assert (config.model.decoder_layers, config.model.decoder_units) == (2, 256)
    copy = configs("copy", "paper", data)
    assert (copy["ours"].hidden_sizes, copy["ours"].periods, copy["ours"].window) == ((256, 256), (10,), 200)
    assert (copy["ours"].task.start, copy["ours"].task.step, copy["ours"].task.solved) == (1, 1, 0.15)
    mnist = configs("mnist", "paper", data)
    assert (mnist["ours"].hidden_sizes, mnist["ours"].periods, mnist["ours"].window) == ((256, 256), (10,), 784)
    assert mnist["ours"].task.steps == 784
    assert configs("permuted-mnist", "paper", data)["hrnn"].task.permuted
    ptb = configs("ptb", "paper", data)
    assert (ptb["ours"].hidden_sizes, ptb["ours"].window, ptb["ours"].task.reach) == ((256, 512), 50, 20)
    assert ptb["ours"].budget.stop_after == 5
    deep = configs("deep-copy", "paper", data)
    assert (deep["both"].hidden_sizes, deep["both"].periods, deep["both"].window) == ((64, 256, 1024), (5, 5), 1000)
    assert (deep["both"].task.length, deep["both"].betas, deep["lowest"].betas) == (500, (0.1, 1.0), (0.1, 0.0))
    assert [unrolled(copy[row]) for row in ("ours", "hrnn", "mr-hrnn")] == [200, 200, 50]
    assert unrolled(mnist["mr-hrnn"]) == 166


def test_the_papers_count_of_the_papers_settings(data, monkeypatch):
    monkeypatch.setattr("hrnn.studies.plan.bytes_of", lambda config, children: 0)
    for name in ("copy", "mnist", "permuted-mnist"):
        rows = configs(name, "paper", data)
        for row, published in PUBLISHED[name].items():
            assert memory_of(rows[row])["paper_count"] == published.memory
    assert memory_of(configs("ptb", "desk", data)["ours"])["paper_count"] is None


def test_desk_windows_are_as_first_tried(data):
    desk = configs("copy", "desk", data)
    assert unrolled(desk["mr-hrnn"]) == 29
    assert unrolled(desk["mr-hrnn-bytes"]) < 29
    assert unrolled(configs("mnist", "desk", data)["mr-hrnn"]) == 42


def test_every_published_figure_belongs_to_a_row_and_a_quantity():
    for name, rows in PUBLISHED.items():
        experiment = STUDIES[name]
        for row, published in rows.items():
            assert row in [one.name for one in experiment.rows]
            assert set(published.cells) <= {one.name for one in experiment.quantities}


@pytest.mark.parametrize(("lengths", "name"), [((108, 108, 107), "hrnn"), ((49, 49, 47), "mr-hrnn"), ((108,) * 3, "ours")])
def test_the_published_spread_is_that_of_the_population(lengths, name):
    cell = PUBLISHED["copy"][name].cells["length"]
    assert round(fmean(lengths), 1) == cell.mean
    assert round(pstdev(lengths), 2) == cell.spread


def test_data_that_are_not_there(tmp_path):
    with pytest.raises(UserError, match=r"put MNIST's four idx files, gzip or not into DATA/mnist and give --data DATA"):
        complete(mnist_ours("desk"), 0, None)
    with pytest.raises(UserError, match=r"ptb is not a folder; put Penn TreeBank's ptb.train.txt"):
        complete(ptb_ours("desk"), 0, tmp_path)
    assert complete(mnist_ours("desk"), 0, write_mnist(tmp_path / "mnist").parent).task.data == tmp_path / "mnist"
    assert complete(copy_ours("desk"), 0, Path("nowhere")).upkeep.seed == 0


def test_a_scale_changes_the_budget_and_the_validations(data):
    whole, tenth = (complete(mnist_ours("desk"), 0, data, scale) for scale in (1, 0.1))
    assert tenth.budget.sequences == round(whole.budget.sequences / 10)
    assert tenth.budget.validate_every == round(whole.budget.validate_every / 10)
    assert complete(copy_ours("desk"), 0, None, 1e-9).budget.sequences == copy_ours("desk").learning.batch
    assert complete(ptb_ours("paper"), 0, data, 0.5).budget.epochs == 50


def test_recipes_spell_out_every_option(data, monkeypatch):
    """Defaults may change; what a committed row was trained with may not."""
    before = {(e.name, e.search is None, profile): rows for e, profile, rows in all_configs(data)}
    for part in (Model, Learning, Budget, Runtime, Copy, Pixels, Text, Needle):
        fields = [field for field in dataclasses.fields(part) if field.init]
        monkeypatch.setattr(part.__init__, "__defaults__", tuple("another default" for _ in fields))
    with pytest.raises(UserError):
        resolved(Config(COPY, Model()))
    assert {(e.name, e.search is None, profile): rows for e, profile, rows in all_configs(data)} == before

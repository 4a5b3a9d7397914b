import gzip
import json
import os
import pkgutil
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

import hrnn
from hrnn.errors import UserError
from hrnn.tasks import Copy, Needle, Pixels, Text
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, from_json, resolved, to_json
from hrnn.training.edges import unusual
from hrnn.training.network import build, gradient, learning_rate, narrow_levels, unrolled
from tests.tiny import write_text


def test_a_configuration_survives_json(tmp_path):
    configs = [
        Config(Copy(patience=5), Model(betas=(1.0,)), Learning(clip=1.0), Budget(updates=3), Runtime(seed=2)),
        Config(Pixels(data=tmp_path, permuted=True, pool=4)),
        Config(Text(data=(write_text(tmp_path / "a.txt"),), boundaries=("word", "line")), Model(hidden_sizes=(8, 8, 8))),
        Config(Needle(), Model(model="lstm")),
        Config(Needle(), Model(reads=("inputs",), reader=("maximum",), context=("state",), output_levels="all", burn_in=3)),
    ]
    for config in configs:
        config = resolved(config)
        again = from_json(json.loads(json.dumps(to_json(config))))
        assert again == config
        assert resolved(again) == again


def test_open_entries_take_what_suits_the_task(tmp_path):
    copy = resolved(Config(Copy()))
    assert (copy.hidden_sizes, copy.periods, copy.window, copy.betas) == ((256, 256), (10,), 200, (1.0,))
    assert (copy.model.indices, copy.learning.clip, copy.learning.average) == ("all", 1.0, 5.0)
    assert copy.budget.sequences == 1_000_000
    assert resolved(Config(Copy(), budget=Budget(updates=5))).budget == Budget(updates=5)
    text = resolved(Config(Text(data=(write_text(tmp_path / "a.txt"),))))
    assert (text.hidden_sizes, text.periods, text.reaches, text.window) == ((256, 512), (), (20,), 200)
    assert (text.learning.learning_rate, text.learning.schedule, text.budget.epochs) == (2e-3, "cosine", 12)
    assert (text.batch, text.learning.update_every) == (16, (1, 1))
    pixels = resolved(Config(Pixels(data=tmp_path, pool=2)))
    assert (pixels.hidden_sizes, pixels.periods, pixels.batch, pixels.budget.epochs) == ((128, 256), (14,), 50, 10)
    flat = resolved(Config(text.task, Model(model="lstm")))
    assert (flat.hidden_sizes, flat.periods, flat.reaches, flat.betas) == ((512,), (), (), ())


@pytest.mark.parametrize(("size", "rows", "twice"), [(3, 16, 16), (400_000, 20, 44), (5_000_000, 100, 100)])
def test_a_short_text_is_learned_in_many_windows_of_few_rows(tmp_path, size, rows, twice):
    plain, packed = tmp_path / "a.txt", tmp_path / "a.gz"
    plain.write_bytes(b"ab " * (size // 3))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for files in ((plain,), (packed,)):
        assert Text(data=files).suggestions()["batch"] == rows
    assert Text(data=(plain, packed)).suggestions()["batch"] == twice
    assert Text(data=(tmp_path / "none.txt",)).suggestions()["batch"] == 16  # that it is missing is said where it is read


def test_gzip_files_may_be_put_together(tmp_path):
    text = random.Random(0).randbytes(900_000).hex().encode()
    (tmp_path / "a.gz").write_bytes(gzip.compress(text, 1) + gzip.compress(b"a"))
    assert 48 <= Text(data=(tmp_path / "a.gz",)).suggestions()["batch"] <= 100  # packed it is about half as long


def test_a_text_is_as_long_however_its_path_is_written(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("ab " * 200_000)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Text(data=(Path("~/a.txt"),)).suggestions()["batch"] == 32
    os.mkfifo(tmp_path / "pipe")  # which would let its reader wait for ever
    with pytest.raises(UserError, match="does not exist or is not a file"):
        resolved(Config(Text(data=(tmp_path / "pipe",))))


@pytest.mark.parametrize(
    ("task", "model", "start", "step"),
    [
        (Copy(), Model(), 20, 4),
        (Copy(), Model(periods=(5,), window=60), 10, 2),
        (Copy(), Model(periods=(28,)), 50, 10),  # 100 steps of a window of 200
        (Copy(), Model(window=2), 1, 1),
        (Copy(), Model(model="lstm"), 20, 4),
        (Copy(start=7), Model(), 7, 1),
        (Copy(step=1), Model(), 20, 1),
        (Copy(until=8), Model(), 8, 1),
        (Copy(length=30), Model(), None, None),
        (replace(Copy(length=30), start=1, step=1), Model(), 1, 1),  # as older runs have it
    ],
)
def test_lengths_of_copy_start_where_a_hierarchy_learns_them(task, model, start, step):
    copy = resolved(Config(task, model)).task
    assert (copy.start, copy.step) == (start, step)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Copy(length=9, start=3), "--length 9 trains at one length and --start 3 at growing ones"),
        (Copy(length=9, until=20), "--until 20 ends a curriculum and --length 9 is none"),
        (Copy(start=9, until=5), "--until 5 ends a curriculum that starts at --start 9"),
    ],
)
def test_lengths_of_copy_that_contradict_each_other(task, message):
    with pytest.raises(UserError, match=message):
        resolved(Config(task))


@pytest.mark.parametrize(
    ("model", "update", "every"),
    [
        (Model("ours"), "segment", (1, 1)),
        (Model("gr-hrnn"), "segment", (1, 1)),
        (Model("ours", hidden_sizes=(8,), periods=()), "segment", (1,)),
        (Model("ours", cell="mine:Cell"), "segment", (1, 1)),
        (Model("hrnn"), "batch", None),
        (Model("mr-hrnn"), "batch", None),
        (Model("lstm"), "batch", None),
    ],
)
def test_levels_move_by_themselves_where_the_model_lets_them(model, update, every):
    config = resolved(Config(Copy(), model))
    assert (config.learning.update, config.learning.update_every) == (update, every)
    assert to_json(config)["learning"]["update"] == update
    for given in ("batch", "window"):
        assert resolved(Config(Copy(), model, Learning(update=given))).learning.update == given


@pytest.mark.parametrize(
    ("name", "method"), [("ours", "Restricted"), ("gr-hrnn", "Restricted"), ("hrnn", "Full"), ("lstm", "Full")]
)
def test_models_by_name(name, method):
    config = resolved(Config(Copy(), Model(model=name)))
    assert type(gradient(config, None)).__name__ == method
    assert unrolled(config) == 200
    assert any(config.betas) == (name in ("ours", "hrnn"))


@pytest.mark.parametrize(
    ("window", "periods", "expected"), [(200, (10,), 50), (784, (10,), 166), (60, (5,), 29), (1000, (5, 5), 90)]
)
def test_mr_hrnn_unrolls_as_many_steps_as_ours_stores_vectors(window, periods, expected):
    sizes = (8,) * (len(periods) + 1)
    config = resolved(Config(Copy(), Model(model="mr-hrnn", hidden_sizes=sizes, periods=periods, window=window)))
    assert unrolled(config) == expected
    assert type(gradient(config, None)).__name__ == "Full"
    assert all(config.betas)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"model": Model(hidden_sizes=(8, 8, 8))}, "--hidden-sizes has 3 entries for 1 of --periods"),
        ({"model": Model(model="lstm", hidden_sizes=(8, 8))}, "one flat LSTM"),
        ({"model": Model(model="lstm", cell="gru")}, "one flat LSTM"),
        ({"model": Model(model="gr-hrnn", betas=(0.1,))}, "gr-hrnn has no local loss"),
        ({"model": Model(model="gr-hrnn", symbol_weights="inverse")}, "weighs a local loss, and there is none"),
        ({"model": Model(betas=(0.0,), symbol_weights="inverse")}, "weighs a local loss, and there is none"),
        ({"model": Model(betas=(0.1, 0.2))}, "one for each of the 1 levels"),
        ({"model": Model(betas=(-1.0,))}, "--betas is -1.0; give at least 0"),
        ({"model": Model(periods=(0,))}, "at least 1"),
        (
            {"model": Model(reads=("inputs", "both"))},
            "--reads inputs both has 2 entries; give 1, one for each level above the low",
        ),
        ({"model": Model(context=("state", "input"))}, "--context state input has 2 entries; give 1, one for each level below"),
        ({"model": Model(reads=("inputs",), reader=("mean",))}, "--reader is 'mean'; give linear, maximum, or module:Name"),
        ({"model": Model(reader=("maximum",))}, "--reader maximum reads raw inputs, and no level does; give --reads inputs or"),
        ({"model": Model(burn_in=2)}, "--burn-in is 2 and level 1 reads the summary of the lowest level; drop it, or give"),
        ({"model": Model(reads=("both",), burn_in=2)}, "--burn-in is 2 and level 1 reads the summary of the lowest level"),
        ({"model": Model(reads=("inputs",), betas=(1.0,))}, "--betas is 1.0, and no level reads the summary of level 0"),
        ({"model": Model(reads=("inputs",), symbol_weights="inverse")}, "weighs a local loss, and there is none"),
        ({"model": Model(segments=(2,))}, "--segments is 2, and level 0 sends or reads a summary; give 1 there"),
        (
            {"model": Model(reads=("inputs",), gradient="replay:0.5")},
            "no level reads one: gradients are true ones already; drop",
        ),
        (
            {"model": Model(reads=("inputs",), gradient="synthetic")},
            "no level reads one: gradients are true ones already; drop",
        ),
        (
            {"model": Model(model="lstm", reads=("inputs",))},
            "--reads inputs is for two levels or more, and the network has one",
        ),
        ({"model": Model(model="lstm", context=("state",))}, "--context state is for two levels or more"),
        ({"model": Model(model="lstm", segments=(2,))}, "--segments 2 is for two levels or more"),
        ({"model": Model(model="lstm", burn_in=1)}, "--burn-in is 1 and the network has one level; drop it"),
        ({"model": Model(window=0)}, "--window is 0"),
        ({"model": Model(model="mr-hrnn", hidden_sizes=(8,), periods=())}, "mr-hrnn takes its window"),
        ({"learning": Learning(batch=0)}, "--batch is 0"),
        ({"learning": Learning(learning_rate=0)}, "--learning-rate is 0"),
        ({"learning": Learning(learning_rate=float("nan"))}, "--learning-rate is nan"),
        ({"learning": Learning(momentum=0.9)}, "--momentum is for sgd"),
        ({"learning": Learning(update="batch", update_every=(2,))}, "is for --update segment"),
        ({"learning": Learning(update_every=(2,)), "model": Model(model="hrnn")}, "is for --update segment"),
        ({"learning": Learning(update="segment"), "model": Model(model="hrnn")}, "full ones of --model hrnn are not"),
        ({"learning": Learning(update="segment", update_every=(1, 1, 1))}, "one for each of the 2 levels"),
        ({"learning": Learning(update="segment", update_every=(-1,))}, "--update-every is -1; give at least 0"),
        ({"upkeep": Runtime(threads=0)}, "--threads is 0"),
        ({"budget": Budget(updates=0)}, "--updates is 0"),
    ],
)
def test_contradictions_are_refused(options, complaint):
    with pytest.raises(UserError, match=complaint):
        resolved(Config(Copy(), **options))


@pytest.mark.parametrize("name", ["ours", "hrnn", "mr-hrnn", "gr-hrnn"])
def test_what_levels_read_is_said_for_every_level(name):
    """Whatever its gradient; and of a text, whose words are the lowest level's segments."""
    local = 0.0 if name == "gr-hrnn" else 1.0
    model = Model(name, (8, 8, 8), (5, 2), 20, reads=("inputs", "both"), reader=("linear", "maximum"), burn_in=4)
    found = resolved(Config(Copy(), model)).model
    assert (found.reads, found.reader, found.context) == (("inputs", "both"), ("linear", "maximum"), ("input", "input"))
    assert (found.betas, found.burn_in) == ((0.0, local), 4)
    if local:
        assert resolved(Config(Copy(), replace(model, betas=(0.5,)))).betas == (0.0, 0.5)
    assert resolved(Config(Copy(), replace(model, betas=(0.0, 0.0)))).betas == (0.0, 0.0)
    assert list(unusual(found)) == ["reads", "reader", "burn_in", "segments"]
    assert unusual(resolved(Config(Copy(), Model(name, (8, 8, 8), (5, 2), 20))).model) == {}


def test_segments_that_share_a_batch_are_a_number_of_the_whole_batch(tmp_path):
    """So that a run that goes on in other processes, or somewhere else, has the same batches."""
    text = Text(data=(write_text(tmp_path / "a.txt"),))
    model = Model(hidden_sizes=(32, 16, 8), periods=(4,), reads=("inputs",))
    found = [resolved(Config(text, model, Learning(batch=rows))) for rows in (10, 40)]
    assert found[0].reaches == (20,)
    for config in found:
        levels = build(config).levels
        assert config.model.segments == tuple(levels.config["segments"]) == levels.wiring(1).segments
        open_ones = hrnn.HRNN(levels.inputs, levels.hidden_sizes, levels.periods, reads="inputs")
        assert config.model.segments == open_ones.wiring(config.batch).segments
    assert found[0].model.segments[0] > found[1].model.segments[0] > 1
    assert resolved(Config(text, replace(model, segments=(3,)))).model.segments == (3, 3)
    mixed = replace(model, reads=("inputs", "summary"), segments=(3,))
    assert resolved(Config(text, mixed)).model.segments == (3, 1)


def test_an_open_entry_of_a_file_is_refused_with_a_remedy_that_is_there():
    config = resolved(Config(Copy()))
    entries = json.loads(json.dumps(to_json(config)))
    assert from_json(entries) == resolved(from_json(entries)) == config
    entries["model"]["window"] = None
    with pytest.raises(UserError, match="has open entries") as error:
        from_json(entries)
    (remedy,) = re.findall(r"complete it with ([\w.]+)\(config\)", str(error.value))
    assert pkgutil.resolve_name(remedy) is resolved


def test_a_cell_that_does_not_exist_is_the_users_mistake():
    with pytest.raises(UserError, match="cell is 'lstn'"):
        build(resolved(Config(Copy(), Model(cell="lstn"))))
    with pytest.raises(UserError, match="--cell nowhere:Cell cannot be loaded"):
        build(resolved(Config(Copy(), Model(cell="nowhere:Cell"))))


def test_levels_that_do_not_grow_are_warned_about():
    grown = resolved(Config(Copy(), Model(hidden_sizes=(8, 16, 16), periods=(5, 5))))
    assert list(narrow_levels(grown)) == []
    narrow = resolved(Config(Copy(), Model(hidden_sizes=(16, 16, 32), periods=(5, 5))))
    (warning,) = narrow_levels(narrow)
    assert "level 1 has 16 units to summarise up to 5 hidden states of 16 units" in warning
    assert list(narrow_levels(replace(narrow, model=replace(narrow.model, periods=(5, 1))))) == []
    assert list(narrow_levels(replace(narrow, model=replace(narrow.model, reads=("summary", "inputs"))))) == []


def test_weights_depend_on_the_seed_only():
    small = Model(hidden_sizes=(8, 8))
    first, again, other = (build(resolved(Config(Copy(), small, upkeep=Runtime(seed=seed)))).state_dict() for seed in (0, 0, 1))
    assert all(bool((first[name] == again[name]).all()) for name in first)
    assert any(bool((first[name] != other[name]).any()) for name in first)


def test_the_learning_rate_is_a_function_of_how_far_the_run_is():
    assert learning_rate(Learning(learning_rate=2.0), 5, 0.7) == 2.0
    assert learning_rate(Learning(learning_rate=2.0, schedule="linear"), 5, 0.75) == pytest.approx(0.5)
    assert learning_rate(Learning(learning_rate=2.0, schedule="cosine"), 5, 0.5) == pytest.approx(1.0)
    assert learning_rate(Learning(learning_rate=2.0, schedule="cosine"), 5, 1.2) >= 0
    assert learning_rate(Learning(learning_rate=2.0, warmup=4), 0, 0.0) == pytest.approx(0.5)
    assert learning_rate(Learning(learning_rate=2.0, warmup=4), 9, 0.0) == 2.0


def test_paths_are_absolute_so_that_a_run_can_be_resumed_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "a.txt")
    assert resolved(Config(Text(data=(Path("a.txt"),)))).task.data == (tmp_path / "a.txt",)


@pytest.mark.parametrize(
    ("budget", "share"),
    [
        (Budget(updates=50), 0.2),
        (Budget(sequences=400), 0.25),
        (Budget(epochs=2), 0.5),
        (Budget(updates=50, sequences=400, epochs=2), 0.5),
        (Budget(), 0.0),
    ],
)
def test_the_share_of_the_budget_is_the_largest_of_what_is_counted(budget, share):
    assert Config(Copy(), learning=Learning(batch=10), budget=budget).share_done(10, 100, per_epoch=10) == share

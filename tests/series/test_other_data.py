"""Data that a trained run has not seen, and that are not quite like those it has: read rightly, or refused in a sentence."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import hrnn as library
from tests.commands.console import complaint, hrnn
from tests.data.made import write_table
from tests.series.made import panel, train

BATCH = ("--batch", "4", "--window", "12")


def predicted(capsys, run, *data):
    code, out, err = hrnn(capsys, "predict", run, *data)
    assert code == 0, err
    return pyarrow.csv.read_csv(io.BytesIO(out.encode())).to_pydict()


@pytest.fixture
def classes(tmp_path, capsys):
    return train(capsys, tmp_path / "runs" / "classes", [write_table(panel(), tmp_path / "t.csv"), *BATCH])


def test_a_class_that_training_never_had_is_not_counted_as_another(tmp_path, capsys, classes):
    table = panel(sequences=4)
    strange = table.set_column(table.column_names.index("label"), "label", pa.array(["odd"] * len(table)))
    said = complaint(capsys, "evaluate", classes, "--data", write_table(strange, tmp_path / "new.csv"))
    assert f"class 'odd' occurs in {tmp_path / 'new.csv'}, and training had none of it; leave it out" in said
    bare = write_table(table.drop_columns(["label"]), tmp_path / "bare.csv")
    said = complaint(capsys, "evaluate", classes, "--data", bare)
    assert f"the run learned 'label', one for each sequence, and {bare} has none; add it, or use hrnn predict" in said
    assert hrnn(capsys, "evaluate", classes, "--data", write_table(table, tmp_path / "like.csv"))[0] == 0


def test_ids_under_another_name(tmp_path, capsys, classes):
    table = panel(sequences=4).drop_columns(["label"])
    assert len(predicted(capsys, classes, write_table(table, tmp_path / "like.csv"))["id"]) == 4
    names = ["sensor" if name == "id" else name for name in table.column_names]
    other = write_table(table.rename_columns(names), tmp_path / "other.csv")
    said = complaint(capsys, "predict", classes, other)
    assert f"training told sequences apart by the column 'id', which {other} lacks, and 'sensor' was not in training" in said
    one = write_table(panel(sequences=1).drop_columns(["id"]), tmp_path / "one.csv")
    assert predicted(capsys, classes, one)["id"] == ["one"]


def test_a_channel_that_is_missing_throughout(tmp_path, capsys, classes):
    table = panel()
    absent = table.set_column(table.column_names.index("b"), "b", pa.nulls(len(table), pa.float64()))
    path = write_table(absent, tmp_path / "absent.parquet")
    assert len(predicted(capsys, classes, path)["id"]) == 20  # training knew that it may be missing
    said = complaint(capsys, "train", "series", path, *BATCH, "--run", tmp_path / "runs" / "other")
    assert "all values of channel 'b' are missing in the training part; leave the channel out" in said
    assert "all values of channel 'b' are missing" in complaint(capsys, "inspect", path)


def test_a_folder_of_tables(tmp_path, capsys, classes):
    for number in range(3):
        (tmp_path / "folder").mkdir(exist_ok=True)
        write_table(panel(sequences=1, seed=number).drop_columns(["id", "label"]), tmp_path / "folder" / f"{number}.csv")
    assert predicted(capsys, classes, tmp_path / "folder")["id"] == ["0.csv", "1.csv", "2.csv"]


def test_as_many_channels_as_in_training(tmp_path, capsys):
    X, y = [np.random.default_rng(i).normal(size=(6, 2)) for i in range(20)], ["a", "b"] * 10
    np.savez(tmp_path / "two.npz", x=np.stack(X), y=y)
    run = train(capsys, tmp_path / "runs" / "r", [tmp_path / "two.npz", *BATCH])
    assert library.load(run).predict(X).shape == (20,)
    for data in ([np.c_[one, one] for one in X], np.zeros((3, 6, 3)), [one[:, :1] for one in X]):
        with pytest.raises(library.errors.UserError, match=r"the data have \d channel\(s\), and training had 2; give as many"):
            library.load(run).predict(data)


def test_runs_on_files_of_a_kind_read_what_they_are_given_and_nothing_else(tmp_path, capsys):
    for folder in ("training", "validation", "new"):
        for name in ("a", "b"):
            (tmp_path / folder / name).mkdir(parents=True)
            for number in range(10):
                (tmp_path / folder / name / f"{number}.bin").write_bytes(bytes([ord(name)] * 30))
    labels = tmp_path / "labels.csv"
    labels.write_text("file,label\n" + "".join(f"{name}/{n}.bin,{name}\n" for name in "ab" for n in range(10)))
    given = ["--kind", "bytes", "--validation", tmp_path / "validation", "--test", "none", *BATCH]
    run = train(capsys, tmp_path / "runs" / "r", [tmp_path / "training", *given])
    assert len(predicted(capsys, run, tmp_path / "new")["id"]) == 20
    assert len(library.load(run).predict(str(tmp_path / "new" / "a" / "0.bin"))) == 1
    run = train(capsys, tmp_path / "runs" / "l", [tmp_path / "training", "--kind", "bytes", "--labels", labels, *BATCH])
    assert len(predicted(capsys, run, tmp_path / "new")["id"]) == 20


def test_tokens_that_are_numbers(tmp_path, capsys):
    tokens = np.random.default_rng(0).integers(0, 5, (12, 40))
    np.savez(tmp_path / "t.npz", **{f"s{place}": one for place, one in enumerate(tokens)})
    table = write_table(pa.table({"id": np.repeat(np.arange(12), 40), "code": tokens.flatten()}), tmp_path / "t.parquet")
    for data, options in ((tmp_path / "t.npz", ["--kind", "tokens"]), (table, ["--categorical", "code"])):
        run = train(capsys, tmp_path / "runs" / data.suffix, [data, *options, *BATCH])
        assert len(predicted(capsys, run, data)["id"]) == 12
    assert library.load(tmp_path / "runs" / ".npz").predict([tokens[0], tokens[1][:7]]).shape == (2,)


def test_forecasts_of_channels_called_like_columns_of_the_answers(tmp_path, capsys):
    random = np.random.default_rng(0)
    table = pa.table({"step": random.normal(size=200), "v": random.normal(size=200)})
    run = train(capsys, tmp_path / "runs" / "r", [write_table(table, tmp_path / "t.csv"), *BATCH])
    found = predicted(capsys, run, tmp_path / "t.csv")
    assert list(found) == ["id", "step", "step_", "v"]
    assert found["step"] == [200]


@pytest.mark.parametrize("symbols", [False, True])
def test_forecasts_of_series_too_short_to_hold_out_their_ends(tmp_path, capsys, symbols):
    random = np.random.default_rng(0)
    values = [f"s{value}" for value in random.integers(0, 3, 24 * 12)] if symbols else random.normal(size=24 * 12)
    table = pa.table({"id": np.repeat(np.arange(24), 12), "y": values})
    run = train(capsys, tmp_path / "runs" / "r", [write_table(table, tmp_path / "t.csv"), *BATCH])
    result = json.loads((run / "result.json").read_text())
    assert all(np.isfinite(value) for part in ("validation", "test") for value in result[part].values())
    said = complaint(
        capsys, "train", "series", tmp_path / "t.csv", "--split-by", "time", *BATCH, "--run", tmp_path / "runs" / "o"
    )
    assert "no sequence has two inputs in validation, and nothing follows one" in said


def test_errors_in_units_are_left_out_where_each_sequence_has_its_own(tmp_path, capsys):
    table = pa.table({"y": 1000 * np.random.default_rng(0).normal(size=300).cumsum()})
    write_table(table, tmp_path / "t.csv")
    tests = {}
    for normalise in ("channel", "none", "sequence"):
        run = train(capsys, tmp_path / "runs" / normalise, [tmp_path / "t.csv", "--normalise", normalise, *BATCH])
        tests[normalise] = json.loads((run / "result.json").read_text())["test"]
    assert np.isclose(tests["channel"]["naive_mae"], tests["none"]["naive_mae"], rtol=1e-4)
    assert np.isclose(tests["channel"]["naive_mase"], tests["sequence"]["naive_mase"], rtol=1e-3)
    assert not {"mae", "naive_mae", "rmse", "naive_rmse"} & set(tests["sequence"])


@pytest.mark.parametrize(
    ("names", "warned"),
    [("0.25,17.5,3", True), ("0.25", True), ("3,2", True), ("0,1,2", False), ("400.5,402.5,404.5", False), ("0.25,x,3", False)],
)
def test_a_first_row_that_may_be_no_names_is_warned_of(tmp_path, capsys, names, warned):
    rows = (",".join(str((row * 7 + place) % 11) for place in range(names.count(",") + 1)) for row in range(60))
    (tmp_path / "t.csv").write_text("\n".join([names, *rows]))
    code, out, err = hrnn(capsys, "inspect", tmp_path / "t.csv")
    assert code == 0, err
    assert ("if these are the first row, put a line with names above it" in out) == warned


def test_a_column_that_may_tell_sequences_apart_is_named(tmp_path, capsys):
    machines = np.repeat(["m1", "m2", "m3"], 20)
    table = pa.table({"machine": machines, "time": np.arange(60.0), "x": np.arange(60.0) % 7, "mode": ["a", "b"] * 30})
    write_table(table, tmp_path / "t.csv")
    code, out, err = hrnn(capsys, "inspect", tmp_path / "t.csv")
    assert code == 0, err
    assert "each name in 'machine' stands in one stretch; is it an id? Then --id machine" in out
    assert "--id mode" not in out
    assert "--id" not in hrnn(capsys, "inspect", tmp_path / "t.csv", "--id", "none")[1].replace("--id none", "")


def test_weights_that_have_learned_nothing_are_warned_of(tmp_path, capsys):
    write_table(pa.table({"y": np.sin(np.arange(300.0))}), tmp_path / "t.csv")
    run = train(capsys, tmp_path / "runs" / "r", [tmp_path / "t.csv", *BATCH])
    for command in (("predict", run, tmp_path / "t.csv"), ("evaluate", run), ("export", run, "--format", "torch-export")):
        said = hrnn(capsys, *command, "--checkpoint", 0)[2]
        assert "warning: these are the weights of update 0, which have learned nothing" in said
        assert "learned nothing" not in hrnn(capsys, *command)[2]


def test_a_trained_run_has_a_short_name(tmp_path, capsys):
    write_table(pa.table({"y": np.sin(np.arange(300.0))}), tmp_path / "t.csv")
    run = train(capsys, tmp_path / "runs" / "r", [tmp_path / "t.csv", *BATCH])
    assert len(repr(library.load(run))) < 200
    assert "task=series, model=ours" in repr(library.load(run))


def test_an_evaluation_of_other_data_is_called_by_their_name(tmp_path, capsys):
    write_table(pa.table({"y": np.sin(np.arange(300.0))}), tmp_path / "t.csv")
    run = train(capsys, tmp_path / "runs" / "r", [tmp_path / "t.csv", *BATCH])
    assert f", {tmp_path / 't.csv'}: loss" in hrnn(capsys, "evaluate", run, "--data", tmp_path / "t.csv")[1]
    assert ", test: loss" in hrnn(capsys, "evaluate", run)[1]


def test_runs_that_learn_different_things_are_not_drawn_together(tmp_path, capsys, classes):
    write_table(pa.table({"y": np.sin(np.arange(300.0))}), tmp_path / "y.csv")
    forecasts = train(capsys, tmp_path / "runs" / "forecasts", [tmp_path / "y.csv", *BATCH])
    said = complaint(capsys, "plot", classes, forecasts, "-o", tmp_path / "a.svg")
    assert "these runs are scored by different metrics (accuracy, mase); plot them apart" in said
    for run, both in ((classes, True), (forecasts, False)):
        assert hrnn(capsys, "plot", run, "-o", tmp_path / "a.svg")[0] == 0
        assert ("<!-- training -->" in (tmp_path / "a.svg").read_text()) == both
    assert "no such folder" in (said := complaint(capsys, "plot", tmp_path / "nowhere"))
    assert "nowhere" in said

"""Predictions by array, by command and step by step are the same, for every kind of target."""

import csv
import io
import math
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import hrnn as library
from hrnn.cli import main
from hrnn.data import cache, find
from hrnn.errors import UserError
from hrnn.training.answers import Answers
from hrnn.training.streaming import Stream
from tests.commands.console import complaint, hrnn
from tests.data.made import write_table, write_wav
from tests.series.made import KINDS, TINY, train, write


def values_of(trained, path):
    """The raw values of each sequence, by name of the channel."""
    pre = trained.config.task.learned
    sequences = cache(find(path, **({"target": False} if path.endswith(".parquet") else {})))
    for number in range(len(sequences)):
        raw, missing = sequences.read(number), sequences.missing(number)
        steps = []
        for step in range(len(raw)):
            line = {}
            for name in pre.channels:
                place = sequences.layout.channels.index(name) if not pre.tokens else 0
                value = raw[step] if pre.tokens else raw[step, place]
                codes = sequences.vocabularies.get(sequences.layout.channels[place])
                line[name] = codes[int(value)] if codes else float(value)
                if missing is not None and missing[step, place]:
                    line[name] = None
            steps.append(line)
        yield sequences.id(number), steps


@pytest.mark.parametrize("kind", [*KINDS, "patched series"])
def test_all_ways_agree(tmp_path, capsys, kind):
    arguments = write(tmp_path)[kind]
    run = train(capsys, tmp_path / "runs" / "r", arguments)
    out = tmp_path / "out.parquet"
    code, _, err = hrnn(capsys, "predict", run, arguments[0], "-o", out)
    assert code == 0, err
    table = pyarrow.parquet.read_table(out).to_pydict()
    trained = library.load(run)
    answers = Answers(trained.config.task)
    names = [name for name in table if name not in ("id", "step")]
    assert names == answers.names
    rows = {}
    for place, name in enumerate(table["id"]):
        rows.setdefault(name, []).append([table[column][place] for column in names])
    for name, steps in values_of(trained, arguments[0]):
        stream = trained.stream()
        told = [stream.step(step) for step in (steps[len(steps) % trained.config.task.patch :] if answers.ahead else steps)]
        told[-1] = stream.end()
        expected = rows[name]
        if answers.ahead:
            assert np.allclose(np.array([told[-1][column] for column in names]).T, expected, rtol=1e-6, atol=1e-6)
        elif answers.of == "step":
            assert len(told) == len(expected)
            same(told, expected, names)
        else:
            same(told[-1:], expected, names)
    assert sum(map(len, rows.values())) == len(table["id"])
    if kind in ("series", "patched series", "patched"):  # arrays without names
        raw = [[list(step.values()) for step in steps] for _, steps in values_of(trained, arguments[0])]
        arrays = [np.array(one, dtype=float) for one in raw]  # None is nan
        found = trained.predict(arrays)
        expected = [row for some in rows.values() for row in some]
        if answers.ahead:
            assert np.allclose(found.reshape(-1, len(names)), np.array(expected), rtol=1e-6, atol=1e-6)
        else:
            assert list(found) == [row[0] for row in expected]
            assert np.allclose(trained.predict_proba(arrays), [row[1:] for row in expected], atol=1e-6)


def same(told, expected, names):
    for answer, row in zip(told, expected, strict=True):
        for value, (name, other) in zip(row, ((name, answer[name]) for name in names), strict=True):
            assert value == other if isinstance(value, str) else abs(value - other) <= 1e-6 * max(1, abs(value)), name


def test_a_symbol_called_unknown_has_a_probability_of_its_own(tmp_path, capsys):
    states = ["ok", "unknown", "bad", "ok"]
    table = pa.table({"id": [f"s{n // 40}" for n in range(320)], "state": [states[n % 4] for n in range(320)]})
    run = train(capsys, tmp_path / "runs" / "r", [write_table(table, tmp_path / "t.csv"), "--batch", "4", "--window", "6"], 1)
    trained = library.load(run)
    assert trained.classes == ("bad", "ok", "unknown", "(unknown)")
    assert np.allclose(trained.predict_proba(tmp_path / "t.csv").sum(1), 1)
    code, _, err = hrnn(capsys, "predict", run, tmp_path / "t.csv", "-o", tmp_path / "out.csv")
    assert code == 0, err
    shares = [
        {name: float(value) for name, value in line.items() if name.startswith("p_")} for line in lines(tmp_path / "out.csv")
    ]
    assert list(shares[0]) == ["p_bad", "p_ok", "p_unknown", "p_(unknown)"]
    assert np.allclose([sum(one.values()) for one in shares], 1)


@pytest.mark.parametrize("others", [(), ("x",)])
def test_names_that_became_floats_are_known(tmp_path, capsys, others):
    """Categories, and alone tokens, that were whole numbers in training."""
    columns = {"id": [f"s{n // 40}" for n in range(320)], "code": [n * n % 5 for n in range(320)]}
    columns |= {name: [float(n % 3) for n in range(320)] for name in others}
    whole = pa.table(columns)
    floats = whole.set_column(1, "code", whole["code"].cast(pa.float64()))
    path = write_table(whole, tmp_path / "t.parquet")
    run = train(capsys, tmp_path / "runs" / "r", [path, "--categorical", "code", "--batch", "4", "--window", "6"], 1)
    trained = library.load(run)
    answers = trained.predict if others else trained.predict_proba
    expected = answers(path)
    rows = [columns, *(row.values() for row in floats.to_pylist())]
    (tmp_path / "t.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    assert np.array_equal(answers(write_table(floats, tmp_path / "floats.parquet")), expected)
    assert np.array_equal(answers(tmp_path / "t.csv"), expected)
    for kind in (int, float, np.float32, lambda code: f"{code}.0"):
        stream = trained.stream()
        for row in whole.slice(0, 40).drop_columns("id").to_pylist():
            told = stream.step({**row, "code": kind(row["code"])})
        found = [told[name] for name in stream.answers.names if name != "prediction"]
        assert np.allclose(np.ravel(found), np.ravel(expected[0]), atol=1e-6)


def lines(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_lines_are_answered_as_files_are(tmp_path, capsys, monkeypatch):
    arguments = write(tmp_path)["class"]
    run = train(capsys, tmp_path / "runs" / "r", arguments)
    table = pyarrow.parquet.read_table(arguments[0]).drop_columns(["label"]).to_pylist()
    lines = io.StringIO()
    writer = csv.DictWriter(lines, list(table[0]))
    writer.writeheader()
    order = sorted(range(len(table)), key=lambda place: (table[place]["time"], table[place]["id"]))  # sequences side by side
    writer.writerows(table[place] for place in order)
    monkeypatch.setattr("sys.stdin", io.StringIO("\ufeff" + lines.getvalue()))  # as some programs mark UTF-8
    code, out, err = hrnn(capsys, "predict", run, "--follow")
    assert code == 0, err
    followed = list(csv.DictReader(io.StringIO(out)))
    assert len(followed) == len(table)
    last = {line["id"]: line for line in followed}
    code, out, err = hrnn(capsys, "predict", run, arguments[0], "-o", tmp_path / "out.csv")
    assert code == 0, err
    for line in csv.DictReader((tmp_path / "out.csv").read_text().splitlines()):
        assert line["prediction"] == last[line["id"]]["prediction"]
        assert abs(float(line["p_fast"]) - float(last[line["id"]]["p_fast"])) < 1e-6
        assert line["step"] == last[line["id"]]["step"]


def test_forecasts_of_lines_follow_the_line_that_they_stand_in(tmp_path, capsys, monkeypatch):
    """With four steps to an input, those after steps 4, 5 and 6 would be the one after step 3, whose first steps are over."""
    run = train(capsys, tmp_path / "runs" / "r", write(tmp_path)["patched series"])
    values = np.sin(np.arange(11) / 5) * 3 + 7
    monkeypatch.setattr("sys.stdin", io.StringIO("x0\n" + "".join(f"{float(value)!r}\n" for value in values)))
    code, out, err = hrnn(capsys, "predict", run, "--follow")
    assert code == 0, err
    found = list(csv.DictReader(io.StringIO(out)))
    assert [bool(line["x0+1"]) for line in found] == [step % 4 == 3 for step in range(11)]
    trained = library.load(run)
    for step in (3, 7):
        expected = trained.predict([values[: step + 1, None]])[0, :, 0]
        assert np.allclose([float(found[step][f"x0+{ahead}"]) for ahead in range(1, 9)], expected, atol=1e-5)
    stream = trained.stream()
    told = [stream.step([value]) for value in values]
    assert [one is not None for one in told] == [step % 4 == 3 for step in range(11)]
    assert stream.end() is None


def test_lines_as_people_write_them(tmp_path, capsys, monkeypatch):
    run = train(capsys, tmp_path / "runs" / "r", write(tmp_path)["class"], 1)
    answers = []
    for text in (
        "id,time,a,b,code\ns,0,1.5,,c1\n",
        "id, time, a, b, code\ns, 0, 1.5, , c1\n",
        "id;time;a;b;code\ns;0;1,5;;c1\n",
        "id\ttime\ta\tb\tcode\ns\t0\t1.5\t\tc1\n",
        "id,time,a,b,code\n\ns,0,1.5,NA,c1\n\n",
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        answers.append(hrnn(capsys, "predict", run, "--follow"))
    assert answers == [answers[0]] * 5
    assert answers[0][0] == 0
    assert "\r" not in answers[0][1]


WRONG = {
    "id,time,a,code\ns,0,1,c\n": "the first line has no column 'b' for values",
    "id,time,a,b,a,code\ns,0,1,2,3,c\n": "the first line has two columns called 'a'; rename one",
    "walk,time,a,b,code\ns,0,1,2,c\n": "training told sequences apart by the column 'id', which the first line lacks",
    "id,time,a,b,code\ns,0,1\n": "line 2 has 3 cells and the first line 5",
    "id,time,a,b,code\ns,0,x,1,c\n": "line 2: channel 'a' is 'x'; give a finite number",
    "id,time,a,b,code\ns,0,1e39,1,c\n": "line 2: channel 'a' is '1e39'; give a finite number within float32",
    "id,time,a,b,code\ns,0,1,2,c\n" + "s" * 200_000 + ",1,1,2,c\n": "line 3 cannot be read as CSV: field larger",
    "id,time,a,b,code\ns,0,1,2,c\rs,1,1,2,c\n": "line 2 cannot be read as CSV: new-line character seen in unquoted field",
    "": "standard input is empty",
}


def test_wrong_lines(tmp_path, capsys, monkeypatch):
    run = train(capsys, tmp_path / "runs" / "r", write(tmp_path)["class"], 1)
    for text, said in WRONG.items():
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        assert said in complaint(capsys, "predict", run, "--follow")
    monkeypatch.setattr("sys.stdin", None)
    assert "standard input is closed" in complaint(capsys, "predict", run, "--follow")
    for text, line in ((b"id,time,a,b,c\xff\n", 1), (b"id,time,a,b,code\ns,0,1,2,c\ns\xff,1,1,2,c\n", 3)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text), "ascii"))
        code, out, err = hrnn(capsys, "predict", run, "--follow")
        assert (code, len(out.splitlines())) == (2, line - 1)
        assert f"line {line} is not UTF-8" in err


def test_a_folder_of_tables_is_predicted_as_it_was_learned(tmp_path, capsys):
    (tmp_path / "tables").mkdir()
    for number in range(20):
        rows = "".join(f"{step},{np.sin(step + number):.3f},{'ab'[number % 2]}\n" for step in range(9))
        (tmp_path / "tables" / f"{number}.csv").write_text(f"time,x,label\n{rows}")
    run = train(capsys, tmp_path / "runs" / "r", [str(tmp_path / "tables"), "--targets", "sequence", "--batch", "4"], 1)
    code, out, err = hrnn(capsys, "predict", run, tmp_path / "tables")
    assert code == 0, err
    by_name = hrnn(capsys, "predict", run, *sorted((tmp_path / "tables").iterdir()))[1]
    assert out == by_name
    assert len(out.splitlines()) == 21


def test_what_cannot_be_predicted(tmp_path, capsys):
    kinds = write(tmp_path)
    run = train(capsys, tmp_path / "runs" / "r", kinds["class"], 1)
    out = tmp_path / "out.parquet"
    assert "no column 'a' for values" in complaint(capsys, "predict", run, _other(tmp_path), "-o", out)
    assert "give data, or --follow" in complaint(capsys, "predict", run)
    assert "ends with .parquet or .csv" in complaint(capsys, "predict", run, kinds["class"][0], "-o", tmp_path / "out.xls")
    assert "cannot be written" in complaint(capsys, "predict", run, kinds["class"][0], "-o", tmp_path / "no" / "out.csv")
    assert not list(tmp_path.glob("*out*"))


def stamped(unit="s", later=0.0):
    """Sequences with a class, at irregular timestamps of this unit, all of them so many seconds later."""
    random, columns = np.random.default_rng(0), {"id": [], "time": [], "a": [], "label": []}
    for number in range(16):
        times = 1_704_067_207 + np.cumsum(random.integers(5, 16, 9 + number % 4)) + later
        columns["id"] += [f"s{number}"] * len(times)
        columns["time"] += [round(time * 1000) for time in times]
        columns["a"] += random.normal(number % 2, 1, len(times)).tolist()
        columns["label"] += ["odd" if number % 2 else "even"] * len(times)
    columns["time"] = pa.array(columns["time"], pa.timestamp("ms")).cast(pa.timestamp(unit))
    return pa.table(columns)


@pytest.fixture(scope="module")
def on_stamps(tmp_path_factory):
    """A run on a table of timestamps in seconds, and its data."""
    folder = tmp_path_factory.mktemp("stamps")
    path = write_table(stamped(), folder / "t.csv")
    run = folder / "runs" / "r"
    words = ["train", "series", path, "--batch", "4", "--window", "12", *TINY, "--updates", "20", "--run", run]
    assert main([str(word) for word in words]) == 0
    return run, path


def test_the_unit_of_timestamps_does_not_matter(on_stamps, tmp_path):
    run, path = on_stamps
    trained = library.load(run)
    pre = trained.config.task.learned
    assert (pre.interval, pre.times) == (10, "timestamps")
    expected = trained.predict_proba([path])
    assert np.ptp(expected[:, 0]) > 1e-3
    of_texts = stamped().set_column(1, "time", stamped()["time"].cast(pa.string()))
    zoned = stamped().set_column(1, "time", stamped()["time"].cast(pa.timestamp("ns", "Asia/Kolkata")))
    fractions = write_table(stamped("ms", 0.5), tmp_path / "fractions.csv")
    assert cache(find(str(fractions))).layout.time == "timestamp[ns]"
    for same in ([fractions], *map(stamped, ("s", "ms", "us", "ns")), of_texts, zoned):
        assert np.array_equal(trained.predict_proba(same), expected)


def nanosecond(time):
    return np.datetime64(time, "ns")


@pytest.mark.parametrize("given", [str, datetime.isoformat, datetime, datetime.astimezone, np.datetime64, nanosecond])
def test_streams_take_timestamps_of_every_kind(on_stamps, given):
    trained = library.load(on_stamps[0])
    stream = trained.stream()
    for row in stamped("us").slice(9, 10).to_pylist():
        answer = stream.step([row["a"]], row["time"] if given is datetime else given(row["time"]))
    expected = trained.predict_proba(stamped())[1]
    assert np.allclose([answer["p_even"], answer["p_odd"]], expected, atol=1e-6)


def test_lines_have_timestamps_as_files_have_them(on_stamps, tmp_path, capsys, monkeypatch):
    run, path = on_stamps
    fractions = write_table(stamped("ms", 0.25), tmp_path / "fractions.csv")
    expected = dict(zip((f"s{number}" for number in range(16)), library.load(run).predict_proba([path])[:, 0], strict=True))
    for data in (path, fractions):
        monkeypatch.setattr("sys.stdin", io.StringIO(data.read_text()))
        code, out, err = hrnn(capsys, "predict", run, "--follow")
        assert code == 0, err
        last = {line["id"]: float(line["p_even"]) for line in csv.DictReader(io.StringIO(out))}
        assert last == pytest.approx(expected, abs=1e-6)
    monkeypatch.setattr("sys.stdin", io.StringIO("id,time,a\ns,1704067207,1\n"))
    said = "line 2: time is '1704067207', and training had timestamps; give a text such as 2024-01-01 00:00:07"
    assert said in complaint(capsys, "predict", run, "--follow")


def test_timestamps_and_numbers_are_not_taken_for_each_other(on_stamps, tmp_path, capsys):
    run, _ = on_stamps
    numbers = stamped().set_column(1, "time", stamped()["time"].cast(pa.int64()))
    said = "the times of the data are numbers, and training had timestamps; give timestamps, such as 2024-01-01 00:00:07"
    assert said in complaint(capsys, "predict", run, write_table(numbers, tmp_path / "n.csv"), "-o", tmp_path / "out.csv")
    trained = library.load(run)
    for time in (7, 7.5, "7", "noon", np.datetime64("NaT")):
        with pytest.raises(UserError, match="and training had timestamps; give a text such as 2024-01-01 00:00:07"):
            trained.stream().step([1.0], time)
    task = trained.config.task
    for kind in ("numbers", None):  # None: a run that did not note it
        stream = Stream(trained.network, replace(task, preprocessing=replace(task.learned, times=kind)))
        for time in ("2024-01-01", datetime(2024, 1, 1), np.datetime64("2024-01-01", "ns"), "inf", math.nan, 10**400):
            with pytest.raises(UserError, match="give a finite number, in the unit that the times of training had"):
                stream.step([1.0], time)
        stream.step([1.0], "1700000000000000001")
        stream.step([1.0], 1700000000000000002)  # floats would not tell them apart
        with pytest.raises(UserError, match="time is 15 after 1700000000000000002; times increase"):
            stream.step([1.0], 15)


def _other(tmp_path):
    (tmp_path / "other.csv").write_text("id,time,x\ns,0,1\ns,1,2\n")
    return tmp_path / "other.csv"


@pytest.mark.parametrize(
    ("kind", "name", "make", "said"),
    [
        ("class", "t.csv", "id,time,a,b,code\ns,1,1,2,c0\ns,0,1,2,c0\n", "times that are not in order"),
        ("class", "t.csv", "id,time,a,b,code\ns,0,1,2,c0\ns,0,1,2,c0\n", "has the same time twice"),
        ("class", "t.csv", "id,time,a,b,code\ns,0,1,2,c0\ns,1,inf,2,c0\n", "has an infinite value"),
        ("class", "t.csv", "id,time,a,b,code\ns,0,1,2,c0\ns,1,x,2,c0\n", "mixed types"),
        ("class", "t.csv", "id,time,a,b,code\n", "has no rows"),
        ("bases", "g.fa", ">one\nACGT\n>two\nACXT\n", "'X'"),
        ("bases", "g.fa", ">one\nACGT\n>two\n", "sequence 'two' of"),
        ("patched series", "x.npy", None, "fewer than one input of 4"),
    ],
)
def test_wrong_data_leave_no_output_and_no_cache(tmp_path, capsys, monkeypatch, kind, name, make, said):
    run = train(capsys, tmp_path / "runs" / "r", write(tmp_path / "good")[kind], 1)
    path = tmp_path / name
    path.write_text(make) if make is not None else np.save(path, np.arange(3.0))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    assert said in complaint(capsys, "predict", run, path, "-o", tmp_path / "out.parquet")
    assert not list(tmp_path.glob("*out*"))
    assert not list((tmp_path / "temporary").iterdir())


def test_recordings_of_another_rate_are_refused(tmp_path, capsys):
    run = train(capsys, tmp_path / "runs" / "r", write(tmp_path / "good")["audio"], 1)
    path = write_wav(tmp_path / "other" / "odd.wav", rate=16_000)
    assert "16,000" in complaint(capsys, "predict", run, path, "-o", tmp_path / "out.parquet")

"""Lines that cannot be used: one of them changes nothing of what is said of the others."""

import io

import numpy as np
import pyarrow as pa
import pytest

import hrnn as library
from hrnn.errors import UserError
from hrnn.tasks import Series
from tests.commands.console import complaint, hrnn
from tests.data.made import write_fasta, write_table
from tests.series.made import panel, untrained

HEAD = "id,time,a,b,code"
GOOD = [f"s{step % 2},{step * step},{step / 3:.3f},{'' if step % 5 == 0 else step % 4},c{step % 3}" for step in range(30)]
BAD = {  # of which the id is known and the next line good
    "s0,1000,1,2": "has 4 cells and the first line 5",
    "s0,1000,1,2,c1,": "has 6 cells and the first line 5",
    "s0,1000,x,2,c1": "channel 'a' is 'x'; give a finite number within float32",
    "s0,1000,1,inf,c1": "channel 'b' is 'inf'; give a finite number within float32",
    "s0,-1,1,2,c1": "times increase",
    "s0,noon,1,2,c1": "time is 'noon'; give a finite number",
    's0,1000,"1,2,c1': "cannot be read as CSV: unexpected end of data",
    "s0,1000,1,2,c\udcff": "is not UTF-8; convert it, as iconv does",
    "s0,1000,1,2," + 200_000 * "c": "cannot be read as CSV: field larger",
    "new,1000,1e39,2,c1": "channel 'a' is '1e39'",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """It reads changes of times, values that are missing, and categories."""
    folder = tmp_path_factory.mktemp("skip")
    table = panel()
    times = [time * time for time in table["time"].to_pylist()]
    path = write_table(table.set_column(1, "time", pa.array(times)), folder / "t.parquet")
    return untrained(
        folder / "r", Series(data=(path,), cache=folder / "cache", forecast=2, target="none", values=("a", "b", "code"))
    )


def followed(capsys, monkeypatch, run, lines, *words):
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([HEAD, *lines]) + "\n"))
    code, out, err = hrnn(capsys, "predict", run, "--follow", *words)
    return code, out, err.splitlines()[1:]  # the first one says that nothing was learned


def test_bad_lines_are_reported_and_left_out(run, capsys, monkeypatch):
    code, expected, err = followed(capsys, monkeypatch, run, GOOD, "--skip-bad")
    assert (code, err) == (0, ["skipped 0 of 30 lines"])
    mixed, said = list(GOOD), []
    for place, (line, why) in enumerate(BAD.items()):
        mixed.insert(3 * place + 2, line)
        said.append((3 * place + 4, why))
    code, out, err = followed(capsys, monkeypatch, run, mixed, "--skip-bad")
    assert (code, out) == (0, expected)
    assert err[-1] == f"skipped {len(BAD)} of {len(mixed)} lines"
    for line, (number, why) in zip(err[:-1], said, strict=True):
        assert line.startswith(f"skipped line {number}")
        assert why in line


@pytest.mark.parametrize("bad", BAD)
def test_without_the_option_the_first_bad_line_is_the_end(run, capsys, monkeypatch, bad):
    code, out, err = followed(capsys, monkeypatch, run, [*GOOD[:5], bad, *GOOD[5:]])
    assert (code, len(out.splitlines())) == (2, 6)
    (said,) = err
    assert said.startswith("hrnn: line 7")
    assert BAD[bad] in said
    assert said.endswith("; --skip-bad goes on without such lines")


def test_nothing_else_is_skipped(run, capsys, monkeypatch, tmp_path):
    assert "--skip-bad is for --follow; drop it" in complaint(capsys, "predict", run, tmp_path / "t.csv", "--skip-bad")
    monkeypatch.setattr("sys.stdin", io.StringIO("id,time,a\n" + "\n".join(GOOD)))
    code, out, err = hrnn(capsys, "predict", run, "--follow", "--skip-bad")
    assert (code, out) == (2, "")
    assert "the first line has no column 'b' for values" in err
    code, out, err = followed(capsys, monkeypatch, run, ["", *GOOD[:3], "", ""], "--skip-bad")
    assert (code, len(out.splitlines()), err) == (0, 4, ["skipped 0 of 3 lines"])  # empty ones are none


def steps(random):
    for step in range(12):
        a, b = random.normal(size=2)
        yield {"a": a, "b": None if step % 3 == 1 else b, "code": f"c{step % 3}"}, float(step * step)


REFUSED = [
    ({"a": 1.0, "b": 2.0}, 500.0),
    ({"a": 1.0, "b": "x", "code": "c0"}, 500.0),
    ({"a": 7.0, "b": 1e39, "code": "c0"}, 500.0),
    ({"a": 7.0, "b": 8.0, "code": "c0"}, -1.0),
    ({"a": 7.0, "b": 8.0, "code": "c0"}, None),
    ([1.0, 2.0], 500.0),
]


def test_a_step_that_is_refused_leaves_the_stream_as_it_was(run):
    trained = library.load(run)
    expected, disturbed = trained.stream(), trained.stream()
    for values, time in steps(np.random.default_rng(0)):
        for wrong in REFUSED:
            if wrong[1] != -1.0 or disturbed.steps:
                with pytest.raises(UserError):
                    disturbed.step(*wrong)
        one, other = expected.step(values, time), disturbed.step(values, time)
        assert disturbed.steps == expected.steps
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_symbols_that_are_none_leave_the_stream_as_it_was(tmp_path):
    task = Series(
        data=(write_fasta(tmp_path / "g.fa", {"one": "ACGTN" * 40, "two": "GATTACA" * 20}),), cache=tmp_path / "cache"
    )
    trained = library.load(untrained(tmp_path / "r", task))
    expected, disturbed = trained.stream(), trained.stream()
    for letter in "GATTACA":
        with pytest.raises(UserError, match="none of the symbols"):
            disturbed.step("X")
        assert disturbed.step(letter) == expected.step(letter)

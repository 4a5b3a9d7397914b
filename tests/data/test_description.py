"""What a source holds, in numbers and in words."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import hrnn
from hrnn.data import arrays, cache, find, inspect, table
from tests.data.made import panel, recordings, write_table


def test_a_table(tmp_path):
    made = pa.table(
        {
            "id": list("aaaabb"),
            "ds": [0, 1, 2, 5, 0, 1],
            "v": [1000.0, None, 3000, 4000, 5000, 6000],
            "c": ["x", "y", "x", "x", "x", "x"],
            "label": ["u"] * 4 + ["v"] * 2,
        }
    )
    found = hrnn.data.inspect(table(write_table(made, tmp_path / "t.parquet")), tmp_path / "c")
    assert (found.sequences, found.steps, found.lengths) == (2, 6, (2, 3.0, 4))
    number, category = found.channels
    assert (number.kind, number.missing, number.mean) == ("number", 1, 3800)
    assert (category.kind, category.values) == ("category", 2)
    assert (found.times.usual, found.times.gaps, found.times.irregular) == (1, 1, True)
    assert found.targets.classes == {"u": 1, "v": 1}
    assert "channel 'v' is far from mean 0 and scale 1" in found.warnings[0]
    assert (tmp_path / "c" / "cache.json").exists()
    lines = "\n".join(found.lines())
    for words in (
        "2 sequence(s), 6 steps; lengths 2 to 4",
        "v: number, mean 3800",
        "1 missing",
        "irregular",
        "1 gap(s)",
        "u 1, v 1",
    ):
        assert words in lines


def test_timestamps_are_seconds_apart_whatever_their_unit(tmp_path):
    times = pa.array([0, 1500, 3000, 9000], pa.timestamp("ms"))
    found = inspect(table(write_table(pa.table({"ds": times, "y": [1.0, 2, 3, 4]}), tmp_path / "t.parquet")))
    assert (found.times.usual, found.times.least, found.times.most, found.times.gaps) == (1.5, 1.5, 6, 1)
    assert "times (timestamp[ms]): irregular, usually 1.5 s apart, 1 gap(s)" in found.lines()


def test_recordings_and_parts(tmp_path):
    found = inspect(find(recordings(tmp_path)))
    assert found.rate == 8000
    assert found.parts == {"test": 4, "training": 8}
    assert found.targets.classes == {"high": 6, "low": 6}
    assert "8,000 samples a second" in found.lines()


def test_targets_of_steps_and_numbers():
    x = [np.zeros((300, 1))]
    assert inspect(arrays(x, [np.arange(300) / 7])).targets.numbers[0] == np.mean(np.arange(300) / 7)
    counted = inspect(arrays(x, [np.where(np.arange(300) < 4, 1, 2)]))
    assert counted.targets.classes == {"1": 4, "2": 296}
    assert "weight them" in counted.warnings[-1]
    assert "one class only" in inspect(arrays(x, ["a"])).warnings[-1]


def test_tokens(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    found = inspect(find(tmp_path / "a.txt"))
    assert (found.channels[0].kind, found.channels[0].values, found.bytes) == ("token", 4, 5)


def test_groups(tmp_path):
    sequences = cache(table(write_table(panel(), tmp_path / "t.csv"), group="who"))
    assert hrnn.data.describe(sequences).groups == 3

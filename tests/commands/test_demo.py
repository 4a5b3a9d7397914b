"""hrnn demo."""

import pytest

from hrnn.studies.demo import DEMO, measured_bytes
from tests.commands.console import hrnn


def test_the_demo_compares_the_models_and_continues(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("hrnn.commands.demo.measured_bytes", lambda row: 1_000_000 * len(row.name))
    options = ("--folder", tmp_path / "demo", "--updates", 12)
    code, out, _ = hrnn(capsys, "demo", *options)
    assert code == 0
    rows = [line.split() for line in out.splitlines()[1:6]]
    assert [row[0] for row in rows] == ["ours", "ours-literal", "hrnn", "gr-hrnn", "mr-hrnn"]
    assert [row[-2:] for row in rows] == [["24", "4"], ["24", "12"], ["40", "4"], ["24", "7"], ["24", "7"]]
    assert (tmp_path / "demo" / "curves.png").exists()
    (tmp_path / "demo" / "hrnn" / "result.json").unlink()
    before = (tmp_path / "demo" / "ours" / "journal.jsonl").read_bytes()
    assert hrnn(capsys, "demo", *options)[0] == 0
    assert (tmp_path / "demo" / "ours" / "journal.jsonl").read_bytes() == before
    code, _, err = hrnn(capsys, "demo", *options, "--seed", 1)
    assert code == 2
    assert "holds a run with other options" in err


@pytest.mark.long
def test_what_the_demo_measures():
    ours, literal, hrnn_, _, mr = (measured_bytes(row) for row in DEMO.rows)
    assert 0 < 2 * ours < mr < hrnn_
    assert 0 < 2 * literal < mr

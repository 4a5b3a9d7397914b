import json

from hrnn import memory
from tests.commands.console import complaint, hrnn


def test_counts_of_the_paper(capsys):
    code, out, _ = hrnn(capsys, "memory", "--json")
    restricted, full = json.loads(out)
    assert code == 0
    assert restricted["paper_count"] == 166
    assert full["paper_count"] == 784
    assert restricted["exact_count"] > 166
    code, out, _ = hrnn(capsys, "memory", "--hidden-sizes", 64, 256, 1024, "--periods", 5, 5, "--window", 1000)
    assert code == 0
    assert "90" in out


def test_measured_bytes(capsys, monkeypatch):
    asked = []
    monkeypatch.setattr(memory, "measure", lambda **given: asked.append(given) or 5_000_000)
    options = ("--hidden-sizes", 32, 32, "--window", 300, "--batch", 20, "--measure")
    assert hrnn(capsys, "memory", *options)[1].count("5.0 MB") == 2
    shape = {"hidden_sizes": (32, 32), "periods": (10,), "window": 300, "batch": 20, "cell": "lstm"}
    assert asked == [{"method": "restricted", **shape}, {"method": "full", **shape}]


def test_a_plan_fits_its_budget(capsys):
    options = ("--hidden-sizes", 128, "--window", 1_000_000, "--batch", 16)
    plans = json.loads(hrnn(capsys, "memory", *options, "--budget", "100MB", "--json")[1])
    assert plans
    assert all(plan["bytes"] <= 100e6 for plan in plans)
    assert all(len(plan["periods"]) == len(plan["hidden_sizes"]) - 1 for plan in plans)
    code, _, err = hrnn(capsys, "memory", *options, "--budget", "1kB")
    assert (code, err.startswith("hrnn: nothing fits 1kB")) == (1, True)


def test_mistakes(capsys):
    assert "--budget is 'much'; give bytes, as in 200MB" in complaint(capsys, "memory", "--budget", "much")
    assert "give neither --periods nor --measure" in complaint(capsys, "memory", "--budget", "1GB", "--periods", 5)
    assert "periods has 1 entries for 3 levels" in complaint(capsys, "memory", "--hidden-sizes", 8, 8, 8)
    assert "at least 1" in complaint(capsys, "memory", "--window", 0)

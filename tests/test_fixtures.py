"""What earlier versions wrote still loads, evaluates and resumes to the end that they came to.

The files are theirs, unchanged but for the path of the text, which stands as TEXT. The runs were interrupted; the ends beside
them were reached by the version that began them.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import hrnn
from hrnn.cli import main
from hrnn.training.checkpoint import Shelf, read

FIXTURES = Path(__file__).parent / "fixtures"
RUNS = [f"0.1.0/{name}" for name in ("locked", "unlocked", "unlocked-bytes")]
# Other processors round differently, and a few dozen updates carry that on.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
TIMES = ("seconds", "cpu_seconds")


def a_copy(name: str, place: Path) -> Path:
    """The run in a folder of its own, beside its text."""
    folder = place / Path(name).name
    shutil.copytree(FIXTURES / name, folder)
    text = place / "text.txt"
    shutil.copy(FIXTURES / name.partition("/")[0] / "text.txt", text)
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"TEXT"', json.dumps(str(text))))
    return folder


def same(expected: Any, got: Any) -> bool:
    """Equal, numbers to rounding; what a later version says beside it does not matter."""
    if isinstance(expected, dict):
        return isinstance(got, dict) and all(same(v, got.get(k)) for k, v in expected.items() if k not in TIMES)
    if isinstance(expected, list):
        return isinstance(got, list) and len(got) == len(expected) and all(map(same, expected, got))
    if isinstance(expected, float) and isinstance(got, float):
        return math.isclose(expected, got, rel_tol=1e-3, abs_tol=1e-4)
    return expected == got


@pytest.mark.parametrize("name", RUNS)
def test_a_run_in_mid_course_resumes_to_the_same_end(name: str, tmp_path: Path) -> None:
    folder, end = a_copy(name, tmp_path), FIXTURES / f"{name}-end"
    assert main(["resume", str(folder)]) == 0
    shelf = Shelf(folder / "checkpoints", 1)
    weights = read(shelf.path(shelf.updates()[-1])).section("network")
    expected = load_file(end / "weights.safetensors")
    assert weights.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(weights[key], value, **CLOSE)
    assert same(json.loads((end / "result.json").read_text()), json.loads((folder / "result.json").read_text()))
    kinds = {"update", "validation", "test", "length", "end"}  # those of 0.1.0
    records = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    theirs = [json.loads(line) for line in (end / "journal.jsonl").read_text().splitlines()]
    assert same(theirs, [record for record in records if record["kind"] in kinds])


@pytest.mark.parametrize("name", RUNS)
def test_a_run_in_mid_course_evaluates(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = a_copy(name, tmp_path)
    assert main(["evaluate", str(folder), "--json"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert math.isfinite(got["loss"])
    assert main(["resume", str(folder)]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--json", "--checkpoint", "last"]) == 0
    expected = json.loads((FIXTURES / f"{name}-end" / "evaluated.json").read_text())
    assert same(expected, json.loads(capsys.readouterr().out))


def test_a_model_and_a_state_load() -> None:
    folder = FIXTURES / "0.1.0"
    model = hrnn.HRNN.load(folder / "model.safetensors")
    assert model.hidden_sizes == [6, 7, 8]
    assert model.periods == [hrnn.Given(4), 3]
    assert model.check_finite
    assert [model.decoder(level).indices for level in range(2)] == ["all", "sampled"]
    then = load_file(folder / "output.safetensors")
    output, _ = model(then["x"], hrnn.State.load(folder / "state.safetensors"), boundaries=then["boundaries"])
    torch.testing.assert_close(output, then["output"], rtol=1e-12, atol=1e-12)

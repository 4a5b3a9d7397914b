"""The wheel in an empty environment without extras: the library works, and the command line says what to install."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

import hrnn

ROOT = Path(hrnn.__file__).parents[2]
CORE = ("torch", "numpy", "safetensors", "jaxtyping")

LIBRARY = """
import torch, hrnn
from torch.nn import functional as F

model = hrnn.HRNN(hrnn.Tokens(3), hidden_sizes=[8, 8], periods=[5])
head = torch.nn.Linear(8, 3)
x = torch.randint(3, (20, 2))
output, state = model(x)
loss = lambda output, y: F.cross_entropy(head(output).flatten(0, 1), y.flatten(), reduction="none").view(y.shape)
for gradient in (hrnn.Full(), hrnn.Restricted()):
    result = gradient.backward(model, x, x, loss=loss, betas=[0.1])
    assert result.loss.isfinite() and all(p.grad is not None for p in model.parameters())
model.save("model.safetensors")
again, _ = hrnn.HRNN.load("model.safetensors")(x)
assert torch.equal(output, again)
state.save("state.safetensors")
assert hrnn.State.load("state.safetensors").batch == 2
hrnn.parallel, hrnn.memory.predict([8, 8], [5], 20, 2)

import sys
print(sorted({"tyro", "rich", "matplotlib", "tensorboard", "pooch", "ray"} & set(sys.modules)))
"""


PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    place = tmp_path_factory.mktemp("wheel")
    subprocess.run([*PIP, "wheel", "--no-deps", "--wheel-dir", place, ROOT], check=True)
    (path,) = place.glob("hrnn-*.whl")
    return path


@pytest.fixture(scope="module")
def empty(wheel, tmp_path_factory):
    """An environment with the wheel, what the library needs, and nothing else; its bin folder."""
    place = tmp_path_factory.mktemp("empty")
    venv.create(place / "venv", symlinks=True)
    python = place / "venv" / "bin" / "python"
    subprocess.run([*PIP, "--python", python, "install", "--no-deps", wheel], check=True)
    (packages,) = (place / "venv" / "lib").glob("python*/site-packages")
    for name in required(CORE):
        for top in {file.parts[0] for file in distribution(name).files or () if file.parts[0] != ".."}:
            if not (packages / top).exists():
                (packages / top).symlink_to(distribution(name).locate_file(top))
    return python.parent


def required(names) -> set[str]:
    """Those of the installed packages that these need, with what they need in turn."""
    found, left = set(), list(names)
    while left:
        name = left.pop()
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:  # on another system, or of another build of torch
            continue
        if name not in found:
            found.add(name)
            left += [re.match(r"[\w.-]+", need)[0] for need in needs if "extra ==" not in need]
    return found


def run(*command: object, folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], cwd=folder, env={}, capture_output=True, text=True)


@pytest.mark.long
def test_the_library_needs_no_extra(empty, tmp_path):
    done = run(empty / "python", "-c", LIBRARY, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.long
def test_the_command_line_says_what_to_install(empty, tmp_path):
    assert run(empty / "hrnn", "--version", folder=tmp_path).stdout.splitlines()[0] == hrnn.__version__
    assert "commands:" in run(empty / "hrnn", "--help", folder=tmp_path).stdout
    for command in ("train copy", "plot runs", "sweep copy", "memory --window 10"):
        done = run(empty / "hrnn", *command.split(), folder=tmp_path)
        assert done.stderr == "hrnn: the command line needs hrnn[cli]; pip install 'hrnn[cli]'\n"
        assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.long
def test_committed_tables_and_curves_are_in_the_wheel_and_journals_are_not(wheel, tmp_path):
    """Shown by the wheel's own code, with no clone around."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "wheel")
    there = sorted(path.name for path in (tmp_path / "wheel" / "hrnn" / "studies" / "committed").iterdir())
    assert there == sorted(path.name for path in (ROOT / "src" / "hrnn" / "studies" / "committed").iterdir())
    assert {"copy-desk.json", "unlocked-desk.json"} <= set(there)
    assert not list((tmp_path / "wheel").rglob("*.jsonl"))
    command = [sys.executable, "-m", "hrnn", "reproduce", "copy"]
    environment = {"PYTHONPATH": str(tmp_path / "wheel")}
    page = [sys.executable, "-m", "hrnn", "report", "copy", "-o", "page.html"]  # from templates that are in the wheel
    done = subprocess.run(page, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "page.html\n", "")
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "107.7 ± 0.47" in done.stdout

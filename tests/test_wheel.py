"""The wheel in an empty environment without extras: the library works, and the command line says what to install."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
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


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """An environment with the wheel, what the library needs, and nothing else; its bin folder."""
    place = tmp_path_factory.mktemp("empty")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", place, ROOT], check=True)
    venv.create(place / "venv", symlinks=True)
    python = place / "venv" / "bin" / "python"
    (wheel,) = place.glob("hrnn-*.whl")
    subprocess.run([*pip, "--python", python, "install", "--no-deps", wheel], check=True)
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

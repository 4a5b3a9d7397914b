"""The package as a whole: light to import, layered, and without pickle."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hrnn

SOURCE = Path(hrnn.__file__).parent


def test_the_contract_catches_what_it_should(tmp_path):
    """lint-imports, which `make test` runs on the package itself, on a copy with offences against each of its contracts."""
    shutil.copytree(SOURCE, tmp_path / "hrnn", ignore=shutil.ignore_patterns("__pycache__"))
    assert lint(tmp_path) == ""
    offences = {
        "checks": "if TYPE_CHECKING:\n    from hrnn.gradients import Full",  # up within the library, for type checkers only
        "memory": "def f():\n    from hrnn.limits import option",  # up to the trainer, late
        "tensors": "import rich",
        "decoders": "import hrnn\nhrnn.load",
        "cells/contract": "from hrnn.cells.lstm import LSTM",  # which imports it
    }
    for file, line in offences.items():
        path = tmp_path / "hrnn" / f"{file}.py"
        path.write_text(f"{path.read_text()}\n{line}\n")
    (tmp_path / "hrnn" / "nowhere.py").write_text("")
    said = lint(tmp_path)
    for offence in (
        "hrnn.checks -> hrnn.gradients",
        "hrnn.memory -> hrnn.limits",
        "hrnn.tensors -> rich",
        "hrnn.decoders -> hrnn (",
        "hrnn.nowhere",
        ".contract -> .lstm",
    ):
        assert offence in said


def lint(folder: Path) -> str:
    """What is said of the package in a folder; nothing if it keeps every contract."""
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache", "--config", SOURCE.parents[1] / "pyproject.toml"]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def test_nothing_is_pickled():
    """Loading a file must never run code."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                names = [f"{node.value.id}.{node.attr}"]
            forbidden = {"pickle", "cPickle", "dill", "shelve", "marshal", "torch.load", "torch.save"}
            assert not forbidden & set(names), f"{path}, line {node.lineno}"


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_import_is_light_until_a_name_is_used():
    heavy = "{'torch', 'numpy', 'ctypes', 'hrnn.native'} & set(sys.modules)"
    assert run(f"import sys, hrnn; dir(hrnn); hrnn.__version__; print({heavy})") == "set()"
    assert run("import sys, hrnn; hrnn.HRNN; print('torch' in sys.modules)") == "True"


def test_every_public_name_is_there():
    for name in hrnn.__all__:
        assert getattr(hrnn, name).__name__ == name
        assert name in dir(hrnn)
    assert hrnn.cells.__name__ == "hrnn.cells"
    assert hrnn.gradients.Restricted is hrnn.Restricted
    with pytest.raises(AttributeError, match="module 'hrnn' has no attribute 'nothing'"):
        hrnn.nothing  # noqa: B018


def test_a_release_is_the_same_everywhere():
    """Between releases the version ends with .dev, changes are "Unreleased", and whoever cites has the last release."""
    root = SOURCE.parents[1]
    changes, citation = (root / "CHANGELOG.md").read_text(), (root / "CITATION.cff").read_text()
    version, date = re.search(r"^## \[(\d[\d.]*)\] - (\d{4}-\d\d-\d\d)$", changes, re.MULTILINE).groups()
    assert f"version: {version}\ndate-released: {date}\n" in citation
    assert (".dev" in hrnn.__version__) == ("## [Unreleased]" in changes)
    assert ".dev" in hrnn.__version__ or hrnn.__version__ == version

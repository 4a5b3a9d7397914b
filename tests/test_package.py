"""The package as a whole: light to import, layered, and without pickle."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hrnn

SOURCE = Path(hrnn.__file__).parent

# A file imports only from those before it; the same holds for the files of a folder among themselves.
ORDER = [
    "errors",
    "limits",
    "arguments",
    "room",
    "launch",
    "signals",
    "mishaps",
    "tensors",
    "precision",
    "unchanged",
    "cells",
    "segments",
    "decoders",
    "state",
    "parallel",
    "checks",
    "description",
    "forward",
    "hierarchy",
    "gradients",
    "memory",
    "metrics",
    "tasks",
    "training",
    "launching",
    "studies",
    "report",
    "commands",
    "cli",
]
INSIDE = {
    "cells": ["contract", "builtin", "block", "gru", "lstm", "rnn", "exchange", "__init__"],
    "tasks": [
        "contract",
        "random",
        "copy",
        "needle",
        "idx",
        "pixels",
        "corpus",
        "boundaries",
        "streams",
        "text",
        "__init__",
    ],
    "training": [
        *("files", "compare", "formats", "entries", "records", "config", "identity", "trust", "checkpoint", "journal"),
        *("folder", "opening", "network", "sizes", "optimizer", "evaluation"),
        *("run", "display", "stop", "loop", "trained", "sampling", "__init__"),
    ],
    "launching": [
        *(
            "units",
            "worker",
            "warm",
            "processes",
            "cluster",
            "engines",
            "follow",
            "early",
            "run",
            "grid",
            "measuring",
            "__init__",
        ),
    ],
    "studies": ["published", "recipes", "rules", "paper", "results", "plan", "__init__"],
    "report": ["summary", "series", "curves", "sweeps", "reproduction", "figures", "__init__"],
    "gradients": [
        "gathered",
        "window",
        "objective",
        "updates",
        "logs",
        "user_log",
        "records",
        "dense",
        "rounds",
        "full",
        "restricted",
        "__init__",
    ],
}


def imported(tree: ast.AST) -> set[str]:
    """Modules of the package that a file imports, at its top or later, but not only for type checking."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"hrnn.{alias.name}" for alias in node.names} if node.module == "hrnn" else {str(node.module)}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "hrnn":
            names.add(hrnn._HOMES.get(node.attr, f"hrnn.{node.attr}"))  # after `import hrnn`, which itself loads nothing
    return {name for name in names if name.split(".")[0] == "hrnn"} - {"hrnn", "hrnn.__version__"}


def offences(module: str, source: str) -> list[str]:
    """What `module`, such as hrnn.gradients.full, may not import."""
    _, place, *inner = module.split(".")
    found = []
    for name in sorted(imported(ast.parse(source))):
        _, target, *rest = name.split(".")
        allowed = target in ORDER and ORDER.index(target) < ORDER.index(place)
        if target == place and place in INSIDE:
            files = INSIDE[place]
            allowed = bool(rest) and rest[0] in files and files.index(rest[0]) < files.index((inner or ["__init__"])[0])
        elif target == place:
            allowed = bool(inner)
        if not allowed:
            found.append(f"{module} imports {name}")
    return found


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts not in (("__init__",), ("__main__",)):
            yield ".".join(["hrnn", *parts]).removesuffix(".__init__"), path


def test_imports_go_one_way():
    files = dict(modules())
    assert "hrnn.gradients.restricted" in files
    assert [line for module, path in files.items() for line in offences(module, path.read_text())] == []


@pytest.mark.parametrize(
    ("module", "line", "allowed"),
    [
        ("hrnn.hierarchy", "from hrnn.cells import LSTM", True),
        ("hrnn.hierarchy", "from hrnn.gradients import Full", False),
        ("hrnn.cells.lstm", "import hrnn.state", False),
        ("hrnn.cells.lstm", "from hrnn.cells.builtin import BuiltinCell", True),
        ("hrnn.cells.builtin", "from hrnn.cells.lstm import LSTM", False),
        ("hrnn.gradients.full", "from hrnn import checks", True),
        ("hrnn.checks", "def f():\n    from hrnn import hierarchy", False),
        ("hrnn.checks", "if TYPE_CHECKING:\n    from hrnn.hierarchy import HRNN", True),
        ("hrnn.checks", "import hrnn\nhrnn.Full()", False),
        ("hrnn.memory", "import hrnn\nhrnn.Full()", True),
        ("hrnn.memory", "import hrnn\nhrnn.training.run()", False),
    ],
)
def test_the_rule_itself(module, line, allowed):
    assert (offences(module, line) == []) == allowed


def test_nothing_is_pickled():
    """Loading a file must never run code."""
    for module, path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                names = [f"{node.value.id}.{node.attr}"]
            forbidden = {"pickle", "cPickle", "dill", "shelve", "marshal", "torch.load", "torch.save"}
            assert not forbidden & set(names), f"{module}, line {node.lineno}"


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_import_is_light_until_a_name_is_used():
    assert run("import sys, hrnn; dir(hrnn); hrnn.__version__; print('torch' in sys.modules, 'numpy' in sys.modules)") == (
        "False False"
    )
    assert run("import sys, hrnn; hrnn.HRNN; print('torch' in sys.modules)") == "True"


def test_every_public_name_is_there():
    for name in hrnn.__all__:
        assert getattr(hrnn, name).__name__ == name
        assert name in dir(hrnn)
    assert hrnn.cells.__name__ == "hrnn.cells"
    assert hrnn.gradients.Restricted is hrnn.Restricted
    with pytest.raises(AttributeError, match="module 'hrnn' has no attribute 'nothing'"):
        hrnn.nothing  # noqa: B018

"""What is not installed is named in one sentence, with what to install."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import hrnn
from hrnn.cli import COMMANDS, main
from hrnn.data import arrays, cache
from hrnn.data.audio import recording
from hrnn.data.table_files import open_table
from hrnn.errors import EXTRAS, UserError
from hrnn.launching.cluster import require
from hrnn.tasks.idx import download
from hrnn.training.display import suitable_display
from hrnn.training.journal import Events


@pytest.fixture
def bare(monkeypatch):
    """As after an installation without extras: their packages cannot be imported, what imports them has not been."""
    packages = [package for several in EXTRAS.values() for package in several]
    for name in list(sys.modules):
        if name.partition(".")[0] in packages or name.startswith(
            ("hrnn.commands", "hrnn.report", "hrnn.launching", "hrnn.estimators")
        ):
            monkeypatch.delitem(sys.modules, name)
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line(bare, capsys, command):
    assert main([command]) == 2
    assert capsys.readouterr().err == "hrnn: the command line needs hrnn[cli]; pip install 'hrnn[cli]'\n"


@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        (lambda: download(Path(), ""), r"--download needs hrnn\[cli\]; pip install 'hrnn\[cli\]'"),
        (lambda: Events(Path("events"), 0), r"a run's file for TensorBoard needs hrnn\[cli\]; pip install"),
        (lambda: importlib.import_module("hrnn.report.curves"), r"hrnn.report needs hrnn\[cli\]; pip install"),
        (lambda: importlib.import_module("hrnn.launching.grid"), r"hrnn.launching needs hrnn\[cli\]; pip install"),
        (suitable_display, r"a display of training needs hrnn\[cli\]; pip install"),
        (lambda: open_table(Path("t.csv")), r"t.csv, a table, needs hrnn\[data\]; pip install 'hrnn\[data\]'"),
        (lambda: recording(Path("a.wav")), r"a.wav, a recording, needs hrnn\[data\]; pip install"),
        (lambda: hrnn.SequenceClassifier, r"hrnn.estimators needs hrnn\[data\]; pip install 'hrnn\[data\]'"),
        (lambda: require(None), r"--engine ray needs hrnn\[ray\]; pip install 'hrnn\[ray\]'"),
    ],
)
def test_what_python_calls(bare, use, sentence):
    with pytest.raises(UserError, match=sentence):
        use()


def test_arrays_need_no_extra(bare):
    assert cache(arrays([[[1.0], [2.0]]])).lengths.tolist() == [2]

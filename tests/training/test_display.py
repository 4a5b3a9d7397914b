import io
import itertools
import re
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.text import Text

from hrnn.tasks import Copy
from hrnn.training.config import Budget, Config, Learning, Model, Runtime
from hrnn.training.display import Lines, Live, counted, fitted, suitable_display
from hrnn.training.loop import start

CONFIG = Config(
    Copy(length=4, test_sequences=5),
    Model(hidden_sizes=(8, 8, 8), periods=(2, 2), window=10),
    Learning(batch=5),
    Budget(updates=30),
    Runtime(tensorboard=False),
)


@pytest.fixture(autouse=True)
def shown_alike(monkeypatch):
    """On every machine: a hundredth of a second goes by whenever the time is asked for."""
    ticks = itertools.count()
    monkeypatch.setattr("hrnn.training.display.time", SimpleNamespace(monotonic=lambda: next(ticks) / 100))
    monkeypatch.setattr("hrnn.training.display.resident_bytes", lambda: 300_000_000)


def test_lines_where_there_is_no_terminal(tmp_path, capsys):
    assert isinstance(suitable_display(), Lines)
    lines = Lines()
    lines.interval = 0.0
    start(CONFIG, tmp_path / "run", display=lines)
    shown = capsys.readouterr().err.splitlines()
    assert shown[0].startswith("warning: level 1 has 8 units to summarise up to 2 hidden states of 8 units")
    assert len(shown) == 33
    assert shown.pop(1).startswith("engine: ")
    parts = ("length 4", r"loss \d", r"local losses \d\.\d+ \d\.\d+", "50.00 updates/s", "mem 300 MB", "0:00 left", "update 20")
    for part in parts:
        assert re.search(part, shown[20]), part
    assert shown[20].startswith("66.7% · ")


def test_a_bar_in_a_terminal(tmp_path):
    screen = io.StringIO()
    live = Live(Console(file=screen, force_terminal=True, width=250))
    live.interval = 0.0
    start(CONFIG, tmp_path / "run", display=live)
    shown = screen.getvalue()
    assert "100.0 %" in shown
    assert "update 30" in shown
    assert "warning:" in shown


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_bar_fits_the_terminal_and_what_matters_comes_first(tmp_path, width):
    screen = io.StringIO()
    live = Live(Console(file=screen, force_terminal=True, width=width))
    live.interval = 0.0
    start(CONFIG, tmp_path / "run", display=live)
    shown = [Text.from_ansi(line).plain for line in re.split(r"[\r\n]", screen.getvalue()) if " % " in line]
    (line,) = [line for line in shown if "66.7 %" in line]
    assert len(line.rstrip()) <= width
    assert "…" not in line
    assert re.search(r"━ +66.7 % \d+:\d\d left · recalled bits \d\.\d{4}", line)
    assert ("solved 0" in line) == (width > 60)
    assert ("mem" in line) == (width > 80)


def test_parts_that_fit():
    assert fitted(["0:10 left", "loss 0.5", "a long part", "b"], 20) == "0:10 left · loss 0.5"
    assert fitted(["0:10 left", "a long part", "b"], 16) == "0:10 left · b"
    assert fitted(["0:10 left"], 4) == "0:10"


@pytest.mark.parametrize("kind", [Lines, Live])
def test_a_test_that_takes_long_says_how_far_it_is(tmp_path, kind, monkeypatch, capsys):
    screen = io.StringIO()
    display = Lines() if kind is Lines else Live(Console(file=screen, force_terminal=True, width=80))
    display.interval = 0.0
    monkeypatch.setattr("hrnn.training.display.PATIENCE", 0.0)
    start(CONFIG, tmp_path / "run", display=display)
    said = capsys.readouterr().err if kind is Lines else screen.getvalue()
    assert "test: 1 batches scored in 0:00" in said


def test_scoring_says_nothing_where_it_is_quick(capsys):
    assert list(counted("test", [1, 2, 3], Lines().say, 0.0)) == [1, 2, 3]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("kind", [Lines, Live])
def test_most_updates_show_nothing(kind):
    assert kind.interval >= 0.5  # seconds: rendering must not cost training

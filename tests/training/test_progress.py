import io
import re

import pytest
from rich.console import Console

from hrnn.tasks import Copy
from hrnn.training.config import Budget, Config, Learning, Model, Upkeep
from hrnn.training.loop import start
from hrnn.training.progress import Lines, Live, suitable

CONFIG = Config(
    Copy(length=4, test_sequences=5),
    Model(hidden_sizes=(8, 8, 8), periods=(2, 2), window=10),
    Learning(batch=5),
    Budget(updates=30),
    Upkeep(tensorboard=False),
)


def test_lines_where_there_is_no_terminal(tmp_path, capsys):
    assert isinstance(suitable(), Lines)
    lines = Lines()
    lines.interval = 0.0
    start(CONFIG, tmp_path / "run", progress=lines)
    shown = capsys.readouterr().err.splitlines()
    assert shown[0].startswith("warning: level 1 has 8 units to summarise up to 2 hidden states of 8 units")
    assert len(shown) == 32
    for part in ("length 4", r"loss \d", r"local_losses \d\.\d+ \d\.\d+", r"updates/s", r"\d+ MB", r"\d:\d\d left"):
        assert re.search(part, shown[20]), part


def test_a_bar_in_a_terminal(tmp_path):
    screen = io.StringIO()
    live = Live(Console(file=screen, force_terminal=True, width=250))
    live.interval = 0.0
    start(CONFIG, tmp_path / "run", progress=live)
    shown = screen.getvalue()
    assert "100.0 %" in shown
    assert "update 30" in shown
    assert "warning:" in shown


@pytest.mark.parametrize("kind", [Lines, Live])
def test_most_updates_show_nothing(kind):
    assert kind.interval >= 0.5  # seconds: rendering must not cost training

"""A run on text that several commands read."""

import pytest

from tests.commands.console import hrnn
from tests.tiny import TINY, write_text


@pytest.fixture
def text_run(tmp_path, capsys):
    options = ("--data", write_text(tmp_path / "text.txt"), "--window", 10, "--learning-rate", 0.02, "--updates", 60)
    assert hrnn(capsys, "train", "text", *TINY, *options, "--run", tmp_path / "run")[0] == 0
    return tmp_path / "run"

"""A run on text that several commands read."""

import shutil
from pathlib import Path

import pytest

from hrnn.cli import main
from tests.tiny import TINY, write_text


@pytest.fixture(scope="session")
def trained_on_text(tmp_path_factory):
    """It is trained once, and nothing here is changed."""
    home = tmp_path_factory.mktemp("text")
    options = ("--data", write_text(home / "text.txt"), "--window", 10, "--learning-rate", 0.02, "--updates", 60)
    assert main(["train", "text", *map(str, (*TINY, *options)), "--run", str(home / "run")]) == 0
    return home


@pytest.fixture
def text_run(trained_on_text, tmp_path):
    """A copy of it, beside which a test may put what it likes, and the text."""
    shutil.copy2(trained_on_text / "text.txt", tmp_path)
    return Path(shutil.copytree(trained_on_text / "run", tmp_path / "run"))

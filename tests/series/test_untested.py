"""Runs without a test part."""

import json

import pytest

from hrnn.training.trained import load
from tests.commands.console import hrnn
from tests.series.made import train, write


@pytest.mark.parametrize("kind", ["class", "series"])
def test_nothing_is_kept_for_a_test_if_there_is_to_be_none(tmp_path, capsys, kind):
    arguments = write(tmp_path)[kind]
    rows = {}
    for name, more in (("usual", ()), ("untested", ("--test", "none"))):
        run = train(capsys, tmp_path / "runs" / name, arguments, 2, *more)
        rows[name] = {part: int(spans.lengths.sum()) for part, spans in load(run).config.task.opened.parts.items()}
        assert ("test" in json.loads((run / "result.json").read_text())) == (name == "usual")
    assert set(rows["untested"]) == {"training", "validation"}
    assert rows["untested"]["validation"] == rows["usual"]["validation"]
    assert rows["untested"]["training"] == rows["usual"]["training"] + rows["usual"]["test"]
    assert hrnn(capsys, "resume", run, "--updates", 3)[0] == 0

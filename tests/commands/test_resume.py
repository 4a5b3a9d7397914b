"""hrnn resume."""

import json

from tests.commands.console import hrnn
from tests.tiny import TINY


def test_a_finished_run_is_not_repeated_but_can_be_extended(tmp_path, capsys):
    run = tmp_path / "run"
    options = ("--steps", 8, "--periods", 3, "--updates", 3, "--test-sequences", 5, "--journal-every", 1)
    assert hrnn(capsys, "train", "needle", *TINY, *options, "--run", run)[0] == 0
    before = (run / "journal.jsonl").read_text()
    code, out, _ = hrnn(capsys, "resume", run)
    assert (code, "3 updates" in out) == (0, True)
    assert (run / "journal.jsonl").read_text() == before
    code, out, _ = hrnn(capsys, "resume", run, "--updates", 5, "--json")
    assert (code, json.loads(out)["updates"]) == (0, 5)
    records = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    assert [record["update"] for record in records if record["kind"] == "update"] == [1, 2, 3, 4, 5]
    assert [record["kind"] for record in records].count("end") == 1

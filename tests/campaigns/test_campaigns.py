"""A short share of every campaign, with a fixed seed; and that campaigns see what they are there to see."""

import json
import subprocess
import sys

import pytest

from campaigns.__main__ import SHORT
from campaigns.defects import BEGIN, END, Limit, Summary, draw, markdown, write_between
from campaigns.forked import Ended
from campaigns.grammar import all_options
from campaigns.judge import complaint
from hrnn.cli import COMMANDS
from tests.torchrun import ROOT, environment
from tests.waiting import PATIENCE

SENTENCE = "hrnn: --batch is 0; give at least 1\n"
TRACE = 'Traceback (most recent call last):\n  File "/x/hrnn/training/run.py", line 5, in save\nValueError: 5\n'


def test_a_short_campaign_finds_nothing(tmp_path):
    path = [str(ROOT / "src"), *sys.path]
    done = subprocess.run(
        [sys.executable, "-m", "campaigns", "--short", "--seed", "1", "--json", str(tmp_path / "found.json")],
        cwd=ROOT,
        env=environment(PYTHONPATH=":".join(path)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    parts = {part["name"]: part for part in json.loads((tmp_path / "found.json").read_text())["parts"]}
    assert parts.keys() == SHORT.keys()
    assert parts["kills"]["counts"]["kills"] > 0
    assert parts["kills"]["counts"]["identical ends"] == SHORT["kills"]
    assert parts["disk"]["counts"]["identical ends"] == SHORT["disk"]
    assert (parts["commands"]["calls"], parts["api"]["calls"]) == (SHORT["commands"], SHORT["api"])


@pytest.mark.parametrize(
    ("ended", "found"),
    [
        (Ended(0, "done\n", ""), None),
        (Ended(2, "", SENTENCE), None),
        (Ended(2, "╭─ Parsing error ─╮\n", ""), None),
        (Ended(130, "", "hrnn: interrupted\n", "SIGINT"), None),
        (Ended(2, "", ""), "exit code 2 with 0 sentences"),
        (Ended(2, "", SENTENCE * 2), "exit code 2 with 2 sentences"),
        (Ended(2, "", "hrnn: " + "x" * 5000), "a sentence of more than"),
        (Ended(1, "", ""), "exit code 1 without a sentence"),
        (Ended(1, "", TRACE), "a traceback: training/run.py save: ValueError"),
        (Ended(120, "", ""), "exit code 120"),
        (Ended(-11, "", ""), "killed by SIGSEGV"),
        (Ended(-9, "", "", "hang"), "a hang"),
        (Ended(130, "", "hrnn: interrupted\n", "idle"), "a hang"),
        (Ended(1, "", "hrnn: a mistake of the program: KeyError: 5; HRNN_TRACEBACK=1 in the environment shows"), "the net"),
    ],
)
def test_what_a_call_must_keep_to(ended, found):
    problem = complaint(ended)
    assert problem is None if found is None else problem.startswith(found)


def test_every_command_and_its_options_are_in_the_grammar():
    options = all_options()
    assert {name.split()[0] for name in options} == set(COMMANDS)
    names = {option.name: option for option in options["train text"]}
    assert {"data", "learning-rate", "hidden-sizes", "run", "updates", "seed", "tensorboard"} <= names.keys()
    assert names["hidden-sizes"].several
    assert names["tensorboard"].flag
    assert names["learning-rate"].hint is float
    assert next(option for option in options["resume"] if option.name == "run").positional


def test_cases_are_drawn_from_the_seed_and_the_number_alone():
    assert list(Limit(cases=3, first=5).numbers()) == [5, 6, 7]
    assert draw(1, "kills", 3).random() == draw(1, "kills", 3).random() != draw(1, "kills", 4).random()


def test_a_summary_survives_json_and_goes_between_the_markers(tmp_path):
    summary = Summary("kills", calls=3)
    summary.counts["kills"] = 2
    for _ in range(2):
        if not summary.known("a hang"):
            summary.add("a hang", "hrnn train\n copy")
    again = Summary.from_json(json.loads(json.dumps(summary.to_json())))
    assert again == summary
    table = markdown([again], {"seed": 1})
    assert "| kills | 3 | kills 2 | 1 |" in table
    assert "- kills: a hang (2 times): `hrnn train copy`" in table
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_between(page, table)
    assert page.read_text() == f"before\n{BEGIN}\n{table}{END}\nafter\n"

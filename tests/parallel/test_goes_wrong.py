"""What goes wrong among several processes is said once, by one of them, and nobody waits for ever."""

import json
import socket

import pytest

from hrnn.cli import main
from tests.commands.console import hrnn
from tests.runs import last_update
from tests.torchrun import ROOT, torchrun


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("wrong")


@pytest.fixture(scope="module")
def found(folder):
    """What each of two processes printed and returned: one launch for all tests."""
    place = folder / "found"
    done = torchrun(ROOT / "tests" / "parallel" / "goes_wrong.py", place, variables={"OMP_NUM_THREADS": "2"})
    assert done.returncode == 0, done.stderr
    return [json.loads(place.with_suffix(f".{rank}").read_text()) for rank in (0, 1)]


def said(found, name):
    """What the two processes printed on standard error, and their exit codes."""
    both = [found[rank][name] for rank in (0, 1)]
    assert not any("Traceback" in one["err"] for one in both)
    return "".join(one["err"] for one in both), [one["code"] for one in both]


def test_one_process_speaks_and_threads_are_those_of_the_configuration(found):
    assert [found[rank]["fine"]["code"] for rank in (0, 1)] == [0, 0]
    assert "30 updates" in found[0]["fine"]["out"]
    assert (found[1]["fine"]["out"], found[1]["fine"]["err"]) == ("", "")
    assert [found[rank]["fine"]["threads"] for rank in (0, 1)] == [1, 1]  # the launcher had set 2


@pytest.mark.parametrize(
    ("name", "sentence", "code"),
    [
        (
            "uneven",
            "hrnn: a batch of 9 rows cannot be shared out evenly among 2 processes; give a multiple of 2, such as 10",
            2,
        ),
        (
            "options",
            "hrnn: process 1 was started with other options than process 0: learning.learning_rate is 0.1 there and 0.2 in "
            "process 0; give every process the same",
            2,
        ),
        ("diverged", "hrnn: the loss is", 1),
    ],
)
def test_what_all_processes_find_is_said_once(found, name, sentence, code):
    text, codes = said(found, name)
    assert text.count("hrnn: ") == 1
    assert sentence in text
    assert codes == [code, code]


@pytest.mark.parametrize(
    ("name", "sentence", "which"),
    [
        ("there", "already holds a run; continue it with hrnn resume", 0),
        ("full disk", ".safetensors cannot be written: No space left on device; make room and try again", 0),
        ("one fails", "/data cannot be written: Input/output error", 1),
    ],
)
def test_what_one_process_finds_ends_the_others_quietly(found, name, sentence, which):
    text, codes = said(found, name)
    assert text.count("hrnn: ") == 1
    assert sentence in found[which][name]["err"]
    assert codes[which] == 2
    assert codes[1 - which] == 1


def test_a_wrong_option_is_explained_once(found):
    text, codes = said(found, "unknown")
    assert text.count("--learning-rat") >= 1
    assert found[1]["unknown"]["err"] == ""
    assert codes == [2, 2]


def test_a_signal_to_one_process_stops_all_with_a_checkpoint(found, folder, capsys):
    text, codes = said(found, "signal")
    assert text.count("stopped (terminated); continue with: hrnn resume") == 1
    assert codes == [143, 143]
    assert last_update(folder / "signal") == 7
    assert hrnn(capsys, "resume", folder / "signal")[0] == 0


def test_a_process_that_does_not_answer_is_not_waited_for_for_ever(found):
    text, codes = said(found, "asleep")
    assert "hrnn: process 0 cannot go on: another of the 2 processes did not answer within 600 s" in text
    assert text.count("hrnn: ") == 1
    assert codes == [1, 1]


def test_a_port_in_use_and_a_meeting_place_where_nobody_is(tmp_path, monkeypatch, capsys):
    options = ["train", "copy", "--hidden-sizes", "8", "8", "--batch", "10", "--run", str(tmp_path / "run"), "--timeout", "1"]
    with socket.socket() as taken:  # by a program that does not listen
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}.items():
            monkeypatch.setenv(name, value)
        assert main(options) == 2
        assert f"127.0.0.1:{port} is in use by another program; choose another port" in capsys.readouterr().err
        monkeypatch.setenv("RANK", "1")
        assert main(options) == 1
        assert f"the 2 processes could not meet at 127.0.0.1:{port} (limit 1 s)" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()

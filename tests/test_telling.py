"""What is said of long work: to a terminal over one line, to a log in lines, and to nobody by a library."""

import io
import threading
from types import SimpleNamespace

import pytest

from hrnn import telling
from hrnn.telling import CLEAR, Teller, duration, followed, tell, working
from tests.waiting import wait_for


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nothing is waited for, and no time goes by; what another test has begun to tell is not gone on with."""
    monkeypatch.setattr(telling, "time", SimpleNamespace(monotonic=lambda: 7.0))
    monkeypatch.setattr(telling, "PATIENCE", 0.01)
    monkeypatch.setattr(telling, "INTERVAL", 0.01)
    monkeypatch.setattr(telling, "LINES", 0.01)
    monkeypatch.setattr(telling, "_teller", None)


def until(stream, words):
    wait_for(lambda: words in stream.getvalue(), f"{words} is not said")


def test_a_terminal_has_one_line_which_is_gone_at_the_end():
    stream = Terminal()
    tell(stream)
    with working("reading") as at:
        at("3 of 7")
        until(stream, "reading: 3 of 7, 0:00")
        with working("sorting"):
            until(stream, "reading: 3 of 7 · sorting, 0:00")
    assert stream.getvalue().endswith(CLEAR)
    assert "\n" not in stream.getvalue()
    said = len(stream.getvalue())
    with working("again"):
        until(stream, "again")
    assert len(stream.getvalue()) > said


def test_a_log_has_lines():
    stream = io.StringIO()
    tell(stream)
    for _ in followed("measuring", [1, 2], "runs"):
        until(stream, "measuring: 2 of 2 runs, 0:00\n" if _ == 2 else "measuring: 1 of 2 runs, 0:00\n")
    assert CLEAR not in stream.getvalue()


def test_what_fails_ends_the_line_and_fails():
    stream = Terminal()
    tell(stream)

    def fail():
        with working("dividing"):
            until(stream, "dividing")
            raise ZeroDivisionError

    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        fail()
    assert stream.getvalue().endswith(CLEAR)
    assert threading.active_count() == before


def test_nobody_is_told_of_what_is_over_soon(monkeypatch):
    monkeypatch.setattr(telling, "PATIENCE", 60.0)
    stream = Terminal()
    tell(stream)
    assert list(followed("reading", iter("abc"))) == ["a", "b", "c"]
    assert stream.getvalue() == ""


def test_a_library_and_other_threads_say_nothing(monkeypatch):
    monkeypatch.setattr(Teller, "begin", lambda *_: pytest.fail("somebody is told"))
    with working("reading"):
        pass
    tell(Terminal())
    done = []
    thread = threading.Thread(target=lambda: done.extend(followed("serving", range(3))))
    thread.start()
    thread.join()
    assert done == [0, 1, 2]


def test_a_reader_who_has_gone_does_not_stop_the_work():
    class Gone(Terminal):
        tried = 0

        def write(self, text):
            self.tried += 1
            raise BrokenPipeError

    stream = Gone()
    tell(stream)
    with working("writing"):
        wait_for(lambda: stream.tried > 1, "nobody tries to say anything")


def test_durations():
    assert [duration(seconds) for seconds in (0, 61.7, 3661)] == ["0:00", "1:01", "1:01:01"]

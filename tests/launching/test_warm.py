"""Workers that are forked by a warm process end, fail and are stopped like those that are started alone."""

import signal

import pytest

import hrnn.training.folder as folders
from hrnn.launching import warm
from hrnn.launching.progress import last_update
from tests.launching.test_run import unit
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(not warm.available(), reason="workers are forked on Linux only")


def test_a_crash_takes_nobody_along_and_whoever_is_not_there_yet_can_be_stopped(tmp_path):
    endless = [unit(seed, updates=10**6) for seed in range(3)]
    for one in endless:
        folders.create(tmp_path / one.name, one.config, overwrite=False)
    with open(tmp_path / "log", "wb") as log:
        (tmp_path / "empty").mkdir()
        process = warm.Warm(1, log.fileno())
        first, second, third = (process.launch(tmp_path / one.name, log.fileno(), ["", ""]) for one in endless)
        third.terminate()  # before anything is imported
        gone = process.launch(tmp_path / "empty", log.fileno(), ["", ""])
    for one in endless[:2]:
        wait_for(lambda one=one: last_update(tmp_path / one.name).get("update", 0) > 1, "no progress")
    first.kill()
    wait_for(lambda: first.poll() is not None and third.poll() is not None and gone.poll() is not None, "not over")
    assert (first.poll(), gone.poll()) == (-signal.SIGKILL, 2)
    assert third.poll() in (-signal.SIGTERM, 143)
    assert "empty holds no run" in (tmp_path / "log").read_text()
    assert second.poll() is None
    reached = last_update(tmp_path / endless[1].name)["update"]
    wait_for(lambda: last_update(tmp_path / endless[1].name)["update"] > reached, "it does not go on")
    second.terminate()
    wait_for(lambda: second.poll() is not None, "not over")
    assert second.poll() == 143
    assert list((tmp_path / endless[1].name / folders.CHECKPOINTS).iterdir())
    for one in (first, second, third, gone):
        one.stdin.close()
    process.close()
    with pytest.raises(OSError, match="is gone"):
        process.launch(tmp_path, 2, ["", ""])

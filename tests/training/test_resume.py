"""Runs that are killed, interrupted, or meet a full disk go on where they were. Many more kills are part of the campaigns."""

import multiprocessing
import os
import signal
import sys

import pytest
import torch

from campaigns.small import journal
from hrnn.training.checkpoint import read
from hrnn.training.journal import JOURNAL, newest
from tests.holding import held, hold
from tests.runs import SMALL, last_update, tasks
from tests.waiting import PATIENCE, wait_for

# A server that has imported everything and forks: a fresh process for each run, without the seconds of imports.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["hrnn.commands.train", "hrnn.commands.resume", "tensorboard.compat.proto.event_pb2", "torch._dynamo"]
)


def command(arguments, log, update=None, place=None):
    """hrnn, in the process that calls it; a run is held at the update."""
    with open(log, "a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    from hrnn.cli import main
    from hrnn.training import loop

    if update is not None:
        loop.after_update = hold(update, place, loop.after_update)
    sys.exit(main(arguments))


def begin(arguments, folder, *at):
    process = PROCESSES.Process(target=command, args=([*arguments], folder.with_suffix(".log"), *at))
    process.start()
    return process


def finished(arguments, folder):
    process = begin(arguments, folder)
    process.join(PATIENCE)
    assert process.exitcode == 0, folder.with_suffix(".log").read_text()


@pytest.mark.parametrize("name", ["copy", "unlocked"])
def test_a_run_that_is_killed_in_mid_run_ends_as_if_nothing_had_happened(tmp_path, name):
    options = [*tasks(tmp_path)[name], *SMALL]
    straight, run = tmp_path / "straight", tmp_path / "run"
    finished(["train", *options, "--run", str(straight)], straight)
    end = last_checkpoint(straight).facts["position"]["updates"]
    arguments, killed_at = ["train", *options, "--run", str(run)], []
    for update in (4, end // 4 + 2, end // 2 + 1):
        place = tmp_path / f"held-{update}"
        place.mkdir()
        process = begin(arguments, run, update, place)
        held(place, run.name, over=lambda process=process: process.exitcode)
        process.kill()
        process.join(PATIENCE)
        assert process.exitcode == -signal.SIGKILL
        assert not (run / "result.json").exists()
        killed_at.append(recorded(run))
        arguments = ["resume", str(run)]
    assert 0 < killed_at[0] < killed_at[1] < killed_at[2] < end  # after the first record, each further on, before the end
    finished(arguments, run)
    assert journal(run) == journal(straight)
    for section in ("network", "average"):
        first, second = (last_checkpoint(folder).section(section) for folder in (run, straight))
        assert first
        assert first.keys() == second.keys()
        assert all(torch.equal(first[key], second[key]) for key in first)


def recorded(folder):
    """The last update in the journal."""
    return newest(folder, "update").get("update", {}).get("update", 0)


def last_checkpoint(folder):
    return read(max((folder / "checkpoints").glob("*.safetensors")))


def test_an_interrupted_run_checkpoints_and_says_how_to_go_on(tmp_path):
    options = [*tasks(tmp_path)["text"], *SMALL]
    options[options.index("--updates") + 1] = "100000"
    run = tmp_path / "run"
    arguments, newest = ["train", *options, "--run", str(run)], 0
    for number, code, word in ((signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")):
        process = begin(arguments, run)
        at_work = lambda newest=newest: last_update(run) > newest  # noqa: E731  a new checkpoint
        wait_for(lambda process=process, at_work=at_work: at_work() or not process.is_alive(), "no checkpoint")
        os.kill(process.pid, number)
        process.join(PATIENCE)
        assert process.exitcode == code
        log = run.with_suffix(".log").read_text()
        assert log.count(f"stopped ({word}); continue with: hrnn resume {run}") == 1
        arguments, newest = ["resume", str(run)], last_update(run)
        assert last_checkpoint(run).facts["position"]["updates"] == newest


def test_a_full_disk_stops_cleanly_and_the_run_can_go_on(tmp_path):
    options = [*tasks(tmp_path)["needle"], *SMALL]
    straight, run = tmp_path / "straight", tmp_path / "run"
    finished(["train", *options, "--run", str(straight)], straight)
    process = PROCESSES.Process(target=on_a_small_disk, args=(["train", *options, "--run", str(run)], run.with_suffix(".log")))
    process.start()
    process.join(PATIENCE)
    log = run.with_suffix(".log").read_text()
    assert process.exitcode == 2, log
    assert "cannot be written: File too large; make room and try again (a run's earlier checkpoints are intact" in log
    assert "Traceback" not in log
    finished(["resume", str(run)], run)
    assert journal(run) == journal(straight)


def on_a_small_disk(arguments, log):
    """The system lets no file grow any further once the journal has some records; checkpoints are larger than that."""
    import resource

    from hrnn import files

    write = files.AppendOnlyFile.write

    def limited(self, content):
        if self.path.name == JOURNAL and self._file.tell() > 2000:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
        write(self, content)

    files.AppendOnlyFile.write = limited
    command(arguments, log)

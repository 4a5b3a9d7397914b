"""A sweep on a Ray cluster of two nodes: workers are killed, no run is lost or doubled, and processes find the same numbers."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import pytest

from hrnn.launching.cluster import KilledError, train_unit
from hrnn.launching.progress import last_update
from hrnn.launching.units import LOG
from hrnn.training import folder as folders
from hrnn.training.identity import Trust
from hrnn.training.journal import read
from tests.commands.sweeping import NEEDLE, QUICK, begin, journal
from tests.waiting import PATIENCE, wait_for

UPDATES = 120
SWEEP = (*NEEDLE, *QUICK, "--updates", UPDATES, "--over", "learning-rate=0.001,0.01", "--over", "seed=0,1")
NAMES = [f"learning-rate={rate},seed={seed}" for rate in (0.001, 0.01) for seed in (0, 1)]


@pytest.fixture
def address(monkeypatch):
    """Two nodes with one core each."""
    pytest.importorskip("ray", reason='Ray is not installed: pip install "hrnn[ray]"')
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    cluster.add_node(**node)
    yield cluster.address
    cluster.shutdown()


def process_of(place):
    """The process that holds the lock of a unit that is in the middle of its run, or None."""
    if not (20 < last_update(place).get("update", 0) < UPDATES - 40 and folders.is_locked(place)):
        return None
    return int((place / folders.LOCK).read_text().split()[0])


def parent_of(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def descendants(process):
    """A process and all that it started, directly or not."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents.setdefault(parent_of(path.name), []).append(int(path.name))
    found = [process]
    for one in found:
        found += parents.get(one, [])
    return found


def addresses(process):
    """Those on which a process listens."""
    sockets = set()
    for file in Path(f"/proc/{process}/fd").glob("*"):
        with suppress(OSError):  # closed meanwhile
            sockets.add(os.readlink(file))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                words = bytes.fromhex(words[1].partition(":")[0])  # 32 bits at a time, lowest byte first
                found = ip_address(b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4)))
                yield getattr(found, "ipv4_mapped", None) or found


def finish(process):
    try:
        return process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise


@pytest.mark.long
def test_workers_are_killed_and_no_run_is_lost_or_doubled(tmp_path, address):
    folder = tmp_path / "ray"
    process = begin(*SWEEP, "--folder", folder, "--engine", "ray", "--address", address)
    killed, unharmed = {}, list(NAMES)
    deadline = time.monotonic() + PATIENCE
    while len(killed) < 2:  # the process that trains, then the Ray worker that waits for another one
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no progress"
        found = [(name, victim) for name in unharmed if (victim := process_of(folder / name)) is not None]
        if not found:
            time.sleep(0.02)
            continue
        name, victim = found[0]
        if killed:
            victim = parent_of(victim)
            assert b"ray::" in Path(f"/proc/{victim}/cmdline").read_bytes()
        os.kill(victim, signal.SIGKILL)
        assert folders.read_result(folder / name) is None
        killed[name] = victim
        unharmed.remove(name)
    out, err = finish(process)
    assert process.returncode == 0, err
    assert "0.001" in out
    assert sorted(path.parent.name for path in folder.rglob("config.json")) == sorted(NAMES)
    for name in NAMES:
        records = list(read(folder / name))
        assert [record["update"] for record in records if record["kind"] == "update"] == list(range(1, UPDATES + 1))
        assert [record["kind"] for record in records].count("end") == 1
    process = begin(*SWEEP, "--folder", tmp_path / "processes", "--jobs", "2")
    assert finish(process)[0].replace(str(tmp_path / "processes"), "") == out.replace(str(folder), "")  # the same table
    for name in NAMES:
        assert journal(folder / name) == journal(tmp_path / "processes" / name)


@pytest.mark.long
def test_interrupted_on_a_local_cluster_it_leaves_checkpoints(tmp_path):
    pytest.importorskip("ray", reason='Ray is not installed: pip install "hrnn[ray]"')
    place = tmp_path / "s" / "seed=0"
    options = ("--over", "seed=0,1", "--updates", 1_000_000, "--folder", tmp_path / "s", "--engine", "ray", "--jobs", "1")
    process = begin(*NEEDLE, "--journal-every", 1, *options)
    wait_for(lambda: last_update(place).get("update", 0) > 5 or process.poll() is not None, "no progress")
    listening = [address for one in descendants(process.pid) for address in addresses(one)]
    process.send_signal(signal.SIGINT)
    _, err = finish(process)
    assert process.returncode == 130, err
    assert "seed=0 stopped: update" in err
    assert listening
    assert [address for address in listening if not address.is_loopback] == []  # nobody else can reach it
    reached = last_update(place)["update"]
    assert (place / folders.CHECKPOINTS / f"update-{reached:09d}.safetensors").exists()
    assert not folders.is_locked(place)
    assert not last_update(tmp_path / "s" / "seed=1")  # one at a time


def test_a_unit_whose_process_is_killed_is_one_that_ray_starts_again(tmp_path, monkeypatch):
    """The task raises what `retry_exceptions` names; one that ends by itself returns its exit code and its last words."""
    monkeypatch.chdir(tmp_path)  # where the task goes itself, in a process of its own
    (tmp_path / folders.CONFIG).write_text("{}")
    (tmp_path / LOG).write_text("out of luck\n")
    monkeypatch.setattr("hrnn.launching.cluster.launch", lambda *_: subprocess.Popen(["sh", "-c", "kill -9 $$"]))
    with pytest.raises(KilledError, match="killed by signal 9"):
        train_unit(str(tmp_path), 1, str(tmp_path), Trust())
    monkeypatch.setattr("hrnn.launching.cluster.launch", lambda *_: subprocess.Popen(["sh", "-c", "exit 1"]))
    assert train_unit(str(tmp_path), 1, str(tmp_path), Trust()) == (1, "out of luck")


def test_a_node_that_does_not_see_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, said = train_unit(str(tmp_path / "nowhere"), 1, str(tmp_path), Trust())
    assert code == 2
    assert "--folder must be on storage that all nodes share" in said

"""Small sweeps in processes of their own, and what they leave behind."""

import subprocess
import sys

from hrnn.training.journal import read
from tests.tiny import TINY

NEEDLE = ("needle", *TINY, "--steps", "12", "--periods", "3", "--window", "12", "--test-sequences", "5")
QUICK = ("--journal-every", "1", "--checkpoint-seconds", "0.2")


def journal(folder):
    """Without times, and without the records of processes that began or resumed the run."""
    records = [record for record in read(folder) if record["kind"] != "engine"]
    return [{key: value for key, value in record.items() if not key.endswith("seconds")} for record in records]


def begin(*arguments, **options):
    """The command in a process and a process group of its own."""
    command = [sys.executable, "-m", "hrnn", "sweep", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0, **options)

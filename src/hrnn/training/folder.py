"""The folder of a run: who may write to it, what is in it, and whether this version can read it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hrnn
from hrnn.errors import UserError
from hrnn.launch import launcher, restarts
from hrnn.training.config import Config, from_json, settled, to_json
from hrnn.training.entries import CONFIG, FORMAT, LOCK, RESULT, is_locked, read_entries
from hrnn.training.entries import read_result as read_result
from hrnn.training.files import cannot_write, make_folder, write_whole
from hrnn.training.journal import JOURNAL

CHECKPOINTS, TENSORBOARD = "checkpoints", "tensorboard"


def create(folder: Path, config: Config[Any], overwrite: bool) -> None:
    """A new run in this folder; one that is there already is refused, or removed with `overwrite`."""
    if (folder / CONFIG).exists():
        if not overwrite:
            raise UserError(f"{folder} already holds a run; continue it with hrnn resume, or give --overwrite or --run")
        if is_locked(folder):
            raise UserError(f"{folder} is being trained by another process; stop it before --overwrite")
        for name in (RESULT, CHECKPOINTS, TENSORBOARD, JOURNAL, CONFIG):
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    make_folder(folder)
    with locked(folder):
        write_config(folder, config)


def begun_here(folder: Path, config: Config[Any]) -> bool:
    """Has torchrun started the job again, and is this the run that the job began?"""
    if not restarts() or not (folder / CONFIG).exists():
        return False
    try:
        _, _, began = (folder / LOCK).read_text().strip().partition(" ")
    except OSError:
        return False
    return began == launcher() and read_entries(folder) == to_json(config)


def write_config(folder: Path, config: Config[Any]) -> None:
    entries = {"format": FORMAT, "version": hrnn.__version__, **to_json(config)}
    write_whole(folder / CONFIG, json.dumps(entries, indent=2).encode() + b"\n")


def extend(folder: Path, config: Config[Any]) -> None:
    """The run goes on with another budget; a result that it has is no longer final."""
    with locked(folder):
        write_config(folder, settled(config))
        (folder / RESULT).unlink(missing_ok=True)


def read_config(folder: Path) -> Config[Any]:
    entries = read_entries(folder)
    try:
        return from_json(entries)
    except (KeyError, TypeError) as error:
        raise UserError(f"{folder / CONFIG} does not describe a run ({type(error).__name__}: {error})") from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Two processes in one run would spoil it; the lock goes with the process, however it ends."""
    try:
        file = open(folder / LOCK, "a+")  # noqa: SIM115  open as long as the lock is held
    except OSError as error:
        raise cannot_write(folder / LOCK, error) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"{folder} is being trained by another process; wait for it, or stop it") from None
        file.truncate(0)
        file.write(f"{os.getpid()} {launcher()}\n")
        file.flush()
        yield

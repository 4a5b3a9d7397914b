"""The journal of a run: one JSON line a record, and the same numbers as TensorBoard events.

Both files only grow, and a checkpoint notes how long they were: a resumed run records nothing twice.
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

from hrnn.errors import extra
from hrnn.training.files import AppendOnlyFile, cannot_write, content_of, make_folder
from hrnn.training.records import JOURNAL
from hrnn.training.records import read as read

EVENTS = "tensorboard/events.out.tfevents.hrnn"


class Journal:
    """Open files of a run, cut to the lengths that a checkpoint noted. Without a folder, nothing is written.

    A file that is shorter, or gone, goes on with what there is of it; `warnings` say so.
    """

    def __init__(self, folder: Path | None, tensorboard: bool = False, lengths: dict[str, int] | None = None):
        lengths = lengths or {}
        self._lines: AppendOnlyFile | None = None
        self._events: Events | None = None
        self.warnings: list[str] = []
        if folder is None:
            return
        self._lines = AppendOnlyFile(folder / JOURNAL, self._kept(folder / JOURNAL, lengths.get(JOURNAL, 0)))
        if tensorboard:
            self._events = Events(folder / EVENTS, self._kept(folder / EVENTS, lengths.get(EVENTS, 0), lines=False))

    def _kept(self, path: Path, noted: int, *, lines: bool = True) -> int:
        """How much of a file to keep: as much as was noted, or if there is less, what is whole of it."""
        try:
            content = content_of(path) if path.exists() and path.stat().st_size < noted else None
        except OSError as error:
            raise cannot_write(path, error) from None
        if content is None and (path.exists() or not noted):
            return noted
        kept = (content or b"").rfind(b"\n") + 1 if lines else 0
        there = "is gone" if content is None else f"has {len(content)} bytes"
        what = f"keeps {kept} of them" if kept else "starts anew"
        self.warnings.append(f"{path} {there}, and the checkpoint was written when it had {noted}; it {what}")
        return kept

    def record(self, record: dict[str, Any]) -> None:
        """One line. NaN and infinity are no JSON and become null."""
        if self._lines is None:
            return
        self._lines.write(json.dumps(_finite(record)).encode() + b"\n")
        self._lines.flush()
        if self._events:
            self._events.record(record)

    def sync(self) -> dict[str, int]:
        """Everything on the disk; the lengths for a checkpoint."""
        lengths = {JOURNAL: self._lines.sync()} if self._lines else {}
        return lengths | ({EVENTS: self._events.file.sync()} if self._events else {})

    def close(self) -> None:
        if self._lines:
            self._lines.close()
        if self._events:
            self._events.file.close()


class Events:
    """TensorBoard's own record format in one file, which its writer, made for a file per process, cannot cut back."""

    def __init__(self, path: Path, length: int):
        with extra("cli", "a run's file for TensorBoard"):
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.record_writer import RecordWriter

        make_folder(path.parent)
        self._event, self._summary = Event, Summary
        self.file = AppendOnlyFile(path, length)
        self._writer = RecordWriter(self.file)
        if not length:
            self._writer.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())

    def record(self, record: dict[str, Any]) -> None:
        """Every number of a record, under its kind."""
        kind = record.get("kind", "run")
        values = []
        for name, value in record.items():
            numbers = value if name == "local_losses" else [value]
            for place, number in enumerate(numbers):
                if isinstance(number, int | float) and not isinstance(number, bool) and name != "update":
                    tag = f"{kind}/{name}" + (f"/{place}" if name == "local_losses" else "")
                    values.append(self._summary.Value(tag=tag, simple_value=number))
        if values:
            summary = self._summary(value=values)
            event = self._event(wall_time=time.time(), step=record.get("update", 0), summary=summary)
            self._writer.write(event.SerializeToString())
            self.file.flush()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value

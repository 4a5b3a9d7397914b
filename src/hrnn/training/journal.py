"""The journal of a run: one JSON line per record, and the same numbers as TensorBoard events and for a tracker; and how it is
read: all records, enough of them for a picture, or the last ones.

Both files only grow, and a checkpoint notes how long they were: a resumed run records nothing twice. A journal may hold
millions of lines.
"""

from __future__ import annotations

import io
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from hrnn.errors import UserError, require_extra
from hrnn.files import AppendOnlyFile, content_of, make_folder, opened, writing
from hrnn.trackers import Tracked, numbers_of
from hrnn.training.entries import cannot_read
from hrnn.training.records import Written

JOURNAL = "journal.jsonl"
EVENTS = "tensorboard/events.out.tfevents.hrnn"
Record = dict[str, Any]
Groups = dict[bytes, tuple[Sequence[int], bytes]]  # by kind: numbers of lines, and the lines
START = b'{"kind": "'  # of every line that a run writes
UPDATE = START + b'update"'
BLOCK, LONGEST = 1 << 16, 1 << 26  # bytes read at once, and of a line: more without its end is no journal
UNEVEN = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio, by which lines are chosen


class Journal:
    """Open files of a run, cut to the lengths that a checkpoint noted. Without a folder, nothing is written.

    A file that is shorter, or gone, goes on with what there is of it; `warnings` say so.
    """

    def __init__(
        self,
        folder: Path | None,
        tensorboard: bool = False,
        lengths: dict[str, int] | None = None,
        tracked: Tracked | None = None,
    ):
        lengths = lengths or {}
        self._lines: AppendOnlyFile | None = None
        self._events: Events | None = None
        self._tracked = tracked
        self.warnings: list[str] = [] if tracked is None else list(tracked.warnings)
        with ExitStack() as closing:  # all of them, also where one cannot be
            if tracked is not None:
                closing.callback(tracked.close)
            if folder is not None:
                self._lines = AppendOnlyFile(folder / JOURNAL, self._kept(folder / JOURNAL, lengths.get(JOURNAL, 0)))
                closing.callback(self._lines.close)
            if folder is not None and tensorboard:
                self._events = Events(folder / EVENTS, self._kept(folder / EVENTS, lengths.get(EVENTS, 0), lines=False))
                closing.callback(self._events.file.close)
            self._open = closing.pop_all()

    def _kept(self, path: Path, noted: int, *, lines: bool = True) -> int:
        """How much of a file to keep: as much as was noted, or if there is less, what is whole of it."""
        with writing(path):
            content = content_of(path) if path.exists() and path.stat().st_size < noted else None
        if content is None and (path.exists() or not noted):
            return noted
        kept = (content or b"").rfind(b"\n") + 1 if lines else 0
        there = "is gone" if content is None else f"has {len(content)} bytes"
        what = f"keeps {kept} of them" if kept else "starts anew"
        self.warnings.append(f"{path} {there}, and the checkpoint was written when it had {noted}; it {what}")
        return kept

    def record(self, record: Written | Mapping[str, Any]) -> None:
        """One line. NaN and infinity are not JSON and become null."""
        if self._lines is None:
            return
        entries = record.entries() if isinstance(record, Written) else dict(record)
        self._lines.write(json.dumps(_finite(entries)).encode() + b"\n")
        self._lines.flush()
        if self._events:
            self._events.record(entries)
        if self._tracked:
            self._tracked.record(entries)

    def sync(self) -> dict[str, int]:
        """Everything on the disk; the lengths for a checkpoint."""
        lengths = {JOURNAL: self._lines.sync()} if self._lines else {}
        return lengths | ({EVENTS: self._events.file.sync()} if self._events else {})

    def close(self) -> None:
        self._open.close()


class Events:
    """TensorBoard's own record format in one file, which its writer, made for a file per process, cannot cut back."""

    def __init__(self, path: Path, length: int):
        require_extra("cli", "a run's file for TensorBoard")
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        make_folder(path.parent, path.parent.parent)
        self._event, self._summary = Event, Summary
        self.file = AppendOnlyFile(path, length, path.parent.parent)
        self._writer = RecordWriter(self.file)
        if not length:
            self._writer.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())

    def record(self, record: dict[str, Any]) -> None:
        """Every number of a record, under its kind."""
        values = [self._summary.Value(tag=tag, simple_value=number) for tag, number in numbers_of(record).items()]
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


def read(folder: Path) -> Iterator[Record]:
    """The records of a run; a last line that is still being written is left out."""
    path = folder / JOURNAL
    lines = (line for block in _blocks(path) for line in block.split(b"\n"))
    for number, line in enumerate(lines, 1):
        yield _record(line, f"{path} is damaged at line {number}")


def thinned(folder: Path, points: int = 1000) -> list[Record]:
    """Records for a picture, in the order of the journal: of the updates some, between `points` and twice as many, and all
    others, unless they are twenty times more. The last of each kind is always there."""
    path, number = folder / JOURNAL, 1
    kept: dict[bytes, _Some] = {}
    for text in _blocks(path):
        count = text.count(b"\n") + 1
        # One look at a block of whole records of updates, as nearly all are, instead of one at each of its lines.
        if text.startswith(UPDATE) and text.count(b"}\n" + UPDATE) == count - 1 and text.endswith(b"}"):
            groups: Groups = {b"update": (range(number, number + count), text)}
        else:
            groups = _by_kind(number, text)
        for kind, (numbers, some) in groups.items():
            kept.setdefault(kind, _Some(2 * points if kind == b"update" else 40 * points)).add(numbers, some)
        number += count
    found = dict(sorted(line for some in kept.values() for line in (*some.kept, some.last)))
    return [_record(line, f"{path} is damaged at line {number}") for number, line in found.items()]


def _by_kind(number: int, text: bytes) -> Groups:
    """Lines and their numbers by the kind of record that they seem to be; whatever looks damaged is of no kind."""
    groups: dict[bytes, list[tuple[int, bytes]]] = {}
    for place, line in enumerate(text.split(b"\n"), number):
        kind = line[len(START) :].partition(b'"')[0] if line.startswith(START) and line.endswith(b"}") else b""
        groups.setdefault(kind, []).append((place, line))
    return {kind: ([place for place, _ in some], b"\n".join(line for _, line in some)) for kind, some in groups.items()}


class _Some:
    """At most `most` of however many numbered lines. Which ones is decided by the number, as if by chance but evenly: of every
    64th, an entry that every tenth record has might never be seen."""

    def __init__(self, most: int):
        self.most, self.below = most, 1 << 64
        self.kept: list[tuple[int, bytes]] = []
        self.last = (0, b"")

    def add(self, numbers: Sequence[int], text: bytes) -> None:
        below, mask = self.below, (1 << 64) - 1
        if chosen := [place for place, number in enumerate(numbers) if number * UNEVEN & mask < below]:
            lines = text.split(b"\n")
            self.kept += [(numbers[place], lines[place]) for place in chosen]
        self.last = (numbers[-1], text[text.rfind(b"\n") + 1 :])
        while len(self.kept) > self.most:
            self.below //= 2
            self.kept = [line for line in self.kept if line[0] * UNEVEN & mask < self.below]


def newest(folder: Path, *kinds: str, within: int | None = None) -> dict[str, Record]:
    """The last record of each kind that is there, found from the end of the journal; within: in its last bytes alone."""
    path = folder / JOURNAL
    damaged = f"{path} is damaged at its end"
    found: dict[str, Record] = {}
    for number, text in enumerate(_from_the_end(path, within)):
        if number == 0:
            _record(text[:-1].rpartition(b"\n")[2], damaged)
        for kind in kinds:
            begin = b"\n" + START + kind.encode() + b'"'
            if kind not in found and (place := text.rfind(begin) + 1 if begin in text else 0):
                found[kind] = _record(text[place : text.index(b"\n", place)], damaged)
        if len(found) == len(kinds):
            break
    return found


def _opened(path: Path) -> BinaryIO:
    """The journal; where there is none yet, nothing stands in it."""
    try:
        return opened(path)
    except FileNotFoundError:
        return io.BytesIO()
    except OSError as error:
        raise cannot_read(path, error) from None


def _blocks(path: Path) -> Iterator[bytes]:
    """Whole lines, a block of them at a time, without the end of the last one."""
    rest = b""
    with _opened(path) as file:
        while block := file.read(BLOCK):
            lines, end, rest = (rest + block).rpartition(b"\n")
            if end:
                yield lines
            _check_length(path, rest)


def _from_the_end(path: Path, within: int | None) -> Iterator[bytes]:
    """Whole lines in blocks, the last ones first; before each line and after it there is a line's end."""
    rest, ended = b"", False
    with _opened(path) as file:
        begin = file.seek(0, 2)
        first = 0 if within is None else max(0, begin - within)
        while begin > first:
            end, begin = begin, max(first, begin - BLOCK)
            file.seek(begin)
            text = (b"" if begin else b"\n") + file.read(end - begin) + rest
            if not ended:  # the last line is still being written
                text = text[: text.rfind(b"\n") + 1]
                ended = bool(text)
            cut = text.find(b"\n")
            rest = text[: cut + 1]
            _check_length(path, rest)
            if len(text) - cut > 1:
                yield text[cut:]


def _check_length(path: Path, line: bytes) -> None:
    if len(line) > LONGEST:
        raise UserError(f"{path} is damaged: a line has more than {LONGEST:,} bytes")


def _record(line: bytes, damaged: str) -> Record:
    try:
        record = json.loads(line)
        if isinstance(record["kind"], str):
            return dict(record)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise UserError(damaged)

"""The .ts files of the UCR and UEA archives: a sequence is a line, its channels parted by colons, its target last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hrnn.data.array_sources import unnamed
from hrnn.data.labels import Target, target_of
from hrnn.data.source import Block, Layout, Paths, Register, Source, Stream, block_of, listed
from hrnn.data.unpacking import unpacked
from hrnn.errors import UserError, shortened

LINE = 1 << 28  # characters of a line at most


@dataclass(frozen=True)
class Archive(Source):
    """See `archive`."""

    paths: tuple[tuple[Path, str | None], ...]

    def files(self) -> list[Path]:
        return [path for path, _ in self.paths]

    def options(self) -> dict[str, Any]:
        return {"source": "ts", "parts": [part for _, part in self.paths]}

    def open(self) -> Stream:
        lines = _lines(self.paths[0][0])
        header = _header(lines, self.paths[0][0])
        first = _sequence(next(lines, ""), header, self.paths[0][0], 1)[0]
        target = None if header["target"] is None else "sequence"
        layout = Layout(unnamed(first.shape[1]), target=target, target_name=None if target is None else "class")  # type: ignore[arg-type]
        register = Register()
        return Stream(layout, register, self._blocks(register, first.shape[1], header["target"]))

    def _blocks(self, register: Register, channels: int, target: str | None) -> Iterator[Block]:
        for path, part in self.paths:
            lines = _lines(path)
            header = _header(lines, path)
            if header["target"] != target:
                raise UserError(
                    f"{path} has {header['target'] or 'no'} targets and the first file {target or 'none'}; make them alike"
                )
            for number, line in enumerate(lines, 1):
                values, label = _sequence(line, header, path, number)
                if values.shape[1] != channels:
                    raise UserError(
                        f"sequence {number} of {path} has {values.shape[1]} channels and the first {channels}; make them alike"
                    )
                yield block_of(register.add(f"{path.stem}/{number}", target=label, part=part), values)


def archive(paths: Paths) -> Archive:
    """.ts files. Names that end with _TRAIN and _TEST say their part, if nothing else does."""
    ends = {"_TRAIN": "training", "_TEST": "test"}
    found = [(path, part or next((ends[end] for end in ends if path.stem.endswith(end)), None)) for path, part in listed(paths)]
    return Archive(tuple(found))


def _lines(path: Path) -> Iterator[str]:
    """Those that say something."""
    with unpacked(path) as file:
        while raw := file.readline(LINE):
            line = raw.decode("utf-8", "replace").strip()
            if line and not line.startswith("#"):
                yield line


def _header(lines: Iterator[str], path: Path) -> dict[str, Any]:
    """target: "class", "number" or None. The lines that follow are sequences."""
    header: dict[str, Any] = {"target": None}
    for line in lines:
        words = line.split()
        name = words[0].lower()
        if name == "@data":
            return header
        if not name.startswith("@"):
            raise UserError(f"{path} has {shortened(line)!r} before @data; it is no .ts file")
        true = len(words) > 1 and words[1].lower() == "true"
        if name == "@timestamps" and true:
            raise UserError(f"{path} has timestamps; write them as a table with columns id, time and values instead")
        if name in ("@classlabel", "@targetlabel") and true:
            header["target"] = "class" if name == "@classlabel" else "number"
    raise UserError(f"{path} has no @data; it is no .ts file, or truncated")


def _sequence(line: str, header: dict[str, Any], path: Path, number: int) -> tuple[NDArray[np.float64], Target | None]:
    where = f"sequence {number} of {path}"
    parts, label = line.split(":"), None
    if header["target"] is not None:
        label = parts.pop().strip()
    if not parts or not all(part.strip() for part in parts):
        raise UserError(f"{where} is empty; leave it out")
    channels = [_channel(part, where) for part in parts]
    if len({len(channel) for channel in channels}) > 1:
        lengths = sorted({len(channel) for channel in channels})
        raise UserError(f"{where} has channels of different lengths ({lengths[0]:,} and {lengths[-1]:,}); make them equal")
    if header["target"] == "number":
        try:
            return np.stack(channels, axis=1), target_of(float(label or ""), where)
        except ValueError as error:
            raise UserError(f"the target of {where} is {shortened(label)!r}, which is not a number") from error
    return np.stack(channels, axis=1), label


def _channel(text: str, where: str) -> NDArray[np.float64]:
    entries = text.split(",")
    try:
        return np.array([float("nan") if entry.strip() == "?" else float(entry) for entry in entries])
    except ValueError:
        wrong = next(entry for entry in entries if not _number(entry))
        raise UserError(f"{where} has {shortened(wrong.strip())!r} where a number should be") from None


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.strip() == "?"
    return True

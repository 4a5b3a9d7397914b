"""Sequences in a cache: lengths, ids and facts at hand, steps read from memory-mapped files as they are asked for."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hrnn.data.growing import BLOCK
from hrnn.data.source import Layout, Numbers
from hrnn.data.times import per_second
from hrnn.errors import UserError, shortened
from hrnn.formats import check_format

MANIFEST = "cache.json"


class Sequences:
    """The sequences of a cache, numbered from 0.

    layout:       what a step is
    lengths:      (sequences,) steps of each
    vocabularies: by channel, of categorical ones and tokens: what each code stands for
    labels:       of each fact that is one ("target", "part", "group"), what its codes stand for; None for numbers
    manifest:     all that the cache says of itself, as JSON

    Values stand as the source has them, in float32; missing ones are the last one of their sequence, nan before the first.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.manifest = _manifest(self.folder)
        try:
            known: dict[str, Any] = self.manifest["layout"]
            known = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
            self.layout = Layout(**known)
            self.vocabularies: dict[str, list[str]] = self.manifest["vocabularies"]
            self.labels: dict[str, list[str] | None] = self.manifest["facts"]
            if self.layout.target == "step":
                self.labels = self.labels | {"target": self.manifest["labels"]}
            self.offsets = self._array("offsets")
            self._values = self._array("values")
            self._times = self._array("times") if self.layout.time is not None else None
            self._missing = self._array("missing") if any(self.manifest["missing"]) else None
            self._step_targets = self._array("step_targets") if self.layout.target == "step" else None
            self._id_ends = self._array("id_ends")
            self._ids = self._array("ids")
            of_steps = (self._values, self._times, self._missing, self._step_targets)
            whole = all(array is None or len(array) == self.offsets[-1] for array in of_steps)
            whole = whole and len(self.offsets) == len(self._id_ends) + 1 and bool((np.diff(self.offsets) >= 0).all())
        except (KeyError, TypeError, IndexError, ValueError, OSError, EOFError) as error:
            if isinstance(error, UserError):
                raise
            raise UserError(
                f"the cache {self.folder} is damaged ({shortened(error)}); remove the folder, and it is made again"
            ) from None
        if not whole:
            raise UserError(f"the cache {self.folder} is damaged (lengths differ); remove the folder, and it is made again")
        self.lengths: Numbers = np.diff(self.offsets)

    def _array(self, name: str) -> NDArray[Any]:
        path = _regular(self.folder / f"{name}.npy")
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))  # a plain view is quicker

    def __len__(self) -> int:
        return len(self.lengths)

    def _span(self, number: int, start: int, stop: int | None) -> slice:
        first, last = int(self.offsets[number]), int(self.offsets[number + 1])
        stop = last - first if stop is None else stop
        if not 0 <= start <= stop <= last - first:
            raise IndexError(f"steps {start} to {stop} of a sequence of {last - first}")
        return slice(first + start, first + stop)

    def read(self, number: int, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Steps start..stop-1 of a sequence, a view: (steps, channels) float32, or (steps,) tokens."""
        return self._values[self._span(number, start, stop)]

    def missing(self, number: int, start: int = 0, stop: int | None = None) -> NDArray[np.bool_] | None:
        """Which values of these steps were missing: (steps, channels). None: none is, in any sequence."""
        if self._missing is None:
            return None
        bits = np.unpackbits(self._missing[self._span(number, start, stop)], axis=1, count=len(self.layout.channels))
        return bits.astype(bool)

    def times(self, number: int, start: int = 0, stop: int | None = None) -> NDArray[Any] | None:
        """(steps,) numbers, or timestamps in the unit that layout.time names; None without a column for them."""
        return None if self._times is None else self._times[self._span(number, start, stop)]

    def step_targets(self, number: int, start: int = 0, stop: int | None = None) -> NDArray[np.float64] | None:
        """(steps,) targets of the steps, codes of labels["target"] where that is a list; None if they have none."""
        return None if self._step_targets is None else self._step_targets[self._span(number, start, stop)]

    def id(self, number: int) -> str:
        first = int(self._id_ends[number - 1]) if number else 0
        text = self._ids[first : int(self._id_ends[number])].tobytes()
        try:
            return text.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise UserError(f"the cache {self.folder} is damaged (ids); remove the folder, and it is made again") from None

    @property
    def ids(self) -> Iterator[str]:
        return (self.id(number) for number in range(len(self)))

    def fact(self, name: str) -> NDArray[np.float64] | None:
        """(sequences,) what is known of each: "target", "part" or "group"; codes of labels[name] where that is a list."""
        return self._facts.get(name)

    @cached_property
    def _facts(self) -> dict[str, NDArray[np.float64]]:
        return {name: self._array(name) for name in self.manifest["facts"]}

    def stretches(self, numbers: Numbers, starts: Numbers, stops: Numbers) -> Iterator[slice]:
        """Spans of sequences as stretches of all steps, neighbours together, a block at a time; for `across`."""
        first, last = self.offsets[numbers] + starts, self.offsets[numbers] + stops
        order = np.argsort(first, kind="stable")
        first, last = first[order], last[order]
        breaks = np.flatnonzero(first[1:] != last[:-1])
        begins, ends = first[np.append(0, breaks + 1)], last[np.append(breaks, len(last) - 1)]
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            yield from (slice(at, min(at + BLOCK, end)) for at in range(begin, end, BLOCK))

    def across(self, steps: slice) -> tuple[NDArray[Any], NDArray[np.bool_] | None, NDArray[np.float64] | None]:
        """Values, which of them were missing, and targets of steps, whatever sequences they belong to."""
        bits = None if self._missing is None else np.unpackbits(self._missing[steps], axis=1, count=len(self.layout.channels))
        targets = None if self._step_targets is None else np.asarray(self._step_targets[steps])
        return np.asarray(self._values[steps]), None if bits is None else bits.astype(bool), targets

    def differences(self, steps: slice) -> NDArray[Any]:
        """Those of the times of steps, without those from one sequence to the next: in seconds, if these are timestamps."""
        assert self._times is not None
        times = np.asarray(self._times[steps])
        inside = np.ones(max(0, len(times) - 1), bool)
        low, high = np.searchsorted(self.offsets, [steps.start + 1, steps.start + len(times)])
        inside[self.offsets[low:high] - steps.start - 1] = False
        found: NDArray[Any] = np.diff(times)[inside]
        unit = per_second(self.layout.time)
        return found if unit == 1 else found / unit


def _regular(path: Path) -> Path:
    """A pipe would let its reader wait for ever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"{path.name} is not a regular file")
    return path


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = dict(json.loads(_regular(path).read_bytes()))
    except OSError as error:
        raise UserError(f"{folder} is no cache of sequences: {path.name} cannot be read ({error.strerror or error})") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"the cache {folder} is damaged ({path.name}); remove the folder, and it is made again") from None
    found = check_format("cache", manifest, f"the cache {folder}")
    if manifest.get("checksum") != checksum(manifest):
        raise UserError(f"the cache {folder} is damaged ({path.name} was changed); remove the folder, and it is made again")
    return found


def checksum(manifest: dict[str, Any]) -> str:
    """Of all that a cache says of itself."""
    content = {name: value for name, value in manifest.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

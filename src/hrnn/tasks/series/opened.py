"""The data of a series task: from its options to a source, a cache, parts; opened once for all copies of a task."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from hrnn.data import Part, Preprocessing, Sequences, Source, Spans, array_files, cache, find, folder, learn, split
from hrnn.data.caching import cached
from hrnn.errors import UserError, shortened

Kind = Literal["audio", "bases", "proteins", "bytes", "text", "tokens"]
NONE = "none"  # instead of a column: there is none
SAMPLE = 1_000_000  # steps from which the usual change of a value is taken

_KNOWN: WeakValueDictionary[Any, Opened] = WeakValueDictionary()


@dataclass(frozen=True, eq=False)
class Opened:
    """Sequences on disk, and which steps of which of them each part has."""

    sequences: Sequences
    parts: dict[str, Spans]
    learned: dict[Any, Preprocessing] = field(default_factory=dict)

    def preprocessing(self, **options: Any) -> Preprocessing:
        """Learned from the training part, once."""
        key = tuple(options.items())
        if key not in self.learned:
            self.learned[key] = learn(self.sequences, self.parts, **options)
        return self.learned[key]


def source_of(
    paths: Mapping[str, Sequence[Path]],
    kind: Kind | None,
    columns: Mapping[str, Any],
) -> Source:
    """The source that options name.

    paths:   by part; what is for training only is split
    columns: those of `hrnn.data.table`, and labels for folders; what is None or empty was not given
    """
    given = {name: False if value == NONE else value for name, value in columns.items() if value not in (None, ())}
    data: Any = list(paths["training"])
    if others := {part: list(some) for part, some in paths.items() if some and part != "training"}:
        data = {"training": data, **others}
    if kind is not None and given.get("target") is False:
        given = {"labels": False, **{name: value for name, value in given.items() if name != "target"}}
    if kind == "tokens":
        _refuse({name: value for name, value in given.items() if value is not False}, kind)
        return array_files(data, tokens=True)
    if kind is not None:
        _refuse({name: value for name, value in given.items() if name != "labels"}, kind)
        kinds = {"bases": "letters", "proteins": "letters"}
        letters = "amino acids" if kind == "proteins" else "bases"
        return folder(data, kinds.get(kind, kind), letters=letters, labels=given.get("labels"))  # type: ignore[arg-type]
    try:
        return find(data, **given)
    except UserError as error:
        option = next((name for name in given if str(error).startswith(f"'{name}' is no option")), None)
        if option is None:
            raise
        if option == "labels":
            raise UserError(
                "--labels is for folders of audio, letters, text or bytes, and the data are none; drop it"
            ) from None
        raise UserError(f"--{'split' if option == 'part' else option} is for tables, and the data are none; drop it") from None


def _refuse(given: Mapping[str, Any], kind: str) -> None:
    if given:
        name = "split" if "part" in given else next(iter(given))
        raise UserError(f"--{name} is for tables, and --kind is {kind}; drop one of the two")


def open_data(
    source: Source, place: Path, by: Any, validation: float, test: float, memory: int | None = None, *, lasting: bool = True
) -> Opened:
    """A source's sequences, from its cache below `place`, or from what this process has open already; and their parts.

    by, validation, test: as `hrnn.data.split` has them; "forecast" is by time, unless parts are given
    memory: bytes that rows of different ids which are mixed may take, where the user has said
    lasting: make the cache if it is not there; otherwise the place is only read, and a temporary one is made
    """
    try:
        seen = [(str(path), now.st_ino, now.st_size, now.st_mtime_ns) for path in source.files() for now in [path.stat()]]
    except OSError:
        seen = []  # which caching names
    said = json.dumps(source.options(), default=str, sort_keys=True)
    key = (str(place), said, by, validation, test, tuple(seen))
    found = _KNOWN.get(key)
    if found is None:
        there = cache_folder(source, place)
        sequences = None if lasting else cached(source, there)
        if sequences is None:
            sequences = cache(source, there if lasting else None, replace=True, sort_budget=memory)
        found = Opened(sequences, _parts(sequences, by, validation, test))
        _KNOWN[key] = found
    return found


def _parts(sequences: Sequences, by: Any, validation: float, test: float) -> dict[str, Spans]:
    learned = by is not None or sequences.layout.target is not None  # something else than what comes next
    if "part" in sequences.labels or (learned and by != "forecast"):
        return split(sequences, None if by == "forecast" else by, validation=validation, test=test)
    longest, shares = int(sequences.lengths.max()), [validation, test]
    # What follows a step is asked, so an end of one is too short.
    if min((share for share in shares if share), default=1.0) * longest < 2:
        if len(sequences) > 2:
            return split(sequences, "random", validation=validation, test=test)
        shares = [max(share, min(2.5 / longest, 0.45)) if share else 0.0 for share in shares]
    return split(sequences, "time", validation=shares[0], test=shares[1])


def check_steps(part: Part, name: str) -> None:
    """Something must follow something in a part that asks what follows."""
    if part.lengths.max() < 2:
        raise UserError(
            f"no sequence has two inputs in {name}, and nothing follows one; give longer series, a larger --held-out, a "
            f"smaller --patch, or --split-by random"
        )


def check_targets(part: Part, where: Path) -> None:
    """Other data that a run is tested on have targets of its kind, and no class that it never learned."""
    pre, layout = part.preprocessing, part.sequences.layout
    name = pre.target_name or "target"
    if pre.targets != "none" and layout.target != pre.targets:
        has = "none" if layout.target is None else f"one for each {layout.target}"
        raise UserError(
            f"the run learned {name!r}, one for each {pre.targets}, and {where} has {has}; add it, or use hrnn "
            f"predict, which needs none"
        )
    if pre.target_kind == "class" and (strange := part.strange_class()) is not None:
        raise UserError(f"class {shortened(strange)!r} occurs in {where}, and training had none of it; leave it out")
    if pre.target_kind == "number" and part.sequences.labels["target"] is not None:
        raise UserError(f"the run learned numbers, and {name!r} of {where} holds texts; give numbers")


def cache_folder(source: Source, place: Path) -> Path:
    """Where the cache of a source is, below a folder: another one for other files or other columns."""
    files = source.files()
    said = json.dumps([[str(path) for path in files], source.options()], default=str, sort_keys=True)
    name = files[0].name.partition(".")[0] if len(files) == 1 else files[0].parent.name
    return place / f"{name[:40] or 'data'}-{hashlib.sha256(said.encode()).hexdigest()[:10]}"


def with_lead(spans: Spans, steps: int, patch: int) -> tuple[Spans, NDArray[np.int64]]:
    """Spans that begin up to so many steps of the source earlier, and how many inputs of each row that is: what a model reads
    before it is asked, where a part begins in the course of a sequence."""
    lead = np.minimum(spans.starts, steps) // patch * patch
    return Spans(spans.numbers, spans.starts - lead, spans.stops, spans.known), lead // patch


def changes(part: Part) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Of each numeric channel, as the network reads it: the mean and the root mean square of its changes from one step to the
    next, 1 where it never changes; by a sample of rows."""
    channels = len(part.preprocessing.numeric)
    total, squares, count = np.zeros(channels), np.zeros(channels), np.zeros(channels)
    every, limit = max(1, len(part) // 2000), SAMPLE // part.preprocessing.patch
    for row in range(0, len(part), every):
        values, there = part.numbers(row, 0, min(int(part.lengths[row]), limit))
        values, there = values.reshape(-1, channels), there.reshape(-1, channels)
        moved = np.where(there[1:] & there[:-1], values[1:].astype(np.float64) - values[:-1], 0)
        total += np.abs(moved).sum(0)
        squares += (moved**2).sum(0)
        count += (there[1:] & there[:-1]).sum(0)
        limit -= len(values) // part.preprocessing.patch
        if limit <= 0:
            break
    mean, root = total / np.maximum(count, 1), np.sqrt(squares / np.maximum(count, 1))
    return tuple(np.where(mean > 0, mean, 1.0).tolist()), tuple(np.where(root > 0, root, 1.0).tolist())

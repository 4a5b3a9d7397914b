"""Which steps are for training, validation and test. Never a sequence in two parts, but for splits by time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hrnn.arguments import shown
from hrnn.arguments import whole as whole_number
from hrnn.data.sequences import Sequences
from hrnn.data.source import Numbers
from hrnn.errors import UserError

By = Literal["given", "group", "class", "random", "time"]
SAMPLE = 1_000_000  # times of which a split by time takes its quantiles


@dataclass(frozen=True)
class Spans:
    """Steps of sequences: row i is steps starts[i]..stops[i]-1 of sequence numbers[i].

    known: from how many of its first steps a sequence's own mean and scale are taken; with a split by time those of training
    """

    numbers: Numbers
    starts: Numbers
    stops: Numbers
    known: Numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def lengths(self) -> Numbers:
        return self.stops - self.starts


def whole(sequences: Sequences, numbers: NDArray[Any] | None = None) -> Spans:
    """Sequences from beginning to end, by default all."""
    chosen = np.arange(len(sequences)) if numbers is None else np.asarray(numbers, np.int64)
    lengths = sequences.lengths[chosen]
    return Spans(chosen, np.zeros_like(lengths), lengths, lengths)


def split(
    sequences: Sequences,
    by: By | None = None,
    *,
    validation: float = 0.1,
    test: float = 0.1,
    seed: int = 0,
    at: Sequence[Any] | None = None,
) -> dict[str, Spans]:
    """Parts by name: "training" and, unless their shares are 0, "validation" and "test".

    by: "given"   what the source says (a column, folders, files); validation is split off training if it is not given
        "group"   all sequences of a group go to the same part
        "class"   every class in the same proportion
        "random"  whatever the sequences are
        "time"    the end of every sequence is validation and test, from common times on if the sequences have times
        None      the first of these that the source allows: given, group, class if each sequence has one; time if there are no
                  targets or one sequence only; random
        What the source says is for a test stays that, whatever says how validation is split off.
    validation, test: shares of the sequences (of the groups' sequences, of the steps)
    seed: which sequences; what a sequence is in depends on its id and on the others', not on their order
    at:   for "time": where validation and test begin, as times or timestamps (text), instead of shares
    """
    for name, share in (("validation", validation), ("test", test)):
        if not isinstance(share, int | float) or not 0 <= share < 1 or validation + test >= 1:
            raise UserError(f"the share for {name} is {shown(share)}; give shares from 0 to below 1, together below 1")
    if by not in (None, *get_args(By)):
        raise UserError(f"by is {shown(by)}; give one of {', '.join(get_args(By))}")
    whole_number("seed", seed, 0)
    given = _given(sequences)
    if by == "given" and not given:
        raise UserError("by is 'given', and the source says of no sequence what part it is in; give a column, folders or files")
    if by not in (None, "given") and "validation" in given:
        raise UserError(f"by is {by!r} (--split-by), and the data say what is for validation; drop one of the two")
    numbers = given.get("training", np.zeros(0, np.int64)) if given else np.arange(len(sequences))
    if not len(numbers):
        raise UserError("no sequence is left for training; give more sequences, or other parts")
    others = {name: whole(sequences, some) for name, some in given.items() if name != "training"}
    if "validation" in given:
        return {"training": whole(sequences, numbers), **others}
    test = 0.0 if given else test
    chosen = by if by not in (None, "given") else _by(sequences, numbers, bool(given))
    if chosen == "time":
        found = _by_time(sequences, numbers, validation, test, at)
    else:
        drawn = (
            _by_group(sequences, numbers, validation, test, seed)
            if chosen == "group"
            else (_drawn(sequences, numbers, chosen == "class", validation, test, seed))
        )
        found = {name: whole(sequences, np.sort(some)) for name, some in drawn.items()}
    for name in ("training", "validation") if validation else ("training",):
        if not len(found[name]):
            raise UserError(
                f"no sequence can be spared for {name}; give more sequences, or learn from all of them (--validation none, in "
                "Python validation=0)"
            )
    return {name: spans for name, spans in (found | others).items() if len(spans)}


def _by(sequences: Sequences, numbers: Numbers, given: bool) -> By:
    if "group" in sequences.labels:
        return "group"
    if len(numbers) == 1 or (sequences.layout.target is None and not given):
        return "time"
    return "class" if sequences.layout.target == "sequence" and sequences.labels["target"] is not None else "random"


def _order(sequences: Sequences, numbers: Numbers, seed: int) -> Numbers:
    """A random order that depends on ids only."""
    keys = [
        hashlib.blake2b(f"{seed}/{sequences.id(int(n))}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for n in numbers
    ]
    return numbers[np.argsort(np.array(keys, "S8").view(">u8") if keys else np.zeros(0), kind="stable")]


def _drawn(
    sequences: Sequences, numbers: Numbers, by_class: bool, validation: float, test: float, seed: int
) -> dict[str, Numbers]:
    targets = sequences.fact("target")
    if by_class and targets is None:
        raise UserError("by is 'class', and the sequences have no targets; give them, or split by random")
    order = _order(sequences, numbers, seed)
    kinds = (
        [order] if not by_class or targets is None else [order[targets[order] == kind] for kind in np.unique(targets[order])]
    )
    parts: dict[str, list[Numbers]] = {"training": [], "validation": [], "test": []}
    for some in kinds:
        first = min(round_half_up(validation * len(some)), len(some) - 1)
        second = min(round_half_up(test * len(some)), len(some) - 1 - first)
        for name, which in zip(("validation", "test", "training"), np.split(some, [first, first + second]), strict=True):
            parts[name].append(which)
    for name, share in (("validation", validation), ("test", test)):
        if share and not any(map(len, parts[name])):  # no kind is large enough for its share
            parts[name] = _spared(parts["training"], order, max(1, round_half_up(share * len(numbers))))
    return {name: np.concatenate(several) if several else order[:0] for name, several in parts.items()}


def _spared(kinds: list[Numbers], order: Numbers, most: int) -> list[Numbers]:
    """One sequence of each kind that has two at least, which loses it; of so many kinds at most, the first in order."""
    ranks = {int(number): rank for rank, number in enumerate(order)}
    several = sorted(
        (place for place, kind in enumerate(kinds) if len(kind) > 1), key=lambda place: ranks[int(kinds[place][-1])]
    )
    taken = []
    for place in several[:most]:
        kinds[place], last = kinds[place][:-1], kinds[place][-1:]
        taken.append(last)
    return taken


def round_half_up(number: float) -> int:
    return int(number + 0.5)


def _given(sequences: Sequences) -> dict[str, Numbers]:
    """What the source says; nothing, if it says nothing."""
    codes, labels = sequences.fact("part"), sequences.labels.get("part")
    return {} if codes is None else {name: np.flatnonzero(codes == code) for code, name in enumerate(labels or ())}


def _by_group(sequences: Sequences, numbers: Numbers, validation: float, test: float, seed: int) -> dict[str, Numbers]:
    codes, labels = sequences.fact("group"), sequences.labels.get("group")
    if codes is None or labels is None:
        raise UserError("by is 'group', and the source has no groups; name a column with group")
    keys = [hashlib.blake2b(f"{seed}/{label}".encode("utf-8", "surrogatepass"), digest_size=8).digest() for label in labels]
    groups = sorted(map(int, np.unique(codes[numbers])), key=lambda code: keys[code])
    if len(groups) < 1 + (validation > 0) + (test > 0):
        raise UserError(f"there are {len(groups)} group(s) for the parts; give more, or split by something else")
    sizes = np.bincount(codes[numbers].astype(np.int64), minlength=len(labels))
    parts: dict[str, list[int]] = {"validation": [], "test": []}
    for name, share in (("validation", validation), ("test", test)):
        while groups and share and sizes[parts[name]].sum() < share * sizes.sum() and (len(groups) > 1 or not parts[name]):
            parts[name].append(groups.pop(0))
    chosen = {"training": groups, **parts}
    return {name: numbers[np.isin(codes[numbers], some)] for name, some in chosen.items()}


def _by_time(
    sequences: Sequences, numbers: Numbers, validation: float, test: float, at: Sequence[Any] | None
) -> dict[str, Spans]:
    if at is None and sequences.layout.time is not None and len(numbers) > 1:
        at = _common_times(sequences, numbers, validation, test)
    lengths = sequences.lengths[numbers]
    if at is None:
        first = np.ceil(lengths * (1 - validation - test)).astype(np.int64)
        second = np.ceil(lengths * (1 - test)).astype(np.int64)
    else:
        times = _times(sequences, at)
        cuts = [[np.searchsorted(sequences.times(int(n)), time) for time in times] for n in numbers]  # type: ignore[arg-type]
        first, second = np.array(cuts, np.int64).T
    parts = {"training": (np.zeros_like(first), first), "validation": (first, second), "test": (second, lengths)}
    known = np.where(first > 0, first, lengths)
    there = {name: stops > starts for name, (starts, stops) in parts.items()}
    return {
        name: Spans(numbers[there[name]], starts[there[name]], stops[there[name]], known[there[name]])
        for name, (starts, stops) in parts.items()
    }


def _common_times(sequences: Sequences, numbers: Numbers, validation: float, test: float) -> list[Any]:
    """Times behind which such shares of all steps lie, by a sample of them."""
    every = max(1, int(sequences.lengths[numbers].sum()) // SAMPLE)
    sample = np.sort(np.concatenate([np.asarray(sequences.times(int(n)))[::every] for n in numbers]))
    places = [min(int(np.ceil(len(sample) * share)), len(sample) - 1) for share in (1 - validation - test, 1 - test)]
    return [sample[place] if share else sample[-1] + 1 for place, share in zip(places, (validation + test, test), strict=True)]


def _times(sequences: Sequences, at: Sequence[Any]) -> list[Any]:
    """Times as the cache has them."""
    if sequences.layout.time is None:
        raise UserError(f"at is {shown(at)}, and the sequences have no times; name the column of times, or give shares")
    unit = sequences.layout.time.removeprefix("timestamp[").removesuffix("]")
    try:
        found = [np.array(time, f"datetime64[{unit}]").astype(np.int64) if isinstance(time, str) else time for time in at]
        ordered = len(found) == 2 and found[0] <= found[1]
    except (ValueError, TypeError):
        ordered = False
    if not ordered:
        raise UserError(f"at is {shown(at)}; give two times in order, where validation and where test begin")
    return found

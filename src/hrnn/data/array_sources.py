"""Arrays: lists of (time, channels) in memory, and .npy and .npz files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hrnn.arguments import flag, shown
from hrnn.data.growing import BLOCK
from hrnn.data.labels import Target, step_targets, targets_of
from hrnn.data.source import Block, Layout, Paths, Register, Source, Stream, Vocabulary, block_of, listed, part_named
from hrnn.data.unpacking import check_size
from hrnn.errors import UserError, shortened, words_of

DATA, TARGETS = ("x", "data", "values"), ("y", "target", "targets", "label", "labels")
OF_PART = re.compile("[xy]_?(train|training|val|valid|validation|dev|test)")
PICKLED = "holds pickled objects, which could run code; save arrays of numbers, with padding or as one array for each sequence"


@dataclass(frozen=True)
class Held:
    """Sequences at hand. targets: one for each sequence, or an array for each with one for each step. names: of channels, where
    sequences are tables."""

    sequences: Sequence[NDArray[Any]]
    targets: Sequence[Target] | Sequence[NDArray[np.float64]] | None = None
    ids: Sequence[str] | None = None
    groups: Sequence[str] | None = None
    part: str | None = None
    parts: Sequence[str] | None = None
    names: Sequence[str] | None = None

    @property
    def by_step(self) -> bool:
        return self.targets is not None and len(self.targets) > 0 and isinstance(self.targets[0], np.ndarray)


@dataclass(frozen=True)
class Arrays(Source):
    """Sequences in memory or in .npy and .npz files; see `arrays` and `array_files`. What is held is made when it is needed."""

    held: Callable[[], list[Held]] = field(compare=False)
    paths: tuple[Path, ...] = ()
    tokens: bool = False
    said: dict[str, Any] = field(default_factory=dict)

    def files(self) -> list[Path]:
        return list(self.paths)

    def options(self) -> dict[str, Any]:
        return {"source": "arrays", "tokens": self.tokens, **self.said}

    def open(self) -> Stream:
        held = self.held()
        first = held[0].sequences[0]
        channels = first.shape[1] if first.ndim == 2 else 1
        target = None if held[0].targets is None else "step" if held[0].by_step else "sequence"
        if any((one.targets is None) != (target is None) or one.by_step != (target == "step") for one in held):
            raise UserError("some arrays have targets and others have none, or of another kind; make them alike")
        names = ("token",) if self.tokens else tuple(held[0].names or unnamed(channels))
        layout = Layout(names, self.tokens, target=target, target_name=None if target is None else "y")  # type: ignore[arg-type]
        vocabularies = {"token": Vocabulary()} if self.tokens else {}
        register = Register()
        return Stream(layout, register, self._blocks(held, channels, register, vocabularies.get("token")), vocabularies)

    def _blocks(self, held: list[Held], channels: int, register: Register, vocabulary: Vocabulary | None) -> Iterator[Block]:
        for one in held:
            for place, sequence in enumerate(one.sequences):
                name = str(len(register.ids)) if one.ids is None else str(one.ids[place])
                if not len(sequence):
                    raise UserError(f"sequence {shortened(name)!r} is empty; leave it out")
                facts: dict[str, Any] = {"part": one.part if one.parts is None else one.parts[place]}
                facts["group"] = None if one.groups is None else one.groups[place]
                if one.targets is not None and not one.by_step:
                    facts["target"] = one.targets[place]
                number = register.add(name, **facts)
                steps = (
                    step_targets(one.targets[place], len(sequence), name) if one.targets is not None and one.by_step else None
                )
                for first in range(0, len(sequence), BLOCK):
                    some = np.asarray(sequence[first : first + BLOCK])
                    values = _coded(some, vocabulary, name) if vocabulary is not None else _numbers(some, channels, name)
                    yield block_of(number, values, None if steps is None else steps[first : first + BLOCK])


def arrays(
    x: Any,
    y: Any = None,
    *,
    ids: Sequence[str] | None = None,
    groups: Sequence[Any] | None = None,
    parts: Sequence[str] | None = None,
    tokens: bool = False,
) -> Arrays:
    """Sequences in memory.

    x:             a list of (time, channels) or (time,) arrays, or one array (sequences, time, channels)
    y:             None; one number or text for each sequence; or an array of numbers for each, one for each step
    ids, groups, parts: one for each sequence; ids are 0, 1, ... otherwise
    tokens:        are the entries of (time,) arrays whole numbers that are names, not amounts?
    """
    held = Held(**_sequences(x, y, "x"), ids=_several(ids, x, "ids"), groups=_several(groups, x, "groups"))
    if parts is not None:
        held = Held(**{**vars(held), "parts": [part_named(str(part), "parts") for part in _several(parts, x, "parts") or ()]})
    return Arrays(lambda: [held], (), flag("tokens", tokens))


def array_files(paths: Paths, *, tokens: bool = False) -> Arrays:
    """.npy files of (time,), (time, channels) or (sequences, time, channels); .npz files with x and y, or with an array for
    each sequence.

    paths: one file, several, or those of each part by its name. A file of one sequence is called by its name
    """
    found = listed(paths)
    said = {"parts": [part for _, part in found]}
    return Arrays(
        lambda: [_read(path, part) for path, part in found], tuple(path for path, _ in found), flag("tokens", tokens), said
    )


def _several(entries: Sequence[Any] | None, x: Any, name: str) -> list[str] | None:
    if entries is None:
        return None
    if len(entries) != len(x):
        raise UserError(f"{name} has {len(entries)} entries for {len(x)} sequences; give one for each")
    return [str(entry) for entry in entries]


def unmasked(array: Any) -> Any:
    """A masked array with nan where it is masked, as numbers that are missing are; whatever else as it is."""
    return np.ma.filled(array.astype(np.float64), np.nan) if isinstance(array, np.ma.MaskedArray) else array


def unnamed(channels: int) -> tuple[str, ...]:
    """What channels are called that have no names."""
    return tuple(f"x{place}" for place in range(channels))


def columns_of(x: Any, where: str) -> list[str] | None:
    """Of sequences that are tables of pandas, Polars or pyarrow: the names of their columns, the same in all. None: they are
    arrays."""
    if not isinstance(x, list | tuple) or not any(hasattr(one, "columns") for one in x):
        return None
    names = [[str(name) for name in _names(one)] for one in x]
    if other := next((place for place, some in enumerate(names) if some != names[0]), 0):
        said = [shortened(", ".join(some), 100) or "none" for some in (names[other], names[0])]
        raise UserError(f"sequence {other} of {where} has the columns {said[0]}, and the first {said[1]}; give all the same")
    if twice := [name for place, name in enumerate(names[0]) if name in names[0][:place]]:
        raise UserError(f"sequences of {where} have two columns called {shortened(twice[0])!r}; rename one")
    return names[0]


def _names(table: Any) -> Any:
    """Of columns; pyarrow's `columns` are their values."""
    return table.column_names if hasattr(table, "column_names") else getattr(table, "columns", ())


def with_columns(table: Any, names: Sequence[str]) -> Any:
    """A table with its columns in this order."""
    own = {str(name): name for name in _names(table)}
    wanted = [own[name] for name in names]
    return table.select(wanted) if hasattr(table, "column_names") else table[wanted]


def _sequences(x: Any, y: Any, where: str) -> dict[str, Any]:
    """x as a list of arrays, y as a list of targets."""
    names, x = columns_of(x, where), unmasked(x)
    try:
        sequences = list(x) if isinstance(x, np.ndarray) and x.ndim == 3 else [_array(unmasked(one), where) for one in x]
    except TypeError:
        raise UserError(
            f"{where} is {shown(x)}; give a list of arrays (time, channels), or one (sequences, time, channels)"
        ) from None
    if not sequences:
        raise UserError(f"{where} has no sequences; give at least one")
    if y is None:
        return {"sequences": sequences, "names": names}
    if len(y) != len(sequences):
        raise UserError(f"{where} has {len(sequences)} sequences and {len(y)} targets; give one for each")
    by_step = isinstance(y[0], np.ndarray | list | tuple) and np.ndim(y[0]) > 0
    targets: Any = [np.asarray(one) for one in y] if by_step else targets_of(y, "sequence")
    return {"sequences": sequences, "targets": targets, "names": names}


def _array(one: Any, where: str) -> NDArray[Any]:
    try:
        array = np.asarray(one)
    except ValueError:
        raise UserError(f"a sequence of {where} has rows of different lengths; give arrays (time, channels)") from None
    if array.ndim not in (1, 2) or array.dtype.kind not in "fiubUS":
        raise UserError(f"a sequence of {where} is {shown(array)}; give arrays of numbers, (time, channels)")
    return array


def _numbers(some: NDArray[Any], channels: int, name: str) -> NDArray[Any]:
    if some.dtype.kind not in "fiub":
        raise UserError(f"sequence {shortened(name)!r} is {shown(some)}; give numbers")
    values = some[:, None] if some.ndim == 1 else some
    if values.shape[1] != channels or not channels:
        raise UserError(
            f"sequence {shortened(name)!r} has {values.shape[1]} channels and the first has {channels}; give equally many, as "
            "arrays (time, channels)"
        )
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def _coded(some: NDArray[Any], vocabulary: Vocabulary, name: str) -> NDArray[Any]:
    """Whole numbers or texts as codes."""
    if some.ndim != 1 or some.dtype.kind not in "iubUS":
        raise UserError(f"sequence {shortened(name)!r} is {shown(some)}; tokens are arrays (time,) of whole numbers or texts")
    entries, codes = np.unique(some, return_inverse=True)
    return vocabulary.several(str(entry) for entry in entries.tolist())[codes]


def _read(path: Path, part: str | None) -> Held:
    try:
        with open(path, "rb") as file:  # which numpy leaves open where an archive is damaged
            archive = file.read(2) == b"PK"
            file.seek(0)
            found = _all_of(np.load(file, allow_pickle=False), path) if archive else np.load(path, "r", allow_pickle=False)
    except UserError:
        raise
    except Exception as error:  # numpy reads the header as Python, and zipfile has errors of its own
        if "pickle" in str(error) or "Python objects" in str(error):
            raise UserError(f"{path} {PICKLED}") from None
        said = getattr(error, "strerror", None) or words_of(error)
        raise UserError(
            f"{path} cannot be read as an array of numpy ({said}); save it again with numpy.save or numpy.savez"
        ) from None
    if isinstance(found, np.ndarray):
        return _of_one(found, path, part)
    names = {name.lower(): name for name in found}
    data = next((names[name] for name in DATA if name in names), None)
    target = next((names[name] for name in TARGETS if name in names), None)
    if any(OF_PART.fullmatch(name) for name in names):
        raise UserError(
            f"{path} has the arrays {shortened(', '.join(found), 200)}; write a file with x and y for each part, and name "
            "those for others than training in validation and test (--validation, --test)"
        )
    if data is None and target is None:
        sequences = [_array(array, str(path)) for array in found.values()]
        if not sequences:
            raise UserError(f"{path} has no arrays")
        return Held(sequences, ids=list(found), part=part)
    if data is None or len(found) > 1 + (target is not None):
        raise UserError(
            f"{path} has the arrays {shortened(', '.join(found), 200)}; call them x and y, or give one array for each sequence"
        )
    if target is None:
        return _of_one(found[data], path, part)
    x = found[data]
    return Held(**_sequences(x[..., None] if x.ndim == 2 else x, found[target], str(path)), part=part)


def _all_of(loaded: Any, path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz file, which may be packed."""
    check_size(path, path.stat().st_size, sum(one.file_size for one in loaded.zip.infolist()), "save it with numpy.savez")
    return {name: loaded[name] for name in loaded.files}


def _of_one(array: NDArray[Any], path: Path, part: str | None) -> Held:
    if array.dtype.kind not in "fiubUS" or array.ndim not in (1, 2, 3) or not array.size:
        raise UserError(f"{path} is {shown(array)}; expected numbers (time, channels) or (sequences, time, channels)")
    if array.ndim < 3:
        return Held([array], ids=[path.stem], part=part)
    return Held(list(array), ids=[f"{path.stem}/{i}" for i in range(len(array))], part=part)

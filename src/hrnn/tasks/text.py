"""Text: the next character of Penn TreeBank, or of any text files; continuous streams, one per batch row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from torch import Tensor

from hrnn.errors import UserError
from hrnn.hierarchy import Tokens
from hrnn.limits import LEVELS, Limit, above, at_least, fitted, option
from hrnn.tasks.contract import BITS_PER_NAT, Batch, Reading, Task, Window, cross_entropy
from hrnn.tasks.corpus import boundaries_of, compiled, encode, penn_treebank, read_text, vocabulary_of

T = TypeVar("T")


class Streams(NamedTuple):
    """A text laid out as one stream per row, time first."""

    x: NDArray[np.int32]  # (steps, rows)
    y: NDArray[np.int32]  # (steps, rows), the next character
    mask: NDArray[np.bool_] | None  # (steps, rows), False where the last row has run out of text
    starts: NDArray[np.bool_]  # (steps + 1, rows, levels)

    def window(self, first: int, last: int, rows: range | None = None) -> Window:
        """Steps first..last-1 of some rows, with the boundary after the last step if there is one."""
        columns = slice(None) if rows is None else slice(rows.start, rows.stop)
        mask = None if self.mask is None else torch.from_numpy(self.mask[first:last, columns])
        starts = torch.from_numpy(self.starts[first : last + 1, columns])
        levels = starts.shape[-1]
        return Window(
            torch.from_numpy(self.x[first:last, columns].astype(np.int64)),
            torch.from_numpy(self.y[first:last, columns].astype(np.int64)),
            mask,
            None if not levels else starts[..., 0] if levels == 1 else starts,
        )


@dataclass(frozen=True)
class Text(Task):
    """Predict the next character. The upper level ticks once a word; --boundaries says otherwise.

    Examples:
        hrnn train text --data ptb                     # the folder of Penn TreeBank's three files
        hrnn train text --data book.txt --boundaries word sentence --hidden-sizes 128 256 512
        hrnn train text --data log.txt --symbols bytes --boundaries --periods 8
    """

    data: tuple[Path, ...] = ()
    """Text files to train on, plain or gzip; or the folder of Penn TreeBank, with its own validation and test."""
    validation: Path | None = None
    """A text file to validate on; by default split off."""
    test: Path | None = None
    """A text file to test on; by default split off."""
    held_out: float = option(0.05, above(0, below=0.5))
    """Share of the text that is split off its end, for each of validation and test where no file is given."""
    symbols: Literal["characters", "bytes"] = "characters"
    """What a step reads."""
    boundaries: tuple[str, ...] = option(("word",), Limit(entries=LEVELS))
    """What ends a segment, lowest level first: word, line, sentence, or a regular expression (a segment begins after
    each match). None: fixed --periods only. Levels above these take --periods."""
    reach: int = option(20, at_least(1))
    """How many characters (or words, ...) back the decoder of such a level reaches."""
    vocabulary: Annotated[str, tyro.conf.Suppress] = ""

    metric: ClassVar[str] = "bits_per_character"
    suggested: ClassVar[dict[str, Any]] = {
        "hidden_sizes": (256, 512),
        "periods": (),
        "window": 50,
        "epochs": 8,
    }

    def check(self) -> None:
        if not self.data:
            raise UserError("no text to train on; name text files, or the folder of Penn TreeBank, with --data")
        compiled(self.boundaries)

    def steps_of_batch(self, reading: Reading) -> int:
        return reading.window

    def settled(self) -> Text:
        task = fitted(self)
        task.check()
        found = replace(
            task,
            data=tuple(path.expanduser().absolute() for path in task.data),
            validation=task.validation and task.validation.expanduser().absolute(),
            test=task.test and task.test.expanduser().absolute(),
        )
        folders = [path for path in found.data if path.is_dir()]
        if folders:
            if len(found.data) > 1 or found.validation or found.test:
                raise UserError(f"{folders[0]} is a folder, which brings its own parts; give it alone, or name files")
            parts = penn_treebank(folders[0])
            found = replace(found, data=(parts["training"],), validation=parts["validation"], test=parts["test"])
        return found if found.vocabulary else replace(found, vocabulary=vocabulary_of(found._text("training")))

    def _text(self, part: str) -> str:
        """The text of a part; only the files that it comes from are read, once."""
        return self._remembered(("text", part), lambda: self._read(part))

    def _read(self, part: str) -> str:
        path = {"validation": self.validation, "test": self.test}.get(part)
        if path:
            return read_text([path], self.symbols)
        whole = self._remembered("whole", lambda: read_text(self.data, self.symbols))
        size = int(len(whole) * self.held_out)
        test_from = len(whole) if self.test else len(whole) - size
        validation_from = test_from if self.validation else test_from - size
        parts = {
            "training": (0, validation_from),
            "validation": (validation_from, test_from),
            "test": (test_from, None),
        }
        return whole[slice(*parts[part])]

    def _remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        memory = self.__dict__.setdefault("_memory", {})
        if key not in memory:
            memory[key] = make()
        return memory[key]

    def files(self, part: str) -> tuple[Path, ...]:
        own = {"validation": self.validation, "test": self.test}.get(part)
        return (own,) if own else self.data

    def elsewhere(self, path: Path) -> Text:
        return replace(self, test=path.expanduser().absolute())

    @property
    def inputs(self) -> Tokens:
        return Tokens(len(self.vocabulary))

    @property
    def outputs(self) -> int:
        return len(self.vocabulary)

    @property
    def reaches(self) -> tuple[int, ...]:
        return (self.reach,) * len(self.boundaries)

    def loss(self, logits: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(logits, target)

    def report(self, sums: dict[str, float], targets: int) -> dict[str, float]:
        return {"bits_per_character": sums["loss"] / max(targets, 1) * BITS_PER_NAT}

    def _streams(self, part: str, rows: int) -> Streams:
        """Training drops the few last characters that do not fill a step of all rows; evaluation counts every one."""

        def make() -> Streams:
            text = self._text(part)
            codes = encode(text, self.vocabulary, f"the {part} text")
            starts = boundaries_of(text, compiled(self.boundaries))
            return lay_out(codes, starts, rows, whole=part != "training")

        return self._remembered(("streams", part, rows), make)

    def batches_per_epoch(self, reading: Reading) -> int:
        characters = len(self._text("training"))
        if characters - 1 < reading.batch * reading.window:
            raise UserError(
                f"the training text has {characters} characters, fewer than one window of {reading.window} for each of "
                f"{reading.batch} rows; give a smaller --batch or --window"
            )
        return -(-len(self._streams("training", reading.batch).x) // reading.window)

    def batch(self, index: int, reading: Reading) -> Batch:
        number = index % self.batches_per_epoch(reading)
        streams = self._streams("training", reading.batch)
        first = number * reading.window
        window = streams.window(first, min(first + reading.window, len(streams.x)), reading.rows)
        return Batch((window,), fresh=number == 0)

    def evaluation(self, part: str, reading: Reading) -> Iterator[Batch]:
        characters = len(self._text(part))
        if characters < 2:
            raise UserError(f"the {part} text has {characters} characters; give at least 2, or a larger --held-out")
        rows = max(1, min(reading.batch, (characters - 1) // reading.window))
        streams = self._streams(part, rows)
        for first in range(0, len(streams.x), reading.window):
            last = min(first + reading.window, len(streams.x))
            yield Batch((streams.window(first, last),), fresh=first == 0)


def lay_out(codes: NDArray[np.int32], starts: NDArray[np.bool_], rows: int, *, whole: bool) -> Streams:
    """Codes (characters,) and starts (characters + 1, levels) as streams; `whole` pads the last row, masked."""
    targets = len(codes) - 1
    steps = -(-targets // rows) if whole else targets // rows
    padding = max(0, steps * rows + 1 - len(codes))
    codes = np.pad(codes, (0, padding))
    starts = np.pad(starts, ((0, padding), (0, 0)))
    place = np.arange(steps)[:, None] + np.arange(rows) * steps  # (steps, rows), place in the text
    ends = np.vstack([place, place[-1:] + 1])
    mask = None if not padding else np.ascontiguousarray(place < targets)
    return Streams(codes[place], codes[place + 1], mask, starts[ends])

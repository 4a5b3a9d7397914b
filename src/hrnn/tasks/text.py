"""Text: the next character of Penn TreeBank, or of any text files; continuous streams, one per batch row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal
from weakref import WeakValueDictionary

from torch import Tensor

from hrnn.data.unpacking import unpacked_size
from hrnn.errors import UserError
from hrnn.hierarchy import Tokens
from hrnn.limits import LEVELS, Limit, above, at_least, hidden, option
from hrnn.tasks.contract import BITS_PER_CHARACTER, BITS_PER_NAT, Task, cross_entropy
from hrnn.tasks.corpus import complain_about, penn_treebank, read_characters
from hrnn.tasks.streams import BOUNDARIES, Corpus, Part, Streams, coded, compiled, spans
from hrnn.tasks.windows import Batch, Reading

EVERY_BYTE = "".join(map(chr, range(256)))

WINDOWS = 90  # of an epoch, if there is text enough: a short text is learned better in many windows of few rows
LEAST_ROWS, MOST_ROWS = 16, 100

_KNOWN: WeakValueDictionary[Any, Corpus] = WeakValueDictionary()  # read once for all runs of a process, while any needs it


@dataclass(frozen=True)
class Text(Task):
    """Predict the next character. The upper level ticks once per word; --boundaries says otherwise.

    Examples:
        hrnn train text ptb                     # the folder of Penn TreeBank's three files
        hrnn train text book.txt --boundaries word sentence --hidden-sizes 128 256 512
        hrnn train text log.txt --symbols bytes --boundaries --periods 8
    """

    data: tuple[Path, ...] = ()
    """Text files to train on, plain or gzip; or the folder of Penn TreeBank, with its own validation and test.
    They may stand right behind the task's name."""
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
    unknown: bool = True
    """One more symbol, for characters that the training text never had; without it such a character is an error. Bytes need
    none."""
    vocabulary: str = hidden("")

    metrics = (BITS_PER_CHARACTER,)
    suggested: ClassVar[dict[str, Any]] = {
        "hidden_sizes": (256, 512),
        "periods": (),
        "window": 200,
        "learning_rate": 2e-3,
        "schedule": "cosine",
        "epochs": 12,
    }
    decided_by_data: ClassVar[tuple[str, ...]] = ("batch",)
    published: ClassVar[dict[str, Any]] = {
        "window": 50,
        "batch": 100,
        "learning_rate": 1e-3,
        "schedule": "constant",
        "epochs": 8,
    }

    def check(self) -> None:
        if not self.data:
            raise UserError("no text to train on; name text files, or the folder of Penn TreeBank: hrnn train text book.txt")
        compiled(self.boundaries)

    def suggestions(self) -> dict[str, Any]:
        data = [path.expanduser() for path in self.data]
        folder = next((path for path in data if path.is_dir()), None)
        files = [penn_treebank(folder)["training"]] if folder else data
        rows = sum(map(unpacked_size, files)) // (WINDOWS * self.suggested["window"])
        return {**self.suggested, "batch": min(max(rows // 4 * 4, LEAST_ROWS), MOST_ROWS)}  # so that processes can share them

    def steps_of_batch(self, reading: Reading) -> int:
        return reading.window

    def resolved(self) -> Text:
        task = super().resolved()
        task = replace(
            task,
            data=tuple(path.expanduser().absolute() for path in task.data),
            validation=task.validation and task.validation.expanduser().absolute(),
            test=task.test and task.test.expanduser().absolute(),
        )
        if folders := [path for path in task.data if path.is_dir()]:
            if len(task.data) > 1 or task.validation or task.test:
                raise UserError(f"{folders[0]} is a folder, which brings its own parts; give it alone, or name files")
            parts = penn_treebank(folders[0])
            task = replace(task, data=(parts["training"],), validation=parts["validation"], test=parts["test"])
        if task.vocabulary:
            return task
        if task.symbols == "bytes":
            task = replace(task, vocabulary=EVERY_BYTE, unknown=False)
        corpus = task._read(task.data, task._shares())
        task = replace(task, vocabulary=corpus.vocabulary)
        task._memory[None] = corpus
        return task

    def _part(self, part: str) -> Part:
        """The text of a part; only the files that it comes from are read, once."""
        path = {"validation": self.validation, "test": self.test}.get(part)
        name = part if path else None
        if name not in self._memory:
            self._memory[name] = self._read([path], {part: 1.0}) if path else self._read(self.data, self._shares())
        return self._memory[name].parts[part]

    @cached_property
    def _memory(self) -> dict[str | None, Corpus]:
        """By the parts that have files of their own; None for those that share the training text's."""
        return {}

    def _shares(self) -> dict[str, float]:
        """Which parts the training files are split into, in this order, and the share of each; the rest is for training."""
        given = {"validation": self.validation, "test": self.test}
        return {"training": 0.0} | {part: self.held_out for part, path in given.items() if path is None}

    def _read(self, paths: Sequence[Path], shares: dict[str, float]) -> Corpus:
        """Files, or the same that another run of this process has read."""
        try:
            seen = [(path, now.st_ino, now.st_size, now.st_mtime_ns) for path in paths for now in [path.stat()]]
        except OSError:
            seen = []  # which reading it will name
        key = (tuple(seen), tuple(shares.items()), self.symbols, self.boundaries, self.vocabulary)
        corpus = _KNOWN.get(key)
        if corpus is None:
            characters = read_characters(paths, self.symbols)
            corpus = coded(characters, spans(characters.length, shares), self.vocabulary, compiled(self.boundaries))
            _KNOWN[key] = corpus
        return corpus

    def warnings(self, reading: Reading) -> Iterator[str]:
        for level, (boundary, bits) in enumerate(zip(self.boundaries, self._part("training").starts, strict=True)):
            if not bits.any():
                meant = "".join(f"; did you mean {name}?" for name in get_close_matches(boundary, BOUNDARIES, n=1))
                found = f"--boundaries {boundary[:200]!r} is found nowhere in the training text"
                yield f"{found}, so level {level + 1} never ticks{meant}"

    def files(self, part: str) -> tuple[Path, ...]:
        own = {"validation": self.validation, "test": self.test}.get(part)
        return (own,) if own else self.data

    def with_test_data(self, path: Path) -> Text:
        return replace(self, test=path.expanduser().absolute())

    @property
    def inputs(self) -> Tokens:
        return Tokens(self.outputs)

    @property
    def outputs(self) -> int:
        return len(self.vocabulary) + self.unknown

    @property
    def reaches(self) -> tuple[int, ...]:
        return (self.reach,) * len(self.boundaries)

    def loss(self, logits: Tensor, target: Tensor) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        values = cross_entropy(logits, target)
        return (values, {"unknown": (target == len(self.vocabulary)).to(values.dtype)}) if self.unknown else values

    def report(self, sums: dict[str, float], targets: int) -> dict[str, float]:
        unknown = {"unknown": round(sums["unknown"])} if sums.get("unknown") else {}
        return {"bits_per_character": sums["loss"] / max(targets, 1) * BITS_PER_NAT, **unknown}

    def encode(self, text: str, where: str) -> list[int]:
        """Codes of a short text; where: its name, should it hold characters that cannot be coded."""
        codes = {character: code for code, character in enumerate(self.vocabulary)}
        strange = {character: text.count(character) for character in set(text) - codes.keys()}
        if strange and not self.unknown:
            raise complain_about(strange, where)
        return [codes.get(character, len(codes)) for character in text]

    def _streams(self, part: str, rows: int) -> Streams:
        """Training drops the few last characters that do not fill a step of all rows; evaluation counts every one."""
        text = self._part(part)
        if text.strange and not self.unknown:
            raise complain_about(text.strange, f"the {part} text")
        return text.rows(rows, whole=part != "training")

    def batches_per_epoch(self, reading: Reading) -> int:
        characters = len(self._part("training").codes)
        if characters - 1 < reading.batch * reading.window:
            raise UserError(
                f"the training text has {characters} characters, fewer than one window of {reading.window} for each of "
                f"{reading.batch} rows; give a smaller --batch or --window"
            )
        return -(-self._streams("training", reading.batch).steps // reading.window)

    def batch(self, index: int, reading: Reading) -> Batch:
        number = index % self.batches_per_epoch(reading)
        streams = self._streams("training", reading.batch)
        first = number * reading.window
        window = streams.window(first, min(first + reading.window, streams.steps), reading.rows)
        return Batch((window,), fresh=number == 0)

    def evaluation(self, part: str, reading: Reading) -> Iterator[Batch]:
        characters = len(self._part(part).codes)
        if characters < 2:
            raise UserError(f"the {part} text has {characters} characters; give at least 2, or a larger --held-out")
        rows = max(1, min(reading.batch, (characters - 1) // reading.window))
        streams = self._streams(part, rows)
        for first in range(0, streams.steps, reading.window):
            last = min(first + reading.window, streams.steps)
            yield Batch((streams.window(first, last),), fresh=first == 0)

"""Folders with one file a sequence: recordings, FASTA, bytes or text; classes by sub-folder or by a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hrnn.data import audio, letters, symbols
from hrnn.data.labels import Target, read_labels
from hrnn.data.source import PARTS, Block, Layout, Paths, Register, Source, Stream, Vocabulary, block_of, existing, listed
from hrnn.errors import UserError, shortened

Kind = Literal["audio", "letters", "bytes", "text"]
TABLE = "labels.csv"


@dataclass(frozen=True)
class File:
    """name: its path within the folder; facts: "target", "part", "group" where known"""

    path: Path
    name: str
    facts: dict[str, Target]


@dataclass(frozen=True)
class Folder(Source):
    """See `folder`."""

    paths: tuple[tuple[Path, str | None], ...]
    kind: Kind | None = None
    letters: str = "bases"
    labels: Path | Literal[False] | None = None

    def files(self) -> list[Path]:
        tables = {path for root, _ in self.paths if (path := self._table(root)) is not None}
        return [file.path for file in found(self)] + sorted(tables)

    def options(self) -> dict[str, Any]:
        parts = [part for _, part in self.paths]
        return {
            "source": "folder",
            "kind": self.kind,
            "letters": self.letters,
            "labels": self.labels is not False,
            "parts": parts,
        }

    def _table(self, root: Path) -> Path | None:
        if self.labels is False:
            return None
        if self.labels is not None:
            return self.labels
        return root / TABLE if root.is_dir() and (root / TABLE).is_file() else None

    def open(self) -> Stream:
        files = found(self)
        kind = self.kind or kind_of(files)
        target = "sequence" if any("target" in file.facts for file in files) else None
        layout = {"target": target, "target_name": None if target is None else "label"}
        register, vocabularies = Register(), dict[str, Vocabulary]()
        if kind == "audio":
            like = audio.recording(files[0].path)
            channels = ("sample",) if like.channels == 1 else tuple(f"sample {i}" for i in range(like.channels))
            blocks = _whole_files(files, register, lambda path: audio.samples(path, like))
            return Stream(Layout(channels, rate=like.rate, **layout), register, blocks)  # type: ignore[arg-type]
        if kind == "letters":
            vocabularies["letter"] = Vocabulary(letters.ALPHABETS[self.letters][0])
            blocks = _records(files, register, self.letters, read_tables(self))
        elif kind == "bytes":
            vocabularies["byte"] = Vocabulary(symbols.EVERY_BYTE)
            blocks = _whole_files(files, register, symbols.read_bytes)
        else:
            vocabularies["character"] = Vocabulary()
            blocks = _whole_files(files, register, symbols.Characters(vocabularies["character"]).read)
        described = Layout(tuple(vocabularies), True, kind != "text", **layout)  # type: ignore[arg-type]
        return Stream(described, register, blocks, vocabularies)


def folder(
    paths: Paths, kind: Kind | None = None, *, letters: str = "bases", labels: str | Path | Literal[False] | None = None
) -> Folder:
    """Files with one sequence each (FASTA and FASTQ: with any number of records).

    paths:   a folder, or files; several; or those of each part by its name. Sub-folders train, validation and test are parts,
             others are classes
    kind:    "audio" (wav, flac, ogg), "letters" (FASTA, FASTQ, gzip or not), "text" (characters; .txt) or "bytes" (any file);
             by default as the files are called
    letters: "bases" or "amino acids"
    labels:  a CSV file with columns file (for letters perhaps id: the name of a record) and label, perhaps split and group; by
             default labels.csv in the folder. False: there are none, whatever the folders are called
    """
    if kind is not None and kind not in get_args(Kind):
        raise UserError(f"kind is {shortened(kind)!r}; give one of {', '.join(get_args(Kind))}")
    if letters not in ("bases", "amino acids"):
        raise UserError(f"letters is {shortened(letters)!r}; give 'bases' or 'amino acids'")
    table = labels if labels is False or labels is None else Path(labels).expanduser().absolute()
    return Folder(tuple(listed(paths)), kind, letters, table)


def kind_of(files: list[File]) -> Kind:
    """By the names of the files."""
    kinds: dict[Kind, tuple[str, ...]] = {"audio": audio.SUFFIXES, "letters": letters.SUFFIXES, "text": (".txt", ".txt.gz")}
    for kind, suffixes in kinds.items():
        if all(file.path.name.lower().endswith(suffixes) for file in files):
            return kind
    unclear = "and the files beside it hold is not clear by their names" if len(files) > 1 else "holds is not clear by its name"
    raise UserError(f"what {files[0].path} {unclear}; say kind='bytes' or kind='text' (--kind bytes, --kind text)")


def read_tables(source: Folder) -> dict[str, dict[str, Target]]:
    """What the tables of labels say, by file or record."""
    tables = dict.fromkeys(path for root, _ in source.paths if (path := source._table(root)) is not None)
    known: dict[str, dict[str, Target]] = {}
    for path in tables:
        known |= read_labels(path)
    return known


def found(source: Folder) -> list[File]:
    """The files in a fixed order, with what folders and tables say of them."""
    known, files = read_tables(source), list[File]()
    for root, part in source.paths:
        existing(root)
        inside = _inside(root) if root.is_dir() else [root]
        for path in inside:
            name = path.relative_to(root).as_posix() if root.is_dir() else path.name
            own = name if len(source.paths) == 1 or not root.is_dir() else f"{root.name}/{name}"
            files.append(File(path, own, _facts(name, part, source, known)))
    if not files:
        raise UserError(f"{source.paths[0][0]} holds no files; give a folder with one file for each sequence")
    records = source.kind == "letters" or all(file.path.name.lower().endswith(letters.SUFFIXES) for file in files)
    if known and not records:  # of records only reading can tell
        _check_all_labelled(files, known)
    return files


def _inside(root: Path) -> list[Path]:
    shown = [path for path in sorted(root.rglob("*")) if not any(n.startswith(".") for n in path.relative_to(root).parts)]
    if linked := [path for path in shown if path.is_symlink() and path.is_dir()]:
        raise UserError(f"{linked[0]} is a link to a folder, which is not followed; put the folder there, or name it by itself")
    return [path for path in shown if path.is_file() and path.name != TABLE]


def _facts(name: str, part: str | None, source: Folder, known: dict[str, dict[str, Target]]) -> dict[str, Target]:
    """Of train/cats/1.wav: part training, target cats."""
    facts: dict[str, Target] = {} if part is None else {"part": part}
    folders = name.split("/")[:-1]
    if folders and part is None and folders[0].lower() in PARTS:
        facts["part"] = PARTS[folders.pop(0).lower()]
    if known:
        names = (name, name.rpartition("/")[2], name.rpartition("/")[2].partition(".")[0])
        return facts | next((known[one] for one in names if one in known), {})
    return facts | ({"target": folders[0]} if folders and source.labels is not False else {})


def _check_all_labelled(files: list[File], known: dict[str, dict[str, Target]]) -> None:
    fields = {name for facts in known.values() for name in facts}
    without = [file.name for file in files if not fields <= set(file.facts)]
    if without:
        raise UserError(
            f"the table of labels lacks {len(without):,} of {len(files):,} files, e.g. {shortened(without[0])!r}; add them"
        )
    if len(known) > len(files):
        names = {
            one
            for file in files
            for one in (file.name, file.name.partition("/")[2], file.path.name, file.path.name.partition(".")[0])
        }
        lost = next((name for name in known if name not in names), None)
        raise UserError(
            f"the table of labels names {shortened(lost)!r}, and there is no such file; remove the line, or add the file"
        )


def _whole_files(files: list[File], register: Register, read: Any) -> Iterator[Block]:
    """One sequence a file."""
    for file in files:
        number, steps = register.add(file.name, **file.facts), 0
        for some in read(file.path):
            yield block_of(number, some)
            steps += len(some)
        if not steps:
            raise UserError(f"{file.path} is empty; leave it out")


def _records(files: list[File], register: Register, alphabet: str, known: dict[str, dict[str, Target]]) -> Iterator[Block]:
    """Many sequences a file; what is known of a record by its own name comes before what is known of its file."""
    pending: list[tuple[NDArray[np.uint8], int]] = []  # short records go together
    for file in files:
        for name, pieces in letters.read_letters(file.path, alphabet):
            id = name if len(files) == 1 else f"{file.name}/{name}"
            number, steps = register.add(id, **(file.facts | known.get(name, {}))), 0
            for some in pieces:
                pending.append((some, number))
                steps += len(some)
                if sum(len(codes) for codes, _ in pending[-64:]) > letters.BLOCK or len(pending) >= 64:
                    yield _joined(pending)
                    pending = []
            if not steps:
                raise UserError(f"sequence {shortened(name)!r} of {file.path} is empty; leave it out")
    if pending:
        yield _joined(pending)


def _joined(pending: list[tuple[NDArray[np.uint8], int]]) -> Block:
    lengths = np.array([len(codes) for codes, _ in pending])
    numbers = np.array([number for _, number in pending])
    starts = np.cumsum(lengths) - lengths
    first = np.concatenate([[True], numbers[1:] != numbers[:-1]])
    return Block(np.concatenate([codes for codes, _ in pending]), starts[first], numbers[first])

"""Predictions of a run on series for other data: sequence by sequence, in windows, in memory that does not grow with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hrnn.data import Part, Sequences, Source, Spans, cache, find, folder, table
from hrnn.data.array_sources import Arrays, unnamed
from hrnn.data.columns import NO_DATA, PARTS, TARGETS, TIMES, Wanted
from hrnn.data.folders import Folder
from hrnn.data.source import paths_in
from hrnn.data.tables import Table
from hrnn.errors import UserError, shortened
from hrnn.tasks import Reading, Series
from hrnn.tasks.series.batches import Asked, Windows
from hrnn.tasks.series.judging import Readout
from hrnn.tasks.series.opened import NONE
from hrnn.tasks.windows import Window
from hrnn.training.answers import Answers, Floats
from hrnn.training.evaluation import rows_left
from hrnn.training.network import Headed

ROWS, PLACES, WINDOW = 64, 200_000, 1000  # sequences side by side, at most; steps of them, at most; steps at once


@dataclass(frozen=True)
class Predicted:
    """Some answers for one sequence. steps: (n,) of the source, from 0, that each is after; of a forecast, that each is of"""

    id: str
    steps: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]


def source_for(task: Series, data: Any, target: str | bool | None = False) -> Source:
    """Data as the run's task reads them, without targets; of a table with those in a column."""
    pre = task.learned
    if task.kind is not None and (paths := paths_in(data)):
        return replace(task, data=paths, validation=(), test=(), labels=None, target=NONE).source
    source = find(data, tokens=True) if task.kind == "tokens" else find(data)
    if isinstance(source, Table):
        wanted = replace(columns_for(task, source.columns(), str(source.paths[0][0])), target=target)
        names = [name for name, one in zip(pre.channels, pre.kinds, strict=True) if one != "number"]
        held = source.held if source.held is not None else source.files()
        return table(held, **vars(wanted), categorical=names)
    return folder(data, labels=False) if isinstance(source, Folder) else source


def columns_for(task: Series, columns: Sequence[str], where: str) -> Wanted:
    """Which columns of other data play the parts that they played in training, by the names that they had there."""
    known = task.timed if task.time is None and task.timed in columns else task.time
    id, time = (False if name == NONE else name for name in (id_column(task, columns, where), known))
    return Wanted(id, time, task.learned.channels, False, False)


def id_column(task: Series, columns: Sequence[str], where: str) -> str | None:
    """The column that told sequences apart in training; None: one with a usual name. A table without it is one sequence (NONE),
    unless the column may be there under another name."""
    name = task.identified or task.id
    if name in (None, NONE) or name in columns:
        return name
    known = {*task.learned.channels, task.learned.target_name, task.group, task.split, *TIMES, *TARGETS, *PARTS, *NO_DATA}
    strange = [column for column in columns if column not in known and column.lower() not in known]
    if strange and not task.values:
        raise UserError(
            f"training told sequences apart by the column {name!r}, which {where} lacks, and {strange[0]!r} was "
            f"not in training; call it {name!r}, or drop it if this is one sequence"
        )
    return NONE


def sequences_for(task: Series, data: Any) -> Sequences:
    """A cache of its own, which goes with the object. Only tables have names: channels of others are those of training, in
    order."""
    source, pre = source_for(task, data), task.learned
    sequences = cache(source)
    layout, here, there = sequences.layout, len(sequences.layout.channels), len(pre.channels)
    if isinstance(source, Table) or layout.tokens != bool(pre.tokens) or set(layout.channels) == set(pre.channels):
        return sequences
    if isinstance(source, Arrays) and layout.channels != unnamed(here) and pre.channels != unnamed(there):
        said = [shortened(", ".join(names), 200) for names in (layout.channels, pre.channels)]
        raise UserError(f"the data have the columns {said[0]}, and training had {said[1]}; give each by its name")
    if here != there:
        raise UserError(f"the data have {here} channel(s), and training had {there}; give as many, in the same order")
    sequences.vocabularies = {
        pre.channels[place]: entries
        for place, name in enumerate(layout.channels)
        if (entries := sequences.vocabularies.get(name)) is not None
    }
    rate = (pre.rate or None) if isinstance(source, Arrays) else layout.rate
    sequences.layout = replace(layout, channels=pre.channels, rate=rate)
    return sequences


def beside(names: Iterable[str], others: Collection[str]) -> dict[str, str]:
    """Names of columns, by channel, that none of the others has."""
    found: dict[str, str] = {}
    for name in names:
        column = name
        while column in others or column in found.values():
            column += "_"
        found[name] = column
    return found


def predictions(network: Headed, task: Series, data: Any) -> Iterator[Predicted]:
    """Answers for every sequence, in order; those of one follow each other."""
    sequences, answers = sequences_for(task, data), Answers(task)
    lengths = sequences.lengths
    starts = lengths % task.learned.patch if answers.ahead else np.zeros_like(lengths)  # forecasts begin after a full input
    if (short := np.flatnonzero(starts == lengths)).size:
        name = sequences.id(int(short[0]))
        raise UserError(
            f"sequence {name!r} has {lengths[short[0]]} step(s), fewer than one input of {task.learned.patch}; leave it out"
        )
    part = Part(sequences, task.learned, Spans(np.arange(len(lengths)), starts, lengths, lengths))
    for rows in _side_by_side(part.lengths):
        yield from _of_rows(network, part, rows, answers)


def _side_by_side(lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Rows in order that go together: not too many, and not too long together."""
    first = 0
    while first < len(lengths):
        some = np.cumsum(lengths[first : first + ROWS])
        count = max(1, int((some <= PLACES).sum()))
        yield np.arange(first, first + count)
        first += count


def _of_rows(network: Headed, part: Part, rows: NDArray[np.int64], answers: Answers) -> Iterator[Predicted]:
    order = rows[np.argsort(-part.lengths[rows], kind="stable")]
    if answers.of == "step":
        stepwise = ((row, _at_steps(part, row, logits, start, answers)) for row, logits, start in _steps(network, part, order))
        if len(rows) == 1:  # as they come: it may be long
            yield from (one for _, one in stepwise)
            return
        found: dict[int, list[Predicted]] = {int(row): [] for row in rows}
        for row, one in stepwise:
            found[row].append(one)
        yield from (one for row in rows for one in found[int(row)])
        return
    ended = {row: (logits, last) for row, logits, last in _ends(network, part, order, answers)}
    for row in map(int, rows):
        logits, last = ended[row]
        columns = answers.columns(logits[None], last[None], part._statistics(row))
        length = int(part.sequences.lengths[part.spans.numbers[row]])
        steps = length + np.arange(answers.ahead) if answers.ahead else np.array([length - 1])
        yield Predicted(part.id(row), steps, columns)


def _at_steps(part: Part, row: int, logits: Floats, start: int, answers: Answers) -> Predicted:
    patch, length = part.preprocessing.patch, int(part.spans.lengths[row])
    steps = np.minimum((start + np.arange(len(logits)) + 1) * patch, length) - 1
    return Predicted(part.id(row), steps, answers.columns(logits, np.zeros((len(logits), 0)), None))


def _windows(network: Headed, part: Part, order: NDArray[np.int64]) -> Iterator[tuple[int, Window, torch.Tensor]]:
    """For each window its first input, the window, and the logits (time, rows, outputs)."""
    windows = Windows(part, order, part.lengths[order], Reading(0, len(order), WINDOW), Asked(None))
    state = None
    for start, window in zip(windows.edges, windows, strict=False):
        with torch.no_grad():
            before = None if state is None else rows_left(state, window)
            output, state = network.levels(window.x, before, lengths=window.lengths)
            yield start, window, network(output)


def _steps(network: Headed, part: Part, order: NDArray[np.int64]) -> Iterator[tuple[int, Floats, int]]:
    """Of the rows in each window: the row, the logits of its steps, and the first of these inputs."""
    for start, window, logits in _windows(network, part, order):
        counts = [window.steps] * logits.shape[1] if window.lengths is None else window.lengths.tolist()
        for column, count in enumerate(counts):
            if count:
                yield int(order[column]), logits[:count, column].double().numpy(), start


def _ends(
    network: Headed, part: Part, order: NDArray[np.int64], answers: Answers
) -> Iterator[tuple[int, Floats, NDArray[Any]]]:
    """Of each row that ends: its logits, and its last input."""
    readout = Readout(not answers.running)
    for start, window, logits in _windows(network, part, order):
        assert window.ends is not None
        found, columns = readout.add(window, logits, fresh=start == 0)
        at = window.ends.int().argmax(0)
        for one, column in zip(found.numpy(), columns.tolist(), strict=True):
            yield int(order[column]), one, window.x[at[column], column].numpy()

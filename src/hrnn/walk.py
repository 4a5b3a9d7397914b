"""The traversal that every forward pass and every gradient method goes through.

At every step, from the top down, each level that ticks reads the hidden state that the level below had *before* the step, and,
if the level above has just ticked, starts from zero with that level's *new* hidden state as context. `walk` says this once. Who
stands behind the levels decides what is remembered of their ticks, and what happens when a segment ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from torch import Tensor

from hrnn.segments import Moment, Starts, Ticks


class Level(ABC):
    """What the walk asks of a level: start segments, run ticks, end segments."""

    _said: tuple[Starts | None, Tensor | None] = None, None

    @property
    @abstractmethod
    def hidden(self) -> Tensor:
        """The hidden state now, (batch, hidden): the summary, if a segment ends here."""

    def start(self, starts: Starts, context: Tensor | None) -> None:
        """The next ticks, or some of them, start a segment: from zero, with the context (m, context) from above."""
        self._said = starts, context

    def _started(self) -> tuple[Starts | None, Tensor | None]:
        """What has been said of the ticks that run now."""
        said, self._said = self._said, (None, None)
        return said

    @abstractmethod
    def run(self, inputs: Tensor | None, ticks: Ticks) -> Tensor:
        """Tick on inputs (steps, n, ...) and return the hidden states after, (steps, n, hidden)."""

    @abstractmethod
    def end(self, moment: Moment) -> None:
        """Segments end before this moment. The hidden state stays: it is the summary."""


def walk(
    moments: Iterable[Moment], levels: Sequence[Level], x: Tensor | None, context: Tensor | None = None
) -> Iterator[tuple[Moment, Tensor | None]]:
    """Go through moments of x (steps, batch, ...); the lowest of `levels` comes first. Gives each moment, when everybody has
    ticked, and what the lowest level's ticks returned; None where no row ticked.

    x:       None: the lowest level has its inputs already
    context: (batch, context) what the highest of these levels starts its segments with, if they are part of a hierarchy
    """
    for moment in moments:
        ticking = min(moment.ticking, len(levels) - 1)
        for i in range(moment.ticking):  # from the bottom up: what ends here is over before anybody ticks
            levels[i].end(moment)
        hidden = None
        for i in range(ticking, -1, -1):
            ticks = moment.ticks(i)
            if ticks.starts is not None:
                levels[i].start(ticks.starts, context if hidden is None else hidden[-1])
            hidden = levels[i].run(_inputs(levels, i, moment, ticks, x), ticks)
        yield moment, hidden


def _inputs(levels: Sequence[Level], level: int, moment: Moment, ticks: Ticks, x: Tensor | None) -> Tensor | None:
    """What a level reads: x, or the hidden state that the level below had before the moment; zero before a sequence starts."""
    if level:
        inputs = levels[level - 1].hidden[None]
    elif x is None:
        return None
    else:
        inputs = x[moment.start : moment.stop]
    if ticks.rows is not None:
        inputs = inputs[:, ticks.rows]
    return inputs if ticks.unborn is None else inputs.masked_fill(ticks.unborn[:, None], 0.0)

"""The schedule of rows that tick together: pieces of segments."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from hrnn.segments import ALL, Clock, Ending, Moment, Period, Ticks, reach_of


class InPhase:
    """All rows tick together, with fixed periods: a moment is a piece of a segment of the lowest level.

    most:     how many steps a moment of a hierarchy of one level has at most, counted from the first step
    position: ticks so far in each level's segment, by default the clock's; kept up to date. A complete segment stays at its
              period until the next one starts
    """

    def __init__(self, periods: Sequence[Period], clock: Clock, *, most: int | None = None, position: list[int] | None = None):
        self.periods = [reach_of(period) for period in periods]
        self.position: list[int] = (clock.position[0].tolist() if self.periods else []) if position is None else position
        self.begun = [0] * len(self.periods)  # segments of each level, since the clock
        self.most, self._before, self._steps = most, clock, 0

    def moments(self, steps: int) -> Iterator[Moment]:
        """Cut `steps` steps at the lowest level's boundaries."""
        periods, position, step = self.periods, self.position, 0
        while step < steps:
            ticking, ended = 0, 0
            for i, period in enumerate(periods):
                if position[i] not in (0, period):
                    break
                if position[i] == period:
                    ended |= 1 << i
                position[i], ticking = 0, i + 1
                self.begun[i] += 1
            for i in range(1, min(ticking + 1, len(periods))):
                position[i] += 1
            count = steps - step
            if periods:
                count = min(count, periods[0] - position[0])
                position[0] += count
            elif self.most:
                count = min(count, self.most - self._steps % self.most)
            self._steps += count
            yield _Piece(self, step, step + count, ticking, ended)
            step += count

    def close(self) -> Moment:
        """The end of the window: complete segments end, nobody ticks."""
        ended = 0
        for i, period in enumerate(self.periods):
            ticks = self.begun[i - 1] if i else self._steps
            if self.position[i] == period and (ticks or bool(self._before.ticked[0, i])):
                ended |= 1 << i
        return _Piece(self, 0, 0, -1, ended)

    def ending(self, level: int, before: bool) -> Ending:
        """The segments of a level that are complete; `before` the one that has just begun, or else the current one."""
        ordinal = self._before.ordinal[:, level] + (self.begun[level] - 1 - before)
        return Ending(None, ordinal, self.periods[level], math.prod(self.periods[: level + 1]))

    @property
    def clock(self) -> Clock:
        """After all moments so far."""
        clock = self._before
        position, span, ordinal, ticked = (t.clone() for t in (clock.position, clock.span, clock.ordinal, clock.ticked))
        size = 1  # steps of one tick
        ticks = self._steps
        for i, (period, at, begun) in enumerate(zip(self.periods, self.position, self.begun, strict=True)):
            position[:, i] = at
            ticked[:, i] |= ticks > 0
            ordinal[:, i] += begun
            # Within a segment, as many steps as its complete ticks below span, and those of the tick under way.
            inner = at if i == 0 else (at - 1) * size + int(span[0, i - 1])
            span[:, i] = inner if begun else span[:, i] + self._steps
            ticks, size = begun, size * period
        return replace(clock, position=position, span=span, ordinal=ordinal, ticked=ticked)

    def closed(self) -> Clock:
        """The clock if the window closes here."""
        clock = self.clock
        position = clock.position % torch.tensor(self.periods, device=clock.position.device) if self.periods else clock.position
        return replace(clock, position=position, ticked=torch.zeros_like(clock.ticked))


class _Piece(Moment):
    def __init__(self, phase: InPhase, start: int, stop: int, ticking: int, ended: int):
        self.phase, self.start, self.stop, self.ticking, self.ended = phase, start, stop, ticking, ended

    def ticks(self, level: int) -> Ticks:
        position = self.phase.position
        place = 0 if level == len(position) else position[level] - (self.stop - self.start if level == 0 else 1)
        return Ticks(None, ALL if level < self.ticking else None, place)

    def ending(self, level: int) -> Ending | None:
        return self.phase.ending(level, before=self.ticking >= 0) if self.ended >> level & 1 else None

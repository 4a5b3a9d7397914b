"""One step at a time through a trained run on series: values in, an answer out, in memory that does not grow."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hrnn.arguments import shown
from hrnn.data.array_sources import unnamed
from hrnn.data.names import code, codes_of, name_of
from hrnn.data.times import nanoseconds
from hrnn.errors import UserError, shortened
from hrnn.state import State
from hrnn.tasks import Series
from hrnn.training.answers import Answers, Floats
from hrnn.training.network import Headed

LARGEST = float(np.finfo(np.float32).max)
BOOLEANS: dict[str, Any] = {"true": 1.0, "false": 0.0}  # as files of tables have them
Values = Mapping[str, Any] | Sequence[Any] | NDArray[Any] | float | str | None
Time = float | str | date | np.datetime64


class Stream:
    """A sequence that is still coming. `step` takes one step of the source and returns the answer so far: a dict by column, the
    same that `hrnn predict` writes for a sequence that ends here; None before the first input is complete. Forecasts are made
    after complete inputs, and are None in between: one that was made earlier is of steps that have come by now. A step that
    is refused leaves the stream as it was.

    mean, scale: of the sequence's numeric channels, where the run normalises each sequence by its own
    """

    def __init__(self, network: Headed, task: Series, mean: Any = None, scale: Any = None):
        self.network, self.pre, self.answers = network, task.learned, Answers(task)
        self.statistics: Any = None
        if self.pre.normalise == "sequence" and not self.pre.tokens:
            if mean is None or scale is None:
                raise UserError(
                    "the run normalises each sequence by its own mean and scale, which a stream does not know before it ends; "
                    "give mean and scale, e.g. stream(mean=[0.0], scale=[1.0]), or train with --normalise channel"
                )
            names = [self.pre.channels[place] for place in self.pre.numeric]
            self.statistics = _statistics("mean", mean, names), _statistics("scale", scale, names)
        self.state: State | None = None
        self.steps = 0
        self._total, self._inputs = np.zeros(0), 0
        self._waiting: list[NDArray[np.float32]] = []  # steps of an input that is not complete
        self._last = np.full(len(self.pre.channels), np.nan)
        self._before: Floats | None = None  # numbers of the last step, as inputs
        self._time: tuple[Time, float] | None = None  # of the last step, as it was given and as a number
        self._codes = [codes_of(entries) for entries in self.pre.vocabularies]
        self.answer: dict[str, Any] | None = None

    def step(self, values: Values, time: Time | None = None) -> dict[str, Any] | None:
        """values: of the channels, by name (a dict, a row of a table) or in their order; nan or None where one is missing
        time: where the run reads it: a timestamp (a text such as "2024-01-01 00:00:07", a datetime, one of numpy or pandas) if
        training had timestamps, otherwise a number
        """
        x = self._token(values) if self.pre.tokens else self._vector(values, time)
        self.steps += 1
        if self.pre.tokens:
            return self._read(x)
        self._waiting.append(x)
        if len(self._waiting) < self.pre.patch:
            self.answer = None if self.answers.ahead else self.answer
            return self.answer
        x, self._waiting = np.concatenate(self._waiting), []
        return self._read(x)

    def end(self) -> dict[str, Any] | None:
        """The sequence is over: an input that is not complete is filled up and read, as whoever has all of it does."""
        if self._waiting and not self.answers.ahead:
            lacking = [np.zeros(self.pre.width, np.float32)] * (self.pre.patch - len(self._waiting))
            x, self._waiting = np.concatenate([*self._waiting, *lacking]), []
            return self._read(x)
        return self.answer

    def _read(self, x: NDArray[Any]) -> dict[str, Any]:
        with torch.no_grad():
            state = self.network.levels.initial_state(1) if self.state is None else self.state
            output, self.state = self.network.levels.step(torch.from_numpy(x[None]), state)
            logits: Floats = self.network(output[None])[0].double().numpy()
        self._inputs += 1
        if self.answers.running:
            self._total = self._total + logits if self._inputs > 1 else logits
            logits = self._total / self._inputs
        columns = self.answers.columns(logits, x[None], self.statistics)
        self.answer = {name: found if self.answers.ahead else found[0] for name, found in columns.items()}
        return self.answer

    def _token(self, values: Values) -> NDArray[Any]:
        (value,) = in_order(values, self.pre.channels, "values")
        value = value if isinstance(value, str | int) or value is None else np.asarray(value).item()
        count = len(self.pre.vocabularies[0])
        place = code(self._codes[0], name_of(value), count)
        if place == count and self.pre.complete:
            raise UserError(f"{shortened(value)!r} is none of the symbols that there are ({count}); give one of these")
        return np.array(place, np.int64)

    def _vector(self, values: Values, time: Time | None) -> NDArray[np.float32]:
        pre, given = self.pre, in_order(values, self.pre.channels, "values")
        last, missing = self._last.copy(), np.zeros(len(given), bool)
        for place, kind in enumerate(pre.kinds):
            if kind == "category":
                continue
            value = _number(given[place], pre.channels[place])
            missing[place] = math.isnan(value)
            if not missing[place]:
                last[place] = np.float32(value)
        columns = [pre.apply(last[pre.numeric], self.statistics)]
        if pre.changes:
            before = columns[0] if self._before is None else self._before
            columns.append((columns[0] - before) / np.array(pre.changes))
        columns.append(np.array([missing[pre.channels.index(name)] for name in pre.masked], float))
        now = self._moment(time) if pre.interval else None
        if now is not None:
            columns.append(np.array([self._since(*now)]))
        for place, kind in enumerate(pre.kinds):
            if kind == "category":
                count = len(pre.vocabularies[place])
                columns.append(np.eye(count + 1)[code(self._codes[place], name_of(given[place]), count)])
        self._last, self._before, self._time = last, columns[0], now  # nothing can be refused any more
        return np.concatenate(columns, dtype=np.float32)

    def _moment(self, time: Time | None) -> tuple[Time, float]:
        if time is None:
            raise UserError("time is None, and the run reads the time since the last step; give it")
        return time, _moment(time) if self.pre.times == "timestamps" else _plain(time)

    def _since(self, time: Time, now: float) -> float:
        """The log of the time since the last step over the usual one; 0 at the first."""
        if self._time is None:
            return 0.0
        given, before = self._time
        if not now > before:
            raise UserError(f"time is {time} after {given}; times increase")
        return math.log((now - before) / (10**9 if self.pre.times == "timestamps" else 1) / self.pre.interval)


def in_order(values: Any, names: Sequence[str], what: str, alone: bool = False) -> list[Any]:
    """One value for each name: of what has names itself by these, of whatever else by position.

    alone: whether a single one is that of all
    """
    named = _by_name(values)
    if named is not None and not set(names) <= set(named) and tuple(names) == unnamed(len(names)):
        values, named = list(named.values()), None  # of arrays, which had no names in training
    if named is not None:
        if lacking := [name for name in names if name not in named]:
            raise UserError(f"{what} has no {lacking[0]!r}; give one for each of {shortened(', '.join(names), 200)}")
        return [named[name] for name in names]
    try:
        given = [values] if isinstance(values, str | bytes | set | frozenset) else list(values)
    except TypeError:  # one number
        given = [values]
    given = given * len(names) if alone and len(given) == 1 else given
    if len(given) != len(names):
        raise UserError(f"{what} has {len(given)} entries; give one for each of {shortened(', '.join(names), 200)}")
    return given


def _statistics(what: str, given: Any, names: Sequence[str]) -> Floats:
    """A sequence's own means or scales, as the caller knows them."""
    found = np.array([_number(value, name) for value, name in zip(in_order(given, names, what, True), names, strict=True)])
    if not (found > (0 if what == "scale" else -math.inf)).all():
        above = " above 0, 1 where a channel never changes" if what == "scale" else ""
        raise UserError(f"{what} is {shown(given)}; give finite numbers{above}")
    return found


def _by_name(values: Any) -> Mapping[Any, Any] | None:
    """A dict, or a row of pandas or a namedtuple, as tables give them."""
    if hasattr(values, "_asdict"):
        return values._asdict()  # type: ignore[no-any-return]
    if hasattr(values, "index") and hasattr(values, "to_dict") and any(isinstance(name, str) for name in values.index):
        return values.to_dict()  # type: ignore[no-any-return]
    return values if isinstance(values, Mapping) else None


def _moment(time: Time) -> int:
    """In nanoseconds."""
    try:
        return nanoseconds(time)
    except (ValueError, OverflowError):
        example = "a text such as 2024-01-01 00:00:07, or a datetime"
        raise UserError(f"time is {shown(time)}, and training had timestamps; give {example}") from None


def _plain(time: Time) -> float:
    """A number; a whole one stays whole, as floats do not tell those of 19 digits apart."""
    ways: tuple[Callable[[Any], float], ...] = (int if isinstance(time, str) else operator.index, float)
    for number_of in ways if not isinstance(time, np.datetime64) else ():
        with suppress(TypeError, ValueError, OverflowError):
            if math.isfinite(number := number_of(time)):
                return number
    raise UserError(f"time is {shown(time)}; give a finite number, in the unit that the times of training had")


def _number(value: Any, channel: str) -> float:
    value = BOOLEANS.get(value.lower(), value) if isinstance(value, str) else value
    try:
        number = math.nan if value is None or value == "" else math.inf if np.iscomplexobj(value) else float(value)
    except (TypeError, ValueError, RuntimeError):
        number = math.inf
    if math.isinf(number) or abs(number) > LARGEST:
        raise UserError(
            f"channel {channel!r} is {shown(value)}; give a finite number within float32, or nothing where it is missing"
        )
    return number

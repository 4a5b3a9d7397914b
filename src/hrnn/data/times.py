"""Times: timestamps, whose intervals are seconds whatever unit they are stored in; or numbers, whose unit nobody knows."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

import numpy as np

TimeKind = Literal["timestamps", "numbers"]

PER_SECOND = {"timestamp[s]": 1, "timestamp[ms]": 10**3, "timestamp[us]": 10**6, "timestamp[ns]": 10**9}
EPOCH = datetime(1970, 1, 1)
TEXT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:([ T]\d\d(?::\d\d(?::\d\d)?)?)(?:(?<=:\d\d:\d\d)\.(\d{1,9}))?(Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)


def time_kind(time: str) -> TimeKind:
    """What times are that a layout calls so."""
    return "timestamps" if time in PER_SECOND else "numbers"


def per_second(time: str | None) -> int:
    """How many units of a layout's timestamps are a second; 1 for numbers, which stay as they are. Differences are to be taken
    before they are divided by it: floats do not hold nanoseconds since 1970."""
    return PER_SECOND.get(time or "", 1)


def nanoseconds(time: Any) -> int:
    """A timestamp as nanoseconds since 1970, in UTC unless it says otherwise: a text as tables have it, a datetime, a date, or
    what numpy and pandas call one. ValueError for all else, numbers above all, of which nobody knows the unit."""
    if isinstance(time, str):
        return _of_text(time)
    if hasattr(time, "to_datetime64"):  # of pandas, which a datetime would cut at microseconds
        time = time.to_datetime64()
    if isinstance(time, np.datetime64):
        if np.isnat(time):
            raise ValueError(time)
        seconds = time.astype("datetime64[s]")
        rest = (time - seconds).astype("timedelta64[ns]")
        return int(seconds.astype(np.int64)) * 10**9 + int(rest.astype(np.int64))
    if isinstance(time, date) and not isinstance(time, datetime):
        time = datetime(time.year, time.month, time.day)
    if not isinstance(time, datetime):
        raise ValueError(time)
    if time.tzinfo is not None:
        time = time.astimezone(UTC).replace(tzinfo=None)
    since: timedelta = time - EPOCH
    return since // timedelta(microseconds=1) * 1000


def _of_text(text: str) -> int:
    found = TEXT.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    day, time, fraction, zone = (one or "" for one in found.groups())
    return nanoseconds(datetime.fromisoformat(day + time + zone)) + int(fraction.ljust(9, "0"))

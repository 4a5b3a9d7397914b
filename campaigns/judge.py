"""What every call of the command line keeps to, however it was called, and what is broken where it does not."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Sequence

from campaigns.forked import ALLOWED, Ended

LONGEST = 2000  # characters of a sentence that says what was wrong
# In what the net of last resort says: whatever it catches should have been foreseen.
NET = "HRNN_TRACEBACK=1 in the environment"


def complaint(ended: Ended) -> str | None:
    """What is wrong with the way in which a call ended, without the numbers and names that differ from call to call."""
    if ended.stopped == "hang":
        return "a hang: no answer to SIGINT"
    if ended.stopped == "idle":
        return "a hang: waits for something that does not come"
    if ended.code < 0:
        return f"killed by {signal.Signals(-ended.code).name}"
    sentences = [line for line in ended.err.splitlines() if line.startswith("hrnn: ")]
    traced = "Traceback (most recent call last)" in ended.said
    if NET in ended.said:
        place = traceback_of(ended.said) if traced else general(line_with(ended.said, NET))
        return f"the net of last resort: {place}"
    if traced and not sentences:  # with a sentence it was foreseen, and traced only as campaigns ask for it
        return f"a traceback: {traceback_of(ended.said)}"
    if ended.code not in ALLOWED:
        return f"exit code {ended.code}"
    if any(len(sentence) > LONGEST for sentence in sentences):
        return f"a sentence of more than {LONGEST} characters: {general(sentences[0][:80])}"
    if (
        ended.code == 2
        and not ended.stopped
        and len(sentences) != 1
        and "╭" not in ended.said
        and "usage: hrnn" not in ended.said
    ):
        return f"exit code 2 with {len(sentences)} sentences: {general(ended.err[:100])}"
    if ended.code == 1 and not sentences:
        return f"exit code 1 without a sentence: {general(ended.err[:100])}"
    return None


def traceback_of(said: str) -> str:
    """The innermost place in the project and the last line."""
    places = re.findall(r'File ".*?(\w+/\w+\.py)", line \d+, in (\w+)', said.partition("Traceback (most recent")[2])
    inside = re.findall(r'File ".*?/hrnn/([\w/]+\.py)", line \d+, in (\w+)', said)
    place = (inside or places or [("?", "?")])[-1]
    kinds = re.findall(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Interrupt|Warning|Exit))\b", said, re.M)
    return f"{place[0]} {place[1]}: {kinds[-1] if kinds else '?'}"


def line_with(said: str, words: str) -> str:
    return next(line for line in said.splitlines() if words in line)[:160]


def general(text: str) -> str:
    """Without paths, quoted values and numbers, so that one mistake has one name."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", text)
    text = re.sub(r"\S*/\S+", "PATH", text)
    text = re.sub(r"[-+]?\d[\d.,e+]*", "N", text)
    return re.sub(r"\s+", " ", text).strip()


def shown(arguments: Sequence[str]) -> str:
    """A call as it can be typed; long values are shortened the way Python writes them."""
    return "hrnn " + " ".join(
        shlex.quote(one) if len(one) < 80 else f'$(python -c "print({repeated(one)})")' for one in arguments
    )


def repeated(text: str) -> str:
    return f"'{text[0]}'*{len(text)}" if len(set(text)) == 1 else f"{text[:40]!r}+...{len(text)} characters"

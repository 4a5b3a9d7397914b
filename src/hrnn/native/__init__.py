"""The part of the library that is compiled: found and loaded where it was built; where not, torch computes everything.

Nothing is compiled here; `build.py` is for installs. Two variables of the environment choose otherwise: HRNN_NATIVE=0 is torch,
and HRNN_LEVEL names a lower instruction set than the processor has. Both are read once. Imports nothing heavy.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # type checkers take it for true; importing this module must cost nothing
if TYPE_CHECKING:
    from ctypes import CDLL

FOLDER = os.path.dirname(os.path.abspath(__file__))
OBJECT = "_segments" + {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
LEVELS = ("avx512", "avx2", "base")  # the widest vectors first
AVX512, AVX2, BASE_OF_X86 = 4, 3, 1  # what hrnn_level() says; any other number is the base of another architecture
_found: tuple[CDLL | None, str, str] | None = None


class SettingError(ValueError):
    """A variable of the environment asks for what is not there."""


def library() -> CDLL | None:
    """The compiled functions, or None where torch computes; their names end in the level's."""
    return _once()[0]


def level() -> str:
    """The instruction set in use, one of LEVELS; "" where torch computes."""
    return _once()[1]


def reason() -> str:
    """Why this level, or why none."""
    return _once()[2]


def _once() -> tuple[CDLL | None, str, str]:
    global _found
    if _found is None:
        _found = _find()
    return _found


def _find() -> tuple[CDLL | None, str, str]:
    """The library, its level, and why it is these."""
    switch, asked = os.environ.get("HRNN_NATIVE") or "1", os.environ.get("HRNN_LEVEL") or ""
    if switch not in ("0", "1"):
        raise SettingError(f"HRNN_NATIVE is {switch!r}; give 0 for torch alone, or 1")
    if switch == "0":
        return None, "", "HRNN_NATIVE=0 in the environment"
    if why := _unfit():
        return _without(asked, why)
    import ctypes

    try:
        loaded = ctypes.CDLL(os.path.join(FOLDER, OBJECT))
        number = int(loaded.hrnn_level())
    except (OSError, AttributeError) as error:
        return _without(asked, f"native code cannot be loaded: {error}")
    best = {AVX512: "avx512", AVX2: "avx2"}.get(number, "base")
    there = LEVELS[LEVELS.index(best) :]
    if asked and asked not in there:
        raise SettingError(f"HRNN_LEVEL is {asked!r}, and this processor has {', '.join(there)}")
    if asked:
        return loaded, asked, "HRNN_LEVEL in the environment"
    if number == BASE_OF_X86:
        return None, "", "the processor has no AVX2, without which torch is quicker"
    return loaded, best, "the best instruction set of this processor"


def _unfit() -> str:
    """Why the object must not be loaded: part of one, or one that was made from other sources, could do anything."""
    path = os.path.join(FOLDER, OBJECT)
    if not os.path.exists(path):
        return "native code is not built; install again where there is a C compiler"
    import hashlib

    try:
        with open(path, "rb") as file, open(os.path.join(FOLDER, "_segments.sha256")) as sums:
            content, noted = file.read(), sums.read(64)
    except (OSError, ValueError) as error:
        return f"native code cannot be read: {error}; install again"
    if hashlib.sha256(content).hexdigest() != noted:
        return "native code is damaged: it is not what was built; install again"
    if os.path.exists(os.path.join(FOLDER, "pick.c")):  # an install in place
        from pathlib import Path

        from hrnn.native.build import fingerprint

        if fingerprint(Path(FOLDER)).encode() not in content:
            return "native code is stale: its sources have changed since; install again"
    return ""


def _without(asked: str, why: str) -> tuple[None, str, str]:
    if asked:  # whoever names a level wants its very bits
        raise SettingError(f"HRNN_LEVEL is {asked!r}, and {why}")
    return None, "", why

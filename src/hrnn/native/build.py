"""Compiles the C beside it into one shared object. It runs where a wheel is built or the package is installed from its sources,
never later, and needs nothing but Python and a C compiler (gcc or clang: the C uses their vector types).

    python src/hrnn/native/build.py      # in place, with what the compiler has to say
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent
STEM = "_segments"
SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
SECONDS = 600  # that a compiler may take for one file

FLAGS = ["-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-Wall", "-Wextra"]
FLAGS += [] if sys.platform == "win32" else ["-fPIC", "-fvisibility=hidden"]
LINK = {
    "darwin": ["-shared", "-lm", "-pthread", "-Wl,-x"],
    "win32": ["-shared"],
}.get(sys.platform, ["-shared", "-lm", "-pthread", "-s", "-Wl,-z,defs"])
MACOS = "11.0"  # the oldest that the object is for
LEVELS = {  # of x86-64; whatever else there is has one, the compiler's own
    "_avx512": ["-mavx512f", "-mavx512vl", "-mavx512dq", "-mavx512bw", "-mfma", "-mavx2"],
    "_avx2": ["-mavx2", "-mfma"],
    "_base": [],
}
TRIAL = "#include <math.h>\ntypedef float v __attribute__((vector_size(16)));\nv twice(v x) { return x + x; }\n"


class NotBuiltError(Exception):
    """Why there is no object, in a few words."""


def build(folder: Path, said: list[str] | None = None) -> Path:
    """Compile; the object and its checksum are put into the folder at once, or NotBuiltError says why not.

    said: gets what the compiler wrote
    """
    if os.environ.get("HRNN_NATIVE") == "0":
        raise NotBuiltError("HRNN_NATIVE=0 in the environment")
    said = [] if said is None else said
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        compiler = find_compiler(place)
        flags = [*FLAGS, f'-DHRNN_SOURCES="{fingerprint(SOURCES)}"']
        flags += [f"-mmacosx-version-min={MACOS}"] if sys.platform == "darwin" else []
        target = run([*compiler, "-dumpmachine"])
        levels = LEVELS if re.match("x86_64|amd64", target) else {"_base": []}
        made = []
        for suffix, more in [("", []), *levels.items()]:
            source, made_here = ("segments.c" if suffix else "pick.c"), str(place / f"made{suffix}.o")
            suffixed = [f"-DSUFFIX={suffix}"] if suffix else []
            said.append(run([*compiler, *flags, *more, *suffixed, "-c", str(SOURCES / source), "-o", made_here]))
            made.append(made_here)
        linked = place / f"{STEM}{SUFFIX}"
        said.append(run([*compiler, *made, "-o", str(linked), *LINK]))
        try_to_load(linked)
        return install(linked, folder)


def find_compiler(place: Path) -> list[str]:
    """The command of the first C compiler that works: CC of the environment, or else cc, gcc or clang."""
    own = shlex.split(os.environ.get("CC", ""))
    complaints = []
    (place / "trial.c").write_text(TRIAL)
    for command in [own] if own else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]) is None:
            continue
        try:
            run([*command, *FLAGS, str(place / "trial.c"), "-o", str(place / f"trial{SUFFIX}"), *LINK])
            return command
        except NotBuiltError as error:
            complaints.append(str(error))
    named = f"CC is {shlex.join(own)}, and " if own else ""
    if complaints:
        raise NotBuiltError(f"{named}no C compiler works: {complaints[0]}")
    raise NotBuiltError(f"{named}there is no C compiler" + ("" if own else " (cc, gcc or clang)"))


def run(command: list[str]) -> str:
    """What a command writes; one that fails says why in its first line with an error."""
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=SECONDS, env={**os.environ, "LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotBuiltError(f"{command[0]} cannot be run ({error})") from None
    text = (done.stdout + done.stderr).strip()
    if done.returncode:
        lines = text.splitlines() or ["no word of it"]
        raise NotBuiltError(f"{command[0]} failed: {next((line for line in lines if 'error' in line), lines[0])[:300]}")
    return text


def try_to_load(path: Path) -> None:
    """In a process of its own: an object of another architecture, or one that ends the process, is not installed."""
    program = "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); sys.exit(library.hrnn_level() not in (1, 2, 3, 4))"
    try:
        run([sys.executable, "-c", program, str(path)])
    except NotBuiltError:
        raise NotBuiltError("what was compiled cannot be loaded by this Python") from None


def install(linked: Path, folder: Path) -> Path:
    """Put the object into the folder; a process that has the old one open keeps it."""
    checksum = f"{hashlib.sha256(linked.read_bytes()).hexdigest()}  {linked.name}\n"  # as sha256sum writes it
    partial = folder / f"{linked.name}.partial"
    remove(folder)
    shutil.copyfile(linked, partial)
    os.replace(partial, folder / linked.name)
    (folder / f"{STEM}.sha256").write_text(checksum)
    return folder / linked.name


def remove(folder: Path) -> None:
    """The object that an earlier build left in the folder."""
    for path in folder.glob(f"{STEM}.*"):
        path.unlink()


def fingerprint(folder: Path) -> str:
    """Of the sources, and of how they are compiled; an object carries that of what it was made from."""
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.c"), *folder.glob("*.h"), folder / "build.py"]):
        digest.update(f"{path.name}\n".encode() + path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()[:16]


def platform_tag(path: Path) -> str:
    """Where the object runs, as the name of a wheel says it: any Python, any Linux whose glibc has what the object asks for."""
    system, _, machine = sysconfig.get_platform().partition("-")
    asked = [(int(a), int(b)) for a, b in re.findall(rb"GLIBC_(\d+)\.(\d+)", path.read_bytes())]
    if system == "linux" and platform.libc_ver()[0] == "glibc":
        return "manylinux_{}_{}_{}".format(*max([(2, 17), *asked]), machine)
    if system == "macosx":
        return f"macosx_{MACOS.replace('.', '_')}_{os.uname().machine}"
    return re.sub("[-.]", "_", sysconfig.get_platform())


if __name__ == "__main__":
    words: list[str] = []
    try:
        print(build(SOURCES, words))
    except NotBuiltError as error:
        sys.exit(f"not built: {error}")
    finally:
        print("\n".join(filter(None, words)), file=sys.stderr)

"""What is loaded, or why not: every reason leads to torch and a sentence, never to an error of the linker."""

import ctypes
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hrnn
from hrnn import native
from hrnn.native import build


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with an object, its checksum and its sources: those of the package, or where it has none, made here."""
    folder = tmp_path_factory.mktemp("built")
    for path in [*build.SOURCES.glob("*.[ch]"), *build.SOURCES.glob("_segments.*"), build.SOURCES / "build.py"]:
        shutil.copy(path, folder)
    if native._unfit():
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("HRNN_NATIVE", raising=False)
            try:
                build.build(folder)
            except build.NotBuiltError as error:
                pytest.skip(f"native code is not built: {error}")
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The loader looks into an empty folder, as if for the first time, and the environment says nothing."""
    monkeypatch.setattr(native, "FOLDER", str(tmp_path))
    return forget(monkeypatch, tmp_path)


def forget(monkeypatch, answer=None):
    monkeypatch.setattr(native, "_found", None)
    for name in ("HRNN_NATIVE", "HRNN_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    return answer


@pytest.fixture
def whole(place, built):
    shutil.copytree(built, place, dirs_exist_ok=True)
    return place


def expect_torch(words):
    found = hrnn.engine()
    assert (native.library(), found.name, found.level) == (None, "torch", "")
    assert re.search(words, found.reason)
    assert words in str(found)


def test_what_was_built_is_used(whole):
    found = hrnn.engine()
    if native.library() is None:
        pytest.skip(found.reason)
    assert (found.name, found.level in native.LEVELS) == ("native", True)
    assert str(found) == f"{found.short} (the best instruction set of this processor)"
    sources = native.library().hrnn_sources
    sources.restype = ctypes.c_char_p
    assert sources().decode() == build.fingerprint(build.SOURCES)


def test_torch_where_nothing_was_built(place):
    expect_torch("native code is not built; install again where there is a C compiler")


def test_torch_where_the_user_wants_it(whole, monkeypatch):
    monkeypatch.setenv("HRNN_NATIVE", "0")
    monkeypatch.setenv("HRNN_LEVEL", "avx2")  # of nothing
    expect_torch("HRNN_NATIVE=0 in the environment")


@pytest.mark.parametrize("file", ["segments.c", "pick.c", "build.py"])
def test_torch_where_the_sources_are_newer(whole, file):
    (whole / file).write_text((whole / file).read_text() + "\n")
    expect_torch("native code is stale: its sources have changed since; install again")


def test_line_ends_of_another_system_are_no_change(whole):
    for path in whole.glob("*.c"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert "stale" not in native.reason()


def test_without_sources_beside_it_an_object_is_as_old_as_its_package(whole):
    for path in whole.glob("*.[ch]"):
        path.unlink()
    (whole / "build.py").write_text("")
    assert native._unfit() == ""


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "text"])
def test_torch_where_the_object_is_damaged(whole, damage):
    """One that is cut would end the process when it is loaded."""
    path = whole / native.OBJECT
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    damaged = {"cut": content[: len(content) // 2], "bit": content, "empty": b"", "text": b"no object"}
    path.unlink()  # a process may have it open
    path.write_bytes(damaged[damage])
    expect_torch("native code is damaged: it is not what was built; install again")


def test_torch_where_the_object_cannot_be_loaded(place):
    """Of another architecture, say: whole, but not for us."""
    (place / native.OBJECT).write_bytes(b"of another world")
    (place / "_segments.sha256").write_text(hashlib.sha256(b"of another world").hexdigest())
    expect_torch("native code cannot be loaded: ")


def test_torch_where_the_checksum_is_missing(whole):
    (whole / "_segments.sha256").unlink()
    expect_torch("native code cannot be read: ")


@pytest.mark.parametrize(
    ("number", "level"), [(4, "avx512"), (3, "avx2"), (2, "base"), (1, "")], ids=["avx512", "avx2", "other", "old"]
)
def test_the_level_is_that_of_the_processor(place, monkeypatch, number, level):
    pretend(monkeypatch, number)
    assert (native.level(), native.library() is None) == (level, level == "")
    if not level:
        expect_torch("the processor has no AVX2, without which torch is quicker")


def pretend(monkeypatch, number):
    """A processor of this level, and an object for it."""

    class Loaded:
        def __init__(self, path):
            pass

        def hrnn_level(self):
            return number

    monkeypatch.setattr("ctypes.CDLL", Loaded)
    monkeypatch.setattr(native, "_unfit", lambda: "")


def test_a_lower_level_can_be_chosen_and_no_higher_one(place, monkeypatch):
    pretend(monkeypatch, 3)
    for level in ("avx2", "base"):
        forget(monkeypatch)
        monkeypatch.setenv("HRNN_LEVEL", level)
        assert (native.level(), native.reason()) == (level, "HRNN_LEVEL in the environment")
    for level in ("avx512", "AVX2", "sse"):
        forget(monkeypatch)
        monkeypatch.setenv("HRNN_LEVEL", level)
        with pytest.raises(native.SettingError, match=f"HRNN_LEVEL is '{level}', and this processor has avx2, base"):
            native.library()


def test_a_level_of_nothing_is_refused(place, monkeypatch):
    monkeypatch.setenv("HRNN_LEVEL", "avx2")
    with pytest.raises(native.SettingError, match="HRNN_LEVEL is 'avx2', and native code is not built; install again where"):
        native.level()


def test_a_switch_that_means_nothing_is_refused(place, monkeypatch):
    monkeypatch.setenv("HRNN_NATIVE", "off")
    with pytest.raises(native.SettingError, match="HRNN_NATIVE is 'off'; give 0 for torch alone, or 1"):
        hrnn.engine()


def test_it_is_looked_for_once(whole, monkeypatch):
    first = native.library()
    monkeypatch.setenv("HRNN_NATIVE", "0")
    assert native.library() is first


def python(program, **environment):
    env = {name: value for name, value in os.environ.items() if not name.startswith("HRNN_")} | environment
    return subprocess.run([sys.executable, *program], env=env, capture_output=True, text=True)


def test_the_engine_does_not_import_torch_and_knows_its_threads():
    done = python(["-c", "import sys, hrnn; print(hrnn.engine().threads, 'torch' in sys.modules)"])
    assert done.stdout.split() == ["None", "False"]
    done = python(["-c", "import torch, hrnn; torch.set_num_threads(2); print(hrnn.engine().threads, hrnn.engine())"])
    assert done.stdout.startswith("2 ")
    assert ", 2 threads (" in done.stdout


def test_the_command_line_says_it():
    done = python(["-m", "hrnn", "--version"], HRNN_NATIVE="0")
    assert done.stdout.splitlines() == [hrnn.__version__, "engine: torch (HRNN_NATIVE=0 in the environment)"]
    done = python(["-m", "hrnn", "--version"], HRNN_NATIVE="no")
    assert (done.returncode, done.stderr) == (2, "hrnn: HRNN_NATIVE is 'no'; give 0 for torch alone, or 1\n")


def test_a_compiler_that_does_not_work_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv("HRNN_NATIVE", raising=False)
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'trial.c:1: error: something is missing' >&2\nexit 1\n")
    broken.chmod(0o755)
    quoted = shlex.quote(str(broken))
    for compiler, words in (
        (quoted, f"CC is {quoted}, and no C compiler works: {broken} failed: trial.c:1: error: something is missing"),
        ("/nowhere/cc -m64", "CC is /nowhere/cc -m64, and there is no C compiler"),
    ):
        monkeypatch.setenv("CC", compiler)
        with pytest.raises(build.NotBuiltError, match=f"^{re.escape(words)}$"):
            build.build(tmp_path)
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(build.NotBuiltError, match=re.escape("there is no C compiler (cc, gcc or clang)")):
        build.build(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken"]


@pytest.mark.skipif(sys.platform != "linux", reason="the names of wheels for Linux")
def test_the_tag_asks_for_what_the_object_asks_for(tmp_path):
    if not build.platform_tag(Path(sys.executable)).startswith("manylinux"):
        pytest.skip("this is not glibc")
    for content, glibc in ((b"", "2_17"), (b"GLIBC_2.2.5\0GLIBC_2.29\0GLIBC_2.4\0", "2_29")):
        (tmp_path / "object").write_bytes(content)
        assert re.fullmatch(rf"manylinux_{glibc}_\w+", build.platform_tag(tmp_path / "object"))

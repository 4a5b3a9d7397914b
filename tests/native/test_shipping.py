"""Installed as users install it, with a C compiler and without: wheels, editable installs, the source distribution."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import hrnn
from hrnn.native import build

pytestmark = pytest.mark.long
ROOT = Path(hrnn.__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
MOST = 1_000_000  # bytes of the object
SLOWER = "Everything works, only slower."
PROGRAM = """
import json, sys
import hrnn
light = sorted(name for name in sys.modules if name.split(".")[0] in ("hrnn", "ctypes", "hashlib", "torch"))
before = hrnn.engine()
light_engine = "torch" not in sys.modules
import torch
model, head = hrnn.HRNN(hrnn.Tokens(3), hidden_sizes=[8, 8], periods=[5]), torch.nn.Linear(8, 3)
x = torch.randint(3, (20, 2))
loss = lambda output, y: torch.nn.functional.cross_entropy(head(output).transpose(1, 2), y, reduction="none")
result = hrnn.Restricted().backward(model, x, x, loss=loss, betas=[0.1])
print(json.dumps({
    "name": before.name, "reason": before.reason, "file": hrnn.__file__, "finite": bool(result.loss.isfinite()),
    "light": light, "light_engine": light_engine,
}))
"""


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    """Where there is none, half of this cannot be tested."""
    try:
        build.find_compiler(tmp_path_factory.mktemp("trial"))
    except build.NotBuiltError as error:
        pytest.skip(str(error))


@pytest.fixture
def source(tmp_path):
    """The sources as a clone has them: nothing that was built."""
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        (tmp_path / "source").mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "source")
    shutil.copytree(ROOT / "src", tmp_path / "source" / "src", ignore=shutil.ignore_patterns("__pycache__", "_segments.*"))
    return tmp_path / "source"


def environment(tmp_path, compiler, **more):
    """Of a build. Without a compiler: no program at all can be found."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("HRNN_") and name not in ("CC", "PYTHONPATH")
    }
    return kept | ({} if compiler else {"PATH": str(tmp_path / "nothing")}) | more


def pip(*arguments, env):
    """What it says, with what the build says."""
    done = subprocess.run(
        [*PIP, "-v", *map(str, arguments)], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def wheel_of(source, folder, env):
    """The one wheel of these sources, and what was said."""
    said = pip("wheel", "--no-deps", "--wheel-dir", folder, source, env=env)
    (wheel,) = folder.glob("hrnn-*.whl")
    return wheel, said


def new_environment(tmp_path):
    """An empty one, but for what this one has; its Python."""
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return tmp_path / "venv" / "bin" / "python"


def found_by(python, tmp_path, **more):
    done = subprocess.run(
        [python, "-c", PROGRAM], cwd=tmp_path, env=environment(tmp_path, True, **more), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["finite"]
    assert (found["light"], found["light_engine"]) == (["hrnn"], True)
    return found


def check_native(found):
    if "no AVX2" in found["reason"]:
        pytest.skip(found["reason"])
    assert (found["name"], found["reason"]) == ("native", "the best instruction set of this processor")


def check_pure(found):
    assert (found["name"], found["reason"]) == (
        "torch",
        "native code is not built; install again where there is a C compiler",
    )


def check_pure_wheel(wheel, said, why):
    assert wheel.name == f"hrnn-{hrnn.__version__}-py3-none-any.whl"
    assert f"hrnn is installed without native code: {why}" in said
    assert SLOWER in said
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if "_segments" in name or name.endswith((".c", ".h"))]


def test_a_wheel_with_a_compiler(source, tmp_path, compiler):
    (source / "src/hrnn/native/_segments.so").write_text("left behind by something else")
    wheel, said = wheel_of(source, tmp_path / "wheels", environment(tmp_path, True))
    assert SLOWER not in said
    tag = build.platform_tag(Path(sys.executable)).partition("_")[0]  # of another glibc, perhaps
    assert wheel.name.startswith(f"hrnn-{hrnn.__version__}-py3-none-{tag}_")
    inside = {entry.filename: entry.file_size for entry in zipfile.ZipFile(wheel).infolist()}
    assert 1000 < inside[f"hrnn/native/_segments{build.SUFFIX}"] <= MOST
    assert not [name for name in inside if name.endswith((".c", ".h"))]
    python = new_environment(tmp_path)
    pip("--python", python, "install", "--no-deps", wheel, env=environment(tmp_path, False))
    found = found_by(python, tmp_path)
    assert str(tmp_path / "venv") in found["file"]
    check_native(found)
    assert found_by(python, tmp_path, HRNN_NATIVE="0")["name"] == "torch"


def test_a_wheel_without_a_compiler(source, tmp_path):
    wheel, said = wheel_of(source, tmp_path / "wheels", environment(tmp_path, False))
    check_pure_wheel(wheel, said, "there is no C compiler (cc, gcc or clang)")
    python = new_environment(tmp_path)
    pip("--python", python, "install", "--no-deps", wheel, env=environment(tmp_path, False))
    check_pure(found_by(python, tmp_path))


def test_a_wheel_that_shall_be_pure(source, tmp_path):
    wheel, said = wheel_of(source, tmp_path / "wheels", environment(tmp_path, True, HRNN_NATIVE="0"))
    check_pure_wheel(wheel, said, "HRNN_NATIVE=0 in the environment")


def test_a_compiler_that_fails_half_way(source, tmp_path, compiler):
    """It passes the trial and compiles one file, but not the next."""
    script = tmp_path / "half"
    script.write_text('#!/bin/sh\ncase "$*" in *segments.c*) echo "error: no such vectors" >&2; exit 1;; esac\nexec cc "$@"\n')
    script.chmod(0o755)
    wheel, said = wheel_of(source, tmp_path / "wheels", environment(tmp_path, True, CC=str(script)))
    check_pure_wheel(wheel, said, f"{script} failed: error: no such vectors")


def test_an_editable_install(source, tmp_path, compiler):
    """With a compiler, of changed sources, again, and without one."""
    python, native = new_environment(tmp_path), source / "src/hrnn/native"
    install = ("--python", python, "install", "--no-deps", "--editable", source)
    pip(*install, env=environment(tmp_path, True))
    check_native(found_by(python, tmp_path))
    assert (native / f"_segments{build.SUFFIX}").stat().st_size <= MOST
    with open(native / "pick.c", "a") as file:
        file.write("/* changed */\n")
    found = found_by(python, tmp_path)
    assert (found["name"], found["reason"].partition(":")[0]) == ("torch", "native code is stale")
    pip(*install, env=environment(tmp_path, True))
    check_native(found_by(python, tmp_path))
    assert SLOWER in pip(*install, env=environment(tmp_path, False))
    check_pure(found_by(python, tmp_path))
    assert not list(native.glob("_segments.*"))


def test_the_source_distribution_can_be_built(source, tmp_path, compiler):
    pip("install", "--quiet", "--target", tmp_path / "tools", "hatchling", env=environment(tmp_path, True))
    env = environment(tmp_path, True, PYTHONPATH=str(tmp_path / "tools"))
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path], cwd=source, env=env, check=True)
    (archive,) = tmp_path.glob("hrnn-*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    sources = {f"src/hrnn/native/{path.name}" for path in build.SOURCES.glob("*.[ch]")}
    assert {"hatch_build.py", *sources} <= names
    wheel, _ = wheel_of(archive, tmp_path / "wheels", environment(tmp_path, True))
    assert "py3-none-any" not in wheel.name

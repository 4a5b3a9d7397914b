import ast
import json
import os
from pathlib import Path

import pytest

import hrnn
from hrnn import files
from hrnn.errors import UserError
from hrnn.files import AppendOnlyFile, write_atomically
from hrnn.formats import numbered
from hrnn.tasks import Copy
from hrnn.training.checkpoint import DamagedError, read
from hrnn.training.entries import whole_result


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(UserError, match=r"file cannot be written: No space left on device; .*hrnn resume"):
        write_atomically(path, b"new content")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_growing_file_is_cut_back(tmp_path):
    file = AppendOnlyFile(tmp_path / "file")
    file.write(b"one\n")
    length = file.sync()
    file.write(b"two, which never happ")
    file.close()
    again = AppendOnlyFile(tmp_path / "file", length)
    again.write(b"three\n")
    assert again.sync() == 10
    again.close()
    assert (tmp_path / "file").read_bytes() == b"one\nthree\n"


def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(tmp_path):
    pipe = tmp_path / "update-000000001.safetensors"
    os.mkfifo(pipe)
    with pytest.raises(DamagedError, match="not a regular file"):
        read(pipe)
    with pytest.raises(UserError, match="not a regular file"):
        AppendOnlyFile(pipe)


def test_a_result_that_is_repeated_says_all_that_results_say(tmp_path):
    whole = {"reason": "budget", "updates": 3, "sequences": 12, "seconds": 1.5, "test": {"accuracy": 0.5}}
    (tmp_path / "result.json").write_text(json.dumps(numbered("run", whole)))
    assert whole_result(tmp_path, Copy().measured) == whole
    for wrong in ({"updates": "3"}, {"seconds": 10**400}, {"test": 5}, {"sequences": None}, {"longest_solved_length": 4}):
        (tmp_path / "result.json").write_text(json.dumps(numbered("run", {**whole, **wrong})))
        with pytest.raises(UserError, match="holds no result; remove it"):
            whole_result(tmp_path, Copy().measured)


CHANGING = {  # calls that write, make, rename or remove something, by the name of the function
    *("replace", "rename", "renames", "remove", "removedirs", "unlink", "rmdir", "mkdir", "makedirs", "truncate", "link"),
    *("symlink", "mkfifo", "mknod", "rmtree", "move", "copy", "copy2", "copyfile", "copytree", "mkstemp", "mktemp"),
    *("NamedTemporaryFile", "save", "savez", "savez_compressed", "savetxt", "save_file", "savefig", "open_memmap", "write_csv"),
    *("ParquetWriter", "CSVWriter", "OSFile", "FileIO", "FileHandler", "SummaryWriter", "urlretrieve", "retrieve"),
}
MODULES = {"os", "shutil", "tempfile", "np", "numpy", "torch", "figure", "pyarrow", "pooch", "io", "logging", "parquet"}
METHODS = {"write_text", "write_bytes", "touch", "unlink", "rmdir", "mkdir", "rename", "symlink_to", "hardlink_to", "tofile"}
ALLOWED = {  # what writes to no file, or to none that anybody else has a say in
    "cli.py: open": "/dev/null, where a standard stream is closed",
    "resident.py: open": "/proc/self/clear_refs",
    "data/grouping.py: np.memmap": "a file that is open already",
    "estimators/given.py: parquet.ParquetWriter": "a file that is open already",
    "report/figure.py: figure.savefig": "memory",
    "tasks/idx.py: pooch.retrieve": "a temporary folder",
}


def writers(path):
    """Calls in a file of Python that may change a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        holder, _, name = called.rpartition(".")
        if name in ("open", "memmap") and holder in ("", "io", "os", "np", "gzip"):
            mode = [*node.args[1:2], *(one.value for one in node.keywords if one.arg == "mode")]
            reads = not mode or (isinstance(mode[0], ast.Constant) and mode[0].value in ("r", "rb", "rt"))
            if not reads or holder == "os":
                yield called
        elif (
            (holder.rpartition(".")[2] in MODULES and name in CHANGING)
            or (holder and name in METHODS)
            or (holder and name == "replace" and len(node.args) == 1 and not node.keywords)  # of a text there are two
            or called == "save_file"
        ):
            yield called


def test_nobody_else_writes_files():
    """Whoever does would have to think of links by himself."""
    package = Path(hrnn.__file__).parent
    found = {
        f"{path.relative_to(package)}: {called}"
        for path in package.rglob("*.py")
        if path.relative_to(package).as_posix() not in ("files.py", "native/build.py")
        for called in writers(path)
    }
    assert found - set(ALLOWED) == set()

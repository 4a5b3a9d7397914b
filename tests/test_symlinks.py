"""Nothing is written, emptied, renamed or removed through a link: runs, caches, hub folders, exports and outputs of commands
with links of every kind in them. Afterwards a folder of documents must be what it was, to the byte."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import hrnn
from hrnn.data import arrays, cache
from hrnn.errors import UserError
from tests.commands.console import complaint
from tests.commands.console import hrnn as command
from tests.tiny import TINY, write_text, write_walks

IN_A_RUN = (  # what a run's process writes
    "lock",
    "config.json",
    "journal.jsonl",
    "result.json",
    ".config.json.partial",
    ".result.json.partial",
    "checkpoints",
    "checkpoints/update-000000006.safetensors",
    "checkpoints/.update-000000008.safetensors.partial",
    "tensorboard",
    "tensorboard/events.out.tfevents.hrnn",
)
FOLDERS = ("checkpoints", "tensorboard")
GROWING = ("lock", "journal.jsonl", "tensorboard/events.out.tfevents.hrnn")


def content(folder):
    """All that is in a folder, links by where they lead."""
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.is_dir() or path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def victims(tmp_path):
    """Somebody's documents, some of which are called like files of a run. The test fails if they are not as they were."""
    folder = tmp_path / "victims"
    (folder / "folder").mkdir(parents=True)
    for name in ("document", "folder/document", "folder/.update-000000008.safetensors.partial", "folder/cache.json"):
        (folder / name).write_text(f"{name}, years of work\n")
    (folder / "folder" / "update-000000003.safetensors").write_text("mine\n")
    before = content(folder)
    yield folder
    assert content(folder) == before


@pytest.fixture(scope="module")
def text_run(tmp_path_factory):
    """A run with six updates behind it, which every test copies."""
    from hrnn.cli import main

    place = tmp_path_factory.mktemp("linked")
    small = ["--hidden-sizes", "4", "4", "--batch", "4", "--window", "10", "--updates", "6", "--validate-every", "3"]
    text = write_text(place / "text.txt", copies=12)
    assert main(["train", "text", "--data", str(text), *small, "--run", str(place / "run")]) == 0
    return place / "run"


@pytest.fixture
def run(text_run, tmp_path):
    return Path(shutil.copytree(text_run, tmp_path / "run"))


def link(place, target):
    """Put a link in a file's or a folder's place."""
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(target)
    return place


@pytest.mark.parametrize("calling", ["resume", "train"])
@pytest.mark.parametrize("kind", ["there", "dangling", "relative"])
@pytest.mark.parametrize("name", IN_A_RUN)
def test_a_link_in_a_run_is_refused(run, victims, capsys, name, kind, calling):
    target = victims / ("nothing" if kind == "dangling" else "folder" if name in FOLDERS else "document")
    if name in ("config.json", "checkpoints/update-000000006.safetensors") and kind == "there":  # only the link is wrong
        target = shutil.copy(run / name, run.parent / "copied")
    before = Path(target).read_bytes() if Path(target).is_file() else None
    placed = link(run / name, os.path.relpath(target, (run / name).parent) if kind == "relative" else target)
    again = ("train", "text", "--data", run.parent / "text.txt", *TINY, "--updates", 2, "--overwrite", "--run", run)
    write_text(run.parent / "text.txt")
    after = content(run)
    said = complaint(capsys, *(("resume", run, "--updates", 8) if calling == "resume" else again))
    if kind != "there" and name == "config.json":  # there is no run, or none that can be read
        return
    assert f"{placed} is a symbolic link" in said
    assert content(run) == after
    assert before is None or Path(target).read_bytes() == before


@pytest.mark.parametrize("name", GROWING)
def test_another_name_of_a_document_is_not_written_to(run, victims, capsys, name):
    (run / name).unlink()
    os.link(victims / "document", run / name)
    said = complaint(capsys, "resume", run, "--updates", 8)
    assert f"{run / name} has another name, to which hrnn would write as well" in said


def test_links_above_a_run_are_the_users(text_run, tmp_path, capsys):
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "runs").symlink_to(disk)
    shutil.copytree(text_run, disk / "real")
    (disk / "named").symlink_to("real")
    assert command(capsys, "resume", tmp_path / "runs" / "named", "--updates", 8)[0] == 0
    assert (disk / "real" / "checkpoints" / "update-000000008.safetensors").is_file()


def test_checkpoints_that_become_a_link_while_a_run_learns(run, victims, capsys, monkeypatch):
    def swapped(*_):
        (run / "checkpoints").rename(run.parent / "aside")
        (run / "checkpoints").symlink_to(victims / "folder")

    monkeypatch.setattr("hrnn.training.folder.check_still_there", swapped)  # the last thing before a checkpoint is written
    code, _, err = command(capsys, "resume", run, "--updates", 8)
    assert code == 2
    assert f"hrnn: {run}/checkpoints is a symbolic link" in err


@pytest.mark.parametrize(("partial", "target"), [(False, "document"), (True, "nothing")])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("curves.svg", ("plot", "RUN", "--output")),
        ("page.html", ("report", "RUN", "--output")),
        ("step.pt2", ("export", "RUN", "--format", "torch-export", "--output")),
    ],
)
def test_outputs_are_not_written_through_links(run, victims, capsys, name, arguments, partial, target):
    output = run.parent / name
    placed = link(output.with_name(f".{name}.partial") if partial else output, victims / target)
    said = complaint(capsys, *(run if one == "RUN" else one for one in arguments), output)
    assert f"{placed} is a symbolic link, and hrnn writes only to its own files; remove the link" in said
    assert placed.is_symlink()


def test_an_export_beside_its_run(run, victims, capsys):
    placed = link(run / "export", victims / "folder")
    assert f"{placed} is a symbolic link" in complaint(capsys, "export", run, "--format", "torch-export")


def test_an_output_that_is_no_file_is_not_replaced(run, tmp_path, capsys):
    os.mkfifo(tmp_path / "curves.svg")
    assert "curves.svg is not a regular file" in complaint(capsys, "plot", run, "--output", tmp_path / "curves.svg")
    assert not (tmp_path / "curves.svg").is_file()


@pytest.mark.parametrize("name", ["model.safetensors", "head.safetensors", "config.json", "README.md"])
def test_a_folder_for_the_hub(victims, tmp_path, name):
    model, head = hrnn.HRNN(3, [5]), torch.nn.Linear(5, 2)
    folder = hrnn.hub.save_pretrained(model, tmp_path / "model", head=head)
    placed = link(folder / name, shutil.copy(folder / name, tmp_path / "copied"))
    before = content(folder), (tmp_path / "copied").read_bytes()
    with pytest.raises(UserError, match=f"{placed} is a symbolic link"):
        hrnn.hub.save_pretrained(model, folder, head=None if name.startswith("head") else head)
    assert (content(folder), (tmp_path / "copied").read_bytes()) == before


@pytest.mark.parametrize("partial", [False, True])
def test_saved_models_and_states(victims, tmp_path, partial):
    model = hrnn.HRNN(3, [5])
    for name, thing in (("model", model), ("state", model.initial_state(2))):
        path = tmp_path / f"{name}.safetensors"
        link(path.with_name(f".{path.name}.partial") if partial else path, victims / "document")
        with pytest.raises(ValueError, match=r"safetensors(\.partial)? is a symbolic link"):
            thing.save(path)


SEQUENCES = [np.arange(6, dtype=np.float32)[:, None]] * 3


@pytest.mark.parametrize("target", ["folder", "document", "nothing"])
@pytest.mark.parametrize("name", [".c.partial", ".c.old", "c"])
def test_a_link_in_the_place_of_a_cache(victims, tmp_path, name, target):
    shared = tmp_path / "shared"
    placed = link(shared / name, victims / target)
    with pytest.raises(UserError, match=f"{placed} is a symbolic link|the cache {placed} is damaged|is no cache"):
        cache(arrays(SEQUENCES), shared / "c", replace=True)
    assert placed.is_symlink()


@pytest.mark.parametrize("name", [".c.partial", ".c.old"])
def test_a_folder_that_is_not_ours_is_left_alone(tmp_path, name):
    (tmp_path / name).mkdir()
    for file in ("values.npy", "thesis.txt"):
        (tmp_path / name / file).write_text("mine")
    with pytest.raises(UserError, match=rf"{name}/thesis\.txt is no file of hrnn; move it away, or give another folder"):
        cache(arrays(SEQUENCES), tmp_path / "c")
    assert content(tmp_path / name) == {"thesis.txt": b"mine", "values.npy": b"mine"}


def test_a_cache_with_somebodys_notes_is_not_replaced(tmp_path):
    cache(arrays(SEQUENCES), tmp_path / "c")
    (tmp_path / "c" / "notes").mkdir()
    (tmp_path / "c" / "notes" / "mine.txt").write_text("mine")
    before = content(tmp_path / "c")
    with pytest.raises(UserError, match=r"c/notes is no file of hrnn; move it away"):
        cache(arrays(SEQUENCES[:2]), tmp_path / "c", replace=True)
    assert content(tmp_path / "c") == before
    assert sorted(os.listdir(tmp_path)) == ["c"]


def test_overwrite_leaves_what_is_not_the_runs_alone(run, capsys):
    (run / "checkpoints" / "notes.txt").write_text("mine")
    (run / "notes.txt").write_text("mine")
    before = content(run)
    again = ("train", "copy", *TINY, "--updates", 2, "--window", 5, "--periods", 3, "--overwrite", "--run", run)
    assert f"{run}/checkpoints/notes.txt is no file of hrnn; move it away" in complaint(capsys, *again)
    after = content(run)
    after.pop("lock"), before.pop("lock")
    assert after == before
    (run / "checkpoints" / "notes.txt").unlink()
    assert command(capsys, *again)[0] == 0
    assert (run / "notes.txt").read_text() == "mine"


@pytest.fixture
def series_run(tmp_path, capsys):
    """Of a stranger: its cache is to be in a place of ours."""
    walks = write_walks(tmp_path / "walks.csv")
    small = ("--hidden-sizes", 4, 4, "--batch", 4, "--updates", 2, "--no-tensorboard", "--cache", tmp_path / "ours")
    names = ("--id", "walk", "--target", "gait")
    assert command(capsys, "train", "series", walks, *names, *small, "--run", tmp_path / "evil" / "run")[0] == 0
    shutil.rmtree(tmp_path / "ours")
    return tmp_path / "evil" / "run"


@pytest.mark.parametrize("arguments", [("evaluate",), ("resume", "--updates", 3)])
def test_a_run_that_is_opened_writes_nothing_elsewhere(series_run, tmp_path, capsys, arguments):
    assert command(capsys, arguments[0], series_run, *arguments[1:])[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["evil", "walks.csv"]
    assert os.listdir(tmp_path / "evil") == ["run"]


def test_a_run_that_is_opened_reads_the_cache_that_is_there(series_run, tmp_path, capsys, monkeypatch):
    small = ("--hidden-sizes", 4, 4, "--batch", 4, "--updates", 2, "--no-tensorboard", "--cache", tmp_path / "ours")
    names = ("--id", "walk", "--target", "gait")
    assert command(capsys, "train", "series", tmp_path / "walks.csv", *names, *small, "--run", tmp_path / "other")[0] == 0
    monkeypatch.setattr("hrnn.data.caching.make", None)  # nothing is made
    monkeypatch.setattr("hrnn.tasks.series.opened._KNOWN", {})
    assert command(capsys, "evaluate", series_run)[0] == 0


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_predictions(series_run, victims, tmp_path, capsys, suffix, partial):
    output = tmp_path / f"predicted{suffix}"
    placed = link(output.with_name(f".{output.name}.partial") if partial else output, victims / "document")
    said = complaint(capsys, "predict", series_run, tmp_path / "walks.csv", "-o", output)
    assert f"{placed} is a symbolic link" in said


SWEEP = ("copy", "--hidden-sizes", 4, 4, "--batch", 4, "--window", 5, "--periods", 3, "--updates", 2, "--no-tensorboard")


@pytest.mark.parametrize("name", ["seed=0", "lock", ".sweep.json.partial", "table.md", ".table.json.partial", "seed=0/log.txt"])
def test_a_sweep(victims, tmp_path, capsys, name):
    folder = tmp_path / "sweep"
    folder.mkdir()
    placed = link(folder / name, victims / ("folder" if name == "seed=0" else "document"))
    arguments = ("sweep", *SWEEP, "--over", "seed=0", "--folder", folder)
    code, _, err = command(capsys, *arguments)
    assert code == 2
    assert f"{placed} is a symbolic link" in err


def test_results_of_a_study(victims, tmp_path):
    from hrnn.launching.units import Unit
    from hrnn.studies import results
    from hrnn.studies.demo import OURS

    (tmp_path / "study" / "runs").mkdir(parents=True)
    placed = link(tmp_path / "study" / "runs" / "ours", victims / "folder")
    with pytest.raises(UserError, match=f"{placed} is a symbolic link"):
        results.export(tmp_path / "study", Unit("ours/seed-0", OURS), {}, {}, failure="none")

"""A run goes on only with its own data, its own checkpoints and its own configuration, and says what differs."""

import json
import shutil

import pytest
import torch

import hrnn
from hrnn.errors import LostError, UserError
from hrnn.training import folder as folders
from hrnn.training.checkpoint import Checkpoint, CheckpointFolder, DamagedError, read, write
from hrnn.training.entries import checksum, sealed
from hrnn.training.identity import compare_data
from hrnn.training.loop import train
from tests.commands.console import hrnn as command
from tests.tiny import TINY, write_text

OPTIONS = ("--window", 10, "--journal-every", 1, "--checkpoint-seconds", 0, "--held-out", 0.1)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of three updates that differ in their seed only, and a copy of the text: nothing here is changed."""
    home = tmp_path_factory.mktemp("runs")
    text = write_text(home / "text.txt", 40)
    from hrnn.cli import main

    for seed in (0, 1):
        options = [*TINY, *OPTIONS, "--data", text, "--updates", 3, "--seed", seed, "--run", home / f"run{seed}"]
        assert main(["train", "text", *map(str, options)]) == 0
    return home


@pytest.fixture
def run(runs, tmp_path):
    """A run that a test may spoil, with a text of its own."""
    shutil.copy(runs / "text.txt", tmp_path / "text.txt")
    shutil.copytree(runs / "run0", tmp_path / "run")
    edit(tmp_path / "run", lambda entries: moved(entries, runs, tmp_path), keep_checksum=False)
    for path in (tmp_path / "run" / "checkpoints").glob("*.safetensors"):
        found = read(path)
        write(path, Checkpoint(found.tensors, {**found.facts, "config": moved(found.facts["config"], runs, tmp_path)}))
    return tmp_path / "run"


def moved(entries, old, new):
    return json.loads(json.dumps(entries, ensure_ascii=False).replace(str(old / "text.txt"), str(new / "text.txt")))


def edit(folder, change, *, keep_checksum=True):
    """Change config.json as a user does with an editor, or as the program does."""
    entries = change(json.loads((folder / "config.json").read_text()))
    if not keep_checksum:
        entries["checksum"] = checksum(entries)
    (folder / "config.json").write_text(json.dumps(entries))


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def refusal(capsys, folder, *arguments):
    """What a command says that is refused; nothing in the folder may have changed."""
    before = content(folder)
    code, _, err = command(capsys, *arguments)
    assert code == 2
    assert "Traceback" not in err
    assert content(folder) == before
    return err


def test_a_run_knows_its_data_and_its_checkpoints_know_it(runs):
    stored = folders.read_run(runs / "run0")
    entries, identity = stored.options, stored.identity
    known = identity.data[str(runs / "text.txt")]
    assert identity.data.keys() == {str(runs / "text.txt")}
    changed = (runs / "text.txt").stat().st_mtime_ns
    assert known == {"size": 1760, "sha256": known["sha256"], "mtime_ns": changed}
    facts = CheckpointFolder(runs / "run0" / "checkpoints", 3, identity.id).get(3).facts
    assert facts["run"] == identity.id != folders.read_run(runs / "run1").identity.id
    assert {name: facts["config"][name] for name in entries} == entries


@pytest.mark.parametrize("change", ["rotated", "appended", "removed"])
def test_changed_data_are_refused_until_they_are_accepted(capsys, run, change):
    text = run.parent / "text.txt"
    before = text.read_text()
    if change == "removed":
        text.unlink()
    else:
        text.write_text(before[7:] + before[:7] if change == "rotated" else before + "the end\n")
    words = {"rotated": "and other content", "appended": "has 1,768 bytes and had 1,760", "removed": "No such file"}[change]
    for arguments in (("resume", run, "--updates", 5), ("evaluate", run)):
        sentence = refusal(capsys, run, *arguments)
        assert str(text) in sentence
        assert words in sentence
    if change == "removed":
        assert "text.txt" in refusal(capsys, run, "resume", run, "--updates", 5, "--accept-changed-data")
        return
    assert command(capsys, "sample", run, "--length", 2)[0] == 0  # which reads no data
    assert command(capsys, "evaluate", run, "--data", text)[0] == 0  # other data on purpose
    assert command(capsys, "evaluate", run, "--accept-changed-data")[0] == 0
    code, _, err = command(capsys, "resume", run, "--updates", 5, "--accept-changed-data")
    assert code == 0
    assert "the data have changed" in err
    records = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    noted = [record for record in records if record["kind"] == "data"]
    assert [record["update"] for record in noted] == [3]
    assert words in noted[0]["changed"][0]
    assert command(capsys, "resume", run, "--updates", 6)[0] == 0  # the new data are the run's from now on
    text.write_text(before)
    assert "are not those that it began with" in refusal(capsys, run, "resume", run, "--updates", 7)


def test_evaluation_reads_and_compares_its_own_part_only(tmp_path):
    for name in ("train", "test"):
        write_text(tmp_path / f"{name}.txt", 40)
    task = hrnn.tasks.Text(data=(tmp_path / "train.txt",), test=tmp_path / "test.txt").resolved()
    recorded = {str(path): {"size": 1, "sha256": ""} for path in (tmp_path / "train.txt", tmp_path / "test.txt")}
    (changed,) = compare_data(recorded, task, ["test"]).changed
    assert "test.txt has 1,760 bytes and had 1" in changed
    assert len(compare_data(recorded, task).changed) == 2


def test_data_may_move_where_their_content_stays(capsys, run):
    new = run.parent / "elsewhere.txt"
    (run.parent / "text.txt").rename(new)
    edit(run, lambda entries: moved(entries, run.parent, run.parent) | {"task": {**entries["task"], "data": [str(new)]}})
    assert command(capsys, "evaluate", run)[0] == 0
    code, _, err = command(capsys, "resume", run, "--updates", 4)
    assert code == 0
    assert f"is now {new}, with the same content" in err
    assert list(folders.read_run(run).identity.data) == [str(new)]
    new.write_text(new.read_text().replace("quick", "quiet"))
    assert "elsewhere.txt has the same size and other content" in refusal(capsys, run, "resume", run, "--updates", 5)


@pytest.mark.parametrize(
    ("section", "option", "value", "words"),
    [
        ("upkeep", "seed", 5, "upkeep.seed is 5 and was 0"),
        ("budget", "updates", 50, "budget.updates is 50 and was 3"),
        ("model", "betas", [0.9], "model.betas is [0.9] and was [1.0]"),
        ("task", "reach", 3, "task.reach is 3 and was 20"),
    ],
)
def test_an_edited_configuration_is_refused_in_every_option(capsys, run, section, option, value, words):
    edit(run, lambda entries: {**entries, section: {**entries[section], option: value}})
    for name in ("resume", "evaluate", "sample"):
        assert words in refusal(capsys, run, name, run)
    with pytest.raises(UserError, match=r"was edited"):
        hrnn.load(run)
    shutil.rmtree(run / "checkpoints")
    assert "no checkpoint tells what it was" in refusal(capsys, run, "resume", run)


def test_white_space_and_order_are_no_edit(capsys, run):
    edit(run, lambda entries: dict(reversed(entries.items())))
    assert command(capsys, "resume", run, "--updates", 4)[0] == 0


@pytest.mark.parametrize("what", ["configuration", "checkpoint"])
def test_files_of_another_run_are_refused(capsys, runs, run, what):
    if what == "configuration":
        shutil.copy(runs / "run1" / "config.json", run / "config.json")
    else:
        shutil.copy(runs / "run1" / "checkpoints" / "update-000000003.safetensors", run / "checkpoints")
    for arguments in (("resume", run, "--updates", 4), ("evaluate", run), ("sample", run)):
        sentence = refusal(capsys, run, *arguments)
        assert "update-000000003.safetensors is of another run" in sentence
        assert "upkeep.seed is" in sentence


def test_a_checkpoint_under_another_name_is_refused(capsys, run):
    checkpoints = CheckpointFolder(run / "checkpoints", 3)
    checkpoints.path(2).rename(checkpoints.path(4))
    assert "holds the checkpoint of update 2" in refusal(capsys, run, "resume", run, "--updates", 9)


def test_a_dtype_or_a_shape_that_was_edited_is_damage(tmp_path):
    write(tmp_path / "c", Checkpoint({"w": torch.ones(4, 2)}, {}))
    for old, new in ((b'"F32"', b'"I32"'), (b"[4,2]", b"[2,4]")):
        text = (tmp_path / "c").read_bytes()
        assert old in text
        (tmp_path / "d").write_bytes(text.replace(old, new))
        with pytest.raises(DamagedError, match="checksum"):
            read(tmp_path / "d")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("position", {"updates": 3, "batches": "many"}, "does not fit its run"),
        ("position", {"updates": 3, "surprise": 1}, "does not fit its run"),
        ("optimizers", [], "does not fit its run"),
        ("optimizers", [{"groups": 5, "numbers": {}}], "does not fit its run"),
        ("course", 5, "no checkpoint of"),
        ("journal", {"journal.jsonl": -1}, "no checkpoint of"),
        ("pins", ["x"], "no checkpoint of"),
    ],
)
def test_facts_are_checked_before_they_are_used(capsys, run, name, value, words):
    only_newest(run)
    path = run / "checkpoints" / "update-000000003.safetensors"
    found = read(path)
    write(path, Checkpoint(found.tensors, {**found.facts, name: value}))
    assert words in refusal(capsys, run, "resume", run, "--updates", 4)


@pytest.mark.parametrize("name", ["network.head.bias", "state.cells.0.0", "generator.indices", "optimizer0.0.exp_avg"])
@pytest.mark.parametrize("change", ["gone", "shape"])
def test_tensors_are_checked_before_they_are_used(capsys, run, name, change):
    only_newest(run)
    path = run / "checkpoints" / "update-000000003.safetensors"
    found = read(path)
    tensors = {key: value for key, value in found.tensors.items() if key != name}
    assert len(tensors) < len(found.tensors)
    write(path, Checkpoint(tensors if change == "gone" else {**tensors, name: torch.zeros(3)}, found.facts))
    assert "does not fit its run" in refusal(capsys, run, "resume", run, "--updates", 4)


def only_newest(run):
    for path in sorted((run / "checkpoints").glob("*.safetensors"))[:-1]:
        path.unlink()


def test_a_missing_or_short_journal_is_begun_again_with_a_warning(capsys, run):
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (run / "journal.jsonl").write_bytes(lines[0] + lines[1][:10])
    code, _, err = command(capsys, "resume", run, "--updates", 4)
    assert code == 0
    assert f"journal.jsonl has {len(lines[0]) + 10} bytes" in err
    records = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    assert [record["update"] for record in records if record["kind"] == "engine"] == [0, 3, 3]
    assert [record["update"] for record in records if record["kind"] == "update"] == [4]
    (run / "journal.jsonl").unlink()
    code, _, err = command(capsys, "resume", run, "--updates", 5)
    assert code == 0
    assert "journal.jsonl is gone" in err


def test_an_older_damaged_checkpoint_does_not_matter(capsys, run):
    (run / "checkpoints" / "update-000000002.safetensors").write_bytes(b"damaged")
    assert command(capsys, "resume", run, "--updates", 5)[0] == 0
    assert CheckpointFolder(run / "checkpoints", 3).updates() == [3, 4, 5]
    assert (run / "checkpoints" / "update-000000002.damaged").exists()


def test_what_a_kill_left_half_written_is_removed_at_the_next_start(capsys, run):
    partial = run / "checkpoints" / ".update-000000004.safetensors.partial"
    partial.write_bytes(b"half")
    assert command(capsys, "evaluate", run)[0] == 0
    assert partial.exists()  # only for whoever holds the lock
    assert command(capsys, "resume", run, "--updates", 4)[0] == 0
    assert not partial.exists()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_folder_that_is_removed_or_replaced_while_it_is_trained(runs, run, monkeypatch, replaced):
    from hrnn.training import loop

    save = loop.save

    def spoiled(trained):
        shutil.rmtree(run)
        if replaced:
            shutil.copytree(runs / "run1", run)
        save(trained)

    monkeypatch.setattr(loop, "save", spoiled)
    with pytest.raises(LostError, match="now holds another run" if replaced else "was removed"):
        train(run, budget=hrnn.training.config.Budget(updates=4))
    assert run.exists() is replaced


def test_a_budget_that_is_refused_changes_nothing(capsys, run):
    assert "--epochs" in refusal(capsys, run, "resume", run, "--epochs", "inf")
    assert "--updates" in refusal(capsys, run, "resume", run, "--updates", 0)


def test_overwriting_spares_the_old_run_until_the_new_one_is_written(capsys, run, monkeypatch):
    text = run.parent / "text.txt"
    again = ("train", "text", *TINY, *OPTIONS, "--data", text, "--updates", 1, "--run", run, "--overwrite")

    def full(path, content):
        raise UserError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(folders, "write_atomically", full)
        assert "the disk is full" in refusal(capsys, run, *again)
    text.unlink()
    assert "text.txt" in refusal(capsys, run, *again)


def test_a_new_run_on_a_full_disk_leaves_no_folder(tmp_path, monkeypatch):
    def full(path, content):
        raise UserError("the disk is full")

    monkeypatch.setattr(folders, "write_atomically", full)
    config = hrnn.training.config.resolved(
        hrnn.training.config.Config(hrnn.tasks.Copy(length=2), budget=hrnn.training.config.Budget(updates=1))
    )
    with pytest.raises(UserError, match="full"):
        folders.create(tmp_path / "run", config, overwrite=False)
    assert not (tmp_path / "run").exists()


def test_a_run_is_loaded_in_python_and_nothing_else_changes(runs):
    torch.set_num_threads(2)
    try:
        trained = hrnn.load(str(runs / "run0"), checkpoint="last")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert (trained.update, trained.config.upkeep.seed) == (3, 0)
    stored = read(runs / "run0" / "checkpoints" / "update-000000003.safetensors").section("average")
    assert all(torch.equal(value, stored[name]) for name, value in trained.network.state_dict().items())
    output, _ = trained.network.levels(torch.zeros(4, 1, dtype=torch.int64), boundaries=torch.zeros(4, 1, dtype=torch.bool))
    assert trained.network.head(output).shape == (4, 1, trained.config.task.outputs)
    assert hrnn.load(runs / "run0", 2).update == 2


def test_a_users_task_names_its_files_by_its_options(tmp_path):
    from dataclasses import dataclass
    from pathlib import Path

    @dataclass(frozen=True)
    class Mine(hrnn.tasks.Needle):
        folder: Path = tmp_path / "folder"
        several: tuple[Path, ...] = (tmp_path / "a", tmp_path / "missing")

    (tmp_path / "folder" / "inner").mkdir(parents=True)
    for name in ("a", "folder/z", "folder/b", "folder/.hidden", "folder/inner/c"):
        (tmp_path / name).write_text(name)
    assert Mine().files("training") == (tmp_path / "a", tmp_path / "folder" / "b", tmp_path / "folder" / "z")


def test_a_sealed_configuration_has_the_checksum_of_its_content():
    entries = sealed({"id": "a", "task": {"b": [1.5, None]}})
    assert checksum(json.loads(json.dumps(entries))) == entries["checksum"]
    assert checksum({**entries, "id": "c"}) != entries["checksum"]

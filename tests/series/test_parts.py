"""What is held out of training, where the data say what is for a test, and where there is little to hold out."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hrnn.tasks import Series
from hrnn.training.trained import load
from tests.commands.console import complaint, hrnn
from tests.data.made import write_table
from tests.series.made import TINY, train, write


def archive(folder: Path, classes: int = 5, each: int = 2, tests: int = 9) -> tuple[str, str]:
    """Files of .ts as archives have them: a few rows of each class for training, and a given test part."""
    random = np.random.default_rng(0)
    paths = []
    for part, count in (("TRAIN", each), ("TEST", tests)):
        rows = (
            ",".join(f"{value:.3f}" for value in np.sin(np.arange(12) * (1 + label)) + random.normal(0, 0.1, 12)) + f":c{label}"
            for label in range(classes)
            for _ in range(count)
        )
        paths.append(folder / f"waves_{part}.ts")
        paths[-1].write_text("@classLabel true\n@data\n" + "\n".join(rows) + "\n")
    return str(paths[0]), str(paths[1])


def parts_of(run):
    return {part: len(spans) for part, spans in load(run).config.task.opened.parts.items()}


def test_two_sequences_of_a_class_are_enough(tmp_path, capsys):
    paths = archive(tmp_path)
    run = train(capsys, tmp_path / "runs" / "r", [*paths, "--batch", "4"], 1)
    assert parts_of(run) == {"training": 9, "validation": 1, "test": 45}
    many = train(capsys, tmp_path / "runs" / "many", [*paths, "--batch", "4", "--held-out", "0.2"], 1)
    task = load(many).config.task
    assert parts_of(many) == {"training": 8, "validation": 2, "test": 45}
    targets = task.opened.sequences.fact("target")
    assert set(targets[task.opened.parts["training"].numbers]) == set(range(5))


NOTHING = [
    (("--validation", "none"), {"training": 10, "test": 45}),
    (("--held-out", "0"), {"training": 10, "test": 45}),
    (("--validation", "none", "--test", "none"), {"training": 10}),
]


@pytest.mark.parametrize(("words", "parts"), NOTHING)
def test_nothing_is_validated_on_if_there_is_to_be_nothing(tmp_path, capsys, words, parts):
    train_file, test_file = archive(tmp_path)
    data = [train_file, *([] if "--test" in words else [test_file])]
    run = train(capsys, tmp_path / "runs" / "r", [*data, "--batch", "4", *words], 2)
    assert parts_of(run) == parts
    result = json.loads((run / "result.json").read_text())
    assert ("test" in result) == ("test" in parts)
    assert "validation" not in result
    assert hrnn(capsys, "resume", run, "--updates", 3)[0] == 0
    assert hrnn(capsys, "predict", run, train_file, "-o", tmp_path / "out.csv")[0] == 0
    assert hrnn(capsys, "evaluate", run, "--data", test_file)[0] == 0


@pytest.mark.parametrize("kind", ["class", "series", "cropped", "bases"])
def test_data_that_are_split_have_no_validation_either(tmp_path, capsys, kind):
    arguments = write(tmp_path)[kind]
    run = train(capsys, tmp_path / "runs" / "r", [*arguments, "--validation", "none"], 1)
    assert set(parts_of(run)) == {"training", "test"}
    run = train(capsys, tmp_path / "runs" / "all", [*arguments, "--held-out", "0"], 1)
    assert set(parts_of(run)) == {"training"}


def test_one_sequence_of_a_class_can_only_be_learned_from(tmp_path, capsys):
    paths = archive(tmp_path, each=1)
    said = complaint(capsys, "train", "series", *paths, *TINY, "--updates", 1, "--run", tmp_path / "r")
    assert "no sequence can be spared for validation" in said
    assert "--validation none" in said
    run = train(capsys, tmp_path / "runs" / "r", [*paths, "--batch", "4", "--validation", "none"], 1)
    assert parts_of(run) == {"training": 5, "test": 45}


@pytest.mark.parametrize("by", ["random", "class"])
def test_a_given_test_part_stays_however_validation_is_split_off(tmp_path, capsys, by):
    paths = archive(tmp_path, each=10)
    run = train(capsys, tmp_path / "runs" / "r", [*paths, "--batch", "4", "--split-by", by], 1)
    assert parts_of(run) == {"training": 45, "validation": 5, "test": 45}
    opened = load(run).config.task.opened
    assert all("TEST" in opened.sequences.id(int(number)) for number in opened.parts["test"].numbers)


def panel(people: int = 8, each: int = 4):
    """Sequences of persons, of which the last two are for a test."""
    of = np.repeat(np.arange(people * each), 6)
    person = of // each
    part = np.where(person < people - 2, "train", "test")
    columns = {"id": of, "time": np.tile(np.arange(6), people * each), "x": np.sin(np.arange(len(of))), "who": person}
    return pa.table({**columns, "split": part, "label": np.array(["a", "b"])[of % 2]})


@pytest.mark.parametrize("words", [(), ("--split-by", "group")])
def test_groups_stay_together_beside_a_given_test_part(tmp_path, capsys, words):
    path = write_table(panel(), tmp_path / "t.csv")
    run = train(capsys, tmp_path / "runs" / "r", [str(path), "--batch", "4", "--group", "who", *words], 1)
    opened = load(run).config.task.opened
    groups = opened.sequences.fact("group")
    people = {part: set(groups[spans.numbers].astype(int)) for part, spans in opened.parts.items()}
    assert people["test"] == {6, 7}
    assert len(people["validation"]) == 1
    assert not people["validation"] & people["training"]


def test_one_series_with_another_for_the_test_is_validated_on_its_end(tmp_path, capsys):
    for name in ("learned", "tested"):
        (tmp_path / f"{name}.csv").write_text("x\n" + "".join(f"{np.sin(step / 3):.3f}\n" for step in range(100)))
    words = [str(tmp_path / "learned.csv"), "--test", str(tmp_path / "tested.csv"), "--batch", "2", "--window", "6"]
    run = train(capsys, tmp_path / "runs" / "r", words, 1)
    spans = load(run).config.task.opened.parts
    assert {part: (one.starts.tolist(), one.stops.tolist()) for part, one in spans.items()} == {
        "training": ([0], [90]),
        "validation": ([90], [100]),
        "test": ([0], [100]),
    }
    by_time = train(capsys, tmp_path / "runs" / "by_time", [*words, "--split-by", "time"], 1)
    assert load(by_time).config.task.opened.parts["validation"].starts.tolist() == [90]


@pytest.mark.parametrize("by", ["random", "class", "time"])
def test_where_all_parts_are_given_there_is_nothing_to_split(tmp_path, capsys, by):
    learned, others = archive(tmp_path)
    words = ("train", "series", learned, "--validation", others, *TINY, "--updates", 1, "--run", tmp_path / "r")
    said = complaint(capsys, *words, "--split-by", by)
    assert f"by is '{by}' (--split-by), and the data say what is for validation; drop one of the two" in said


def test_what_says_of_parts_in_two_ways_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where a task without a run has its cache
    path = write_table(panel(), tmp_path / "t.csv")
    words = ("train", "series", path, *TINY, "--updates", 1, "--run", tmp_path / "r", "--validation", "none")
    assert "none" in complaint(capsys, *words, path)
    said = complaint(capsys, *words, "--stop-after", 3)
    assert "--stop-after" in said
    assert Series(data=(path,), validation=(Path("none"),), cache=tmp_path / "cache").parts() == ("test",)

"""The command that trains a run again says what the run was, whoever prints it."""

import dataclasses
import shlex

import pytest

from hrnn.commands.options import parse
from hrnn.commands.task import with_names
from hrnn.commands.train import Train
from hrnn.tasks import TASKS, task_named
from hrnn.training.command import EMPTY, HIDDEN, OPEN, VALUED, command_of
from hrnn.training.config import PARTS, resolved, to_json
from tests.report.pages import config
from tests.runs import SMALL, tasks
from tests.tiny import write_walks

SERIES = [
    "series",
    "DATA",
    "--id",
    "walk",
    "--target",
    "gait",
    "--values",
    "x",
    "y",
    "--epochs",
    "2",
    "--crop",
    "8",
    "--intervals",
    "True",
]


def commands(folder):
    """Arguments of hrnn train, one kind of task each; the data are written into the folder."""
    data = write_walks(folder / "my walks.csv")
    without = ["text", "--data", str(folder / "text.txt"), "--boundaries", "--periods", "4", "--updates", "3"]
    return {**tasks(folder), "no boundaries": without, "series": [str(data) if word == "DATA" else word for word in SERIES]}


def parsed(task, words):
    kind = task_named(task)
    return parse(Train[kind], f"train {task}", with_names(kind, words)).config


@pytest.mark.parametrize("name", ["copy", "pixels", "text", "unlocked", "needle", "no boundaries", "series"])
def test_the_command_trains_the_same_again(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task, *words = commands(tmp_path)[name]
    began = resolved(parsed(task, [*words, *SMALL, "--no-tensorboard"]))
    command = shlex.split(command_of(to_json(began)))
    assert command[:3] == ["hrnn", "train", task]
    again = resolved(parsed(task, command[3:]))
    assert to_json(again) == to_json(began)


def test_data_stand_where_one_would_type_them(tmp_path):
    task, *words = commands(tmp_path)["series"]
    command = command_of(to_json(parsed(task, words)))
    assert command.startswith(
        f"hrnn train series '{tmp_path}/my walks.csv' --id walk --values x y --target gait --held-out 0.1"
    )
    assert "None" not in command.partition("--model")[0]  # nothing was chosen there


def test_what_is_known_without_torch_is_what_the_tasks_say():
    found = {name: [one.name for one in dataclasses.fields(task) if one.metadata.get("hidden")] for name, task in TASKS.items()}
    assert {name: tuple(several) for name, several in found.items() if several} == HIDDEN


def test_what_is_left_out_is_so_by_default():
    """None and some empty lists of a task of ours, and what is open elsewhere."""
    for task in TASKS.values():
        for field in dataclasses.fields(task):
            if "None" in str(field.type):
                assert field.default is None, field.name
            if "bool" in str(field.type):
                assert (field.name in VALUED) == (field.default is None), field.name
            if field.name in EMPTY:
                assert field.default in ((), None), field.name
    defaults = {field.name: field.default for part in PARTS.values() for field in dataclasses.fields(part)}
    assert all(defaults[option] is None for option in OPEN)


def test_the_command_of_a_task_of_ones_own():
    entries = config(task="mine.tasks:Own")
    entries["task"] |= {"data": "a file; rm -rf", "depth": None}
    start = "hrnn train --task mine.tasks:Own --pool 2 --order --data 'a file; rm -rf' --depth None --model"
    assert command_of(entries).startswith(start)

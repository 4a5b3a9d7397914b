"""Whatever an option is given, in Python or in config.json: a sentence that names it."""

import dataclasses
import json
import math
import typing
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from hrnn.errors import UserError
from hrnn.limits import name_of
from hrnn.tasks import Copy, Needle, Pixels, Text
from hrnn.training.config import Budget, Config, Learning, Model, from_json, resolved, to_json
from tests.tiny import write_text

SECTIONS = ("task", "model", "learning", "budget", "upkeep")


TASKS = (Copy(), Needle(), Pixels(), Text(data=(Path("book.txt"),), vocabulary="ab"))


HUGE = (2**63, -(2**63), 2**70, 10**5000)


WRONG = {  # by kind of option, what a file or a Python program may hold
    int: (True, "5", 1.5, [1], {}, math.nan, *HUGE),
    float: (True, "5", [1.0], {}, math.nan, math.inf, -math.inf, *HUGE),
    bool: (1, "yes", None),
    str: (5, None, ["a"]),
    Path: (5, "a\0b", "x" * 300, "y/" * 3000),
}


def options():
    """Every option of every section: its section, its field and hostile values of it."""
    for task in TASKS:
        for section in SECTIONS if task is TASKS[0] else ("task",):
            owner = getattr(Config(task), section)
            for field in dataclasses.fields(owner):
                yield task, section, field.name, list(hostile(typing.get_type_hints(type(owner))[field.name]))


def hostile(hint):
    arguments = [one for one in typing.get_args(hint) if one is not type(None)]
    if typing.get_origin(hint) is Literal:
        yield from ("xxx", 5, None, ["a"])
    elif typing.get_origin(hint) is tuple:
        yield from (5, "ab", {}, *([value] for value in hostile(arguments[0])))
    elif arguments:  # or None
        yield from (value for value in hostile(arguments[0]) if value is not None)
    else:
        yield from WRONG[hint]


def with_option(config, section, field, value):
    return replace(config, **{section: replace(getattr(config, section), **{field: value})})


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_every_option_refuses_every_wrong_type_in_python_and_in_a_file(task):
    periods = () if isinstance(task, Text) else (3,)
    base = Config(task, Model(hidden_sizes=(4, 4), periods=periods, window=5, betas=(0.1,), segments=(1,)))
    base = replace(base, budget=Budget(updates=1), learning=Learning(100, "batch", learning_rate=1e-3, schedule="constant"))
    entries = to_json(base)
    assert from_json(entries) == base
    tried = 0
    for of, section, field, values in options():
        for value in values if of is task else ():
            with pytest.raises(UserError) as refused:
                resolved(with_option(base, section, field, value))
            assert name_of(field) in str(refused.value), (field, refused.value)
            with pytest.raises(UserError) as refused:
                from_json({**entries, section: {**entries[section], field: value}})
            assert name_of(field) in str(refused.value)
            assert len(str(refused.value)) < 600
            tried += 1
    assert tried > 15


@pytest.mark.parametrize(
    ("section", "field", "values"),
    [
        ("learning", "warmup", (-5,)),
        ("learning", "weight_decay", (-1.0,)),
        ("learning", "momentum", (-1.0, 1.0)),
        ("learning", "clip", (0, -1.0)),
        ("learning", "average", (0, 0.5, -1.0)),
        ("learning", "learning_rate", (0, -1e-3)),
        ("learning", "batch", (0, -5)),
        ("model", "hidden_sizes", ((0, 8), (8,) * 65)),
        ("model", "betas", ((-0.1,),)),
        ("model", "decoder_layers", (0, 100_000)),
        ("model", "window", (0, -5)),
        ("model", "cell", ("lstn", "")),
        ("model", "reader", (("linaer",), ("maximum",))),
        ("model", "burn_in", (-1, 3)),
        ("model", "segments", ((0,), (1001,), (2,))),
        ("budget", "epochs", (0, -1.0)),
        ("upkeep", "threads", (0, 100_000)),
        ("upkeep", "checkpoint_seconds", (-1.0,)),
        ("upkeep", "checkpoints", (0,)),
        ("upkeep", "frozen_every", (-1,)),
        ("task", "solved", (0, -1.0)),
        ("task", "length", (0,)),
        ("task", "step", (0,)),
    ],
)
def test_ranges(section, field, values):
    base = resolved(Config(Copy(), budget=Budget(updates=1)))
    for value in values:
        with pytest.raises(UserError, match=name_of(field)):
            resolved(with_option(base, section, field, value))
        entries = to_json(with_option(base, section, field, value))
        with pytest.raises(UserError, match=f"does not describe a run.*{name_of(field)}"):
            from_json(json.loads(json.dumps(entries)))


def test_a_file_that_is_no_configuration():
    entries = to_json(resolved(Config(Copy(), budget=Budget(updates=1))))
    damaged = [5, None, [], {}, {**entries, "task": 5}, {**entries, "task": {"name": 5}}, {**entries, "model": [1]}]
    damaged += [{**entries, "upkeep": {**entries["upkeep"], "sed": 1}}, {**entries, "more": {}}]
    damaged += [{**entries, "model": {**entries["model"], name: None}} for name in ("window", "betas")]
    damaged += [{**entries, "learning": {**entries["learning"], name: None}} for name in ("update", "update_every")]
    for one in damaged:
        with pytest.raises(UserError):
            from_json(one)


def test_lists_and_texts_do_where_tuples_and_paths_are_meant(tmp_path):
    text = write_text(tmp_path / "a.txt")
    task = Text(data=[str(text)], boundaries=["word"])
    config = resolved(Config(task, Model(hidden_sizes=[4, 4]), Learning(learning_rate=1)))
    assert config.task.data == (text,)
    assert config.hidden_sizes == (4, 4)

"""Tasks: data in, batches and metrics out. Each is a frozen dataclass of options that offers what contract.py says."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys

from hrnn.errors import UserError
from hrnn.metrics import Metric
from hrnn.tasks.contract import ACCURACY, Course, Decision, Judge, Task, cross_entropy
from hrnn.tasks.copy import Copy
from hrnn.tasks.needle import Needle
from hrnn.tasks.pixels import Pixels
from hrnn.tasks.series import Series
from hrnn.tasks.text import Text
from hrnn.tasks.windows import Batch, Reading, Window, cut

TASKS: dict[str, type[Task]] = {"copy": Copy, "pixels": Pixels, "text": Text, "needle": Needle, "series": Series}

__all__ = [
    "ACCURACY",
    "TASKS",
    "Batch",
    "Copy",
    "Course",
    "Decision",
    "Judge",
    "Metric",
    "Needle",
    "Pixels",
    "Reading",
    "Series",
    "Task",
    "Text",
    "UserError",
    "Window",
    "cross_entropy",
    "cut",
    "load_object",
    "name_of",
    "task_named",
]


def load_object(name: str, option: str) -> object:
    """What "module:Name" names; modules in the current folder are found too."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise UserError(f"{option} {name!r} should read module:Name, as in mymodule:MyTask")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except Exception as error:  # whatever a user's module raises while it is imported
        raise UserError(f"{option} {name} cannot be loaded: {type(error).__name__}: {error}") from None


def task_named(name: str) -> type[Task]:
    """A built-in task by its name, or a user's as "module:Name"."""
    if name in TASKS:
        return TASKS[name]
    if ":" not in name:
        raise UserError(f"no task is called {name!r}; there are {', '.join(TASKS)}, and your own as --task module:Name")
    kind = load_object(name, "--task")
    if not (isinstance(kind, type) and issubclass(kind, Task)):
        raise UserError(f"--task {name} is not a subclass of hrnn.tasks.Task; docs/own_task.md shows one")
    if not dataclasses.is_dataclass(kind):
        raise UserError(f"--task {name} is not a dataclass; write @dataclass(frozen=True) above the class")
    if hasattr(kind, "metric"):  # as tasks for 0.1 have it; judged by something else they would go on unnoticed
        raise UserError(f"--task {name} says metric; write metrics, a tuple of hrnn.tasks.Metric with the score first")
    if missing := sorted(kind.__abstractmethods__):
        raise UserError(f"--task {name} does not say {', '.join(missing)}; docs/own_task.md shows how")
    return kind


def name_of(task: Task) -> str:
    """The name under which `task_named` finds the class of this task."""
    for name, kind in TASKS.items():
        if type(task) is kind:
            return name
    return f"{type(task).__module__}:{type(task).__qualname__}"

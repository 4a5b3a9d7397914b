"""The paper's literal setting, for what a user does not give. It is an option of `hrnn train`; a run keeps its consequences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from hrnn.training.config import Config, Learning, Model, sizes_for

Part = TypeVar("Part")

BETA = 0.1
MODEL = Model(indices="sampled", normalized=False)
LEARNING = Learning(update="batch", clip=None, average=None)
BUDGETS = ("updates", "sequences", "epochs")


def as_published(config: Config[Any]) -> Config[Any]:
    """With what the paper has for the task where nothing is given, and its beta, if the model has local losses."""
    published: dict[str, Any] = {"betas": (BETA,), **config.task.published}
    if "hidden_sizes" in published:
        published["hidden_sizes"] = sizes_for(config, published["hidden_sizes"])
    local = config.model.has_local_losses and set(config.model.reads) != {"inputs"}
    others = set() if local else {"betas"}
    if config.flat:
        others |= {"hidden_sizes", "periods"}
    if any(getattr(config.budget, name) is not None for name in BUDGETS):
        others |= set(BUDGETS)
    published = {name: value for name, value in published.items() if name not in others}
    return replace(
        config,
        task=_completed(config.task, published),
        model=_completed(config.model, published),
        learning=_completed(config.learning, published),
        budget=_completed(config.budget, published),
    )


def _completed(part: Part, values: Mapping[str, Any]) -> Part:
    """With these values where it is open."""
    open_ones = [one.name for one in fields(part) if getattr(part, one.name) is None]  # type: ignore[arg-type]  # a dataclass
    return replace(part, **{name: values[name] for name in open_ones if name in values})  # type: ignore[type-var]

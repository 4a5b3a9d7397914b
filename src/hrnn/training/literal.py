"""The paper's literal setting, for what a user does not give. It is an option of `hrnn train`; a run keeps its consequences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hrnn.training.config import Config, Learning, Model

BETA = 0.1
MODEL = Model(indices="sampled", normalized=False)
LEARNING = Learning(update="batch", clip=None, average=None)


def with_beta(config: Config[Any]) -> Config[Any]:
    """With the paper's beta where none is given, if the model has local losses."""
    if config.model.betas is not None or not config.model.has_local_losses:
        return config
    return replace(config, model=replace(config.model, betas=(BETA,)))

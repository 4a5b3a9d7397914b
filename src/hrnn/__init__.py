"""Hierarchical recurrent networks on very long sequences, in a fraction of the memory of backpropagation through time.

    model = hrnn.HRNN(hrnn.Tokens(3), hidden_sizes=[256, 256], periods=[10])
    result = hrnn.Restricted().backward(model, x, y, loss=loss)

Importing this package is cheap: torch is imported when one of its names is first used.
"""

from __future__ import annotations

__version__ = "0.3.0.dev0"

TYPE_CHECKING = False  # type checkers take it for true; typing itself is imported late, for a quick start
if TYPE_CHECKING:
    from typing import Any

    from hrnn.estimators import Forecaster as Forecaster
    from hrnn.estimators import SequenceClassifier as SequenceClassifier
    from hrnn.estimators import SequenceRegressor as SequenceRegressor
    from hrnn.gradients import Checkpointed, Chunk, Full, Gradient, Restricted, Result, Synthetic, Truncated, Updates
    from hrnn.hierarchy import HRNN, Tokens
    from hrnn.native.engine import engine
    from hrnn.segments import Given
    from hrnn.state import State
    from hrnn.training.trained import load

_ESTIMATORS = ("Forecaster", "SequenceClassifier", "SequenceRegressor")  # not in __all__: they need hrnn[data]
_HOMES = {
    "HRNN": "hrnn.hierarchy",
    "Tokens": "hrnn.hierarchy",
    "Given": "hrnn.segments",
    "State": "hrnn.state",
    "Checkpointed": "hrnn.gradients",
    "Full": "hrnn.gradients",
    "Gradient": "hrnn.gradients",
    "Restricted": "hrnn.gradients",
    "Result": "hrnn.gradients",
    "Truncated": "hrnn.gradients",
    "Chunk": "hrnn.gradients",
    "Synthetic": "hrnn.gradients",
    "Updates": "hrnn.gradients",
    "engine": "hrnn.native.engine",
    "load": "hrnn.training.trained",
    **dict.fromkeys(_ESTIMATORS, "hrnn.estimators"),
}
_MODULES = ("cells", "parallel", "gradients", "memory", "data", "estimators", "export", "hub", "loading", "trackers")

__all__ = [
    "HRNN",
    "Checkpointed",
    "Chunk",
    "Full",
    "Given",
    "Gradient",
    "Restricted",
    "Result",
    "State",
    "Synthetic",
    "Tokens",
    "Truncated",
    "Updates",
    "engine",
    "load",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"hrnn.{name}")
    raise AttributeError(f"module 'hrnn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ESTIMATORS, *_MODULES, "__version__"])

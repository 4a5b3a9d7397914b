"""`Synthetic`: restricted gradients, and where they are cut, gradients that a small network predicts."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from hrnn.arguments import shown, whole
from hrnn.gradients.base import Gradient
from hrnn.gradients.objective import Objective
from hrnn.gradients.predictions import Predictions
from hrnn.gradients.restricted import in_batches
from hrnn.gradients.updates import Mover, Updates
from hrnn.gradients.window import Window
from hrnn.hierarchy import HRNN
from hrnn.state import State


class Synthetic(Gradient, nn.Module):
    """Decoupled neural interfaces on the upward edges (Jaderberg et al., arXiv 1608.05343), in the memory of `Restricted`.

    When a segment ends, a small network predicts the gradient of its summary from the summary, and the segment is
    differentiated with that. When the level above runs backward it finds what the gradient is, within its own segment, and the
    network learns from it; what lies behind the end of that segment is a prediction again. Local losses stand beside it, unless
    `betas` are 0.

    The networks are parameters of this object. Their gradients are added to `.grad` like all others: give the optimizer both.

        method = hrnn.Synthetic(model)
        optimizer = torch.optim.Adam([*model.parameters(), *method.parameters()])

    They are saved and loaded with `state_dict` and `load_state_dict`, and begin with predicting zero, which is `Restricted`.

    units, layers: of each network; layers counts weight layers. round_steps: as in `Restricted`.
    """

    default_beta = 1.0

    def __init__(
        self,
        model: HRNN,
        units: int = 128,
        layers: int = 2,
        *,
        round_steps: int | None = None,
    ):
        super().__init__()
        if not isinstance(model, HRNN):
            raise TypeError(f"model is a {type(model).__name__}; give the hrnn.HRNN that is to be trained")
        units, layers = whole("units", units), whole("layers", layers)
        remedy = "at least 1, or None for the whole window"
        self.round_steps = None if round_steps is None else whole("round_steps", round_steps, remedy=remedy)
        self.sizes = _sizes(model)
        self.networks = nn.ModuleList(_network(size, units, layers) if size else nn.Identity() for size in self.sizes)
        self.to(device=model.device, dtype=model.dtype)

    def differentiate(self, window: Window, objective: Objective, updates: Updates | None) -> State:
        self._check(window.model)
        predictions = Predictions(window, objective, list(self.networks))
        mover = Mover(None, len(window.model.levels), window.local_weight, window.state.batch)
        return in_batches(window, objective, mover, self.round_steps, predictions)

    def _check(self, model: HRNN) -> None:
        if _sizes(model) != self.sizes:
            raise ValueError(
                f"model has summaries of {shown(_sizes(model))} numbers and Synthetic was made for {shown(self.sizes)}; make "
                f"hrnn.Synthetic(model) for this one"
            )
        own = next(self.parameters())
        if own.dtype is not model.dtype or own.device != model.device:
            raise ValueError(
                f"model is {model.dtype} on {model.device} and Synthetic {own.dtype} on {own.device}; move both alike"
            )


def _sizes(model: HRNN) -> list[int]:
    """Of the summaries, from the lowest level up; 0 where nobody reads one."""
    if model.periods and not model.edges.cuts:
        raise ValueError(
            "no level of the model reads a summary, so there is no gradient that Synthetic could predict; use hrnn.Restricted, "
            "whose gradients are true ones for such a model"
        )
    if not model.periods:
        raise ValueError(
            f"model has hidden_sizes={shown(model.hidden_sizes)}, one level, and no summaries whose gradients Synthetic could "
            f"predict; use hrnn.Full or hrnn.Restricted, or give the model levels, e.g. hidden_sizes=[256, 256], periods=[10]"
        )
    return [size * model.edges.sends(level) for level, size in enumerate(model.hidden_sizes[:-1])]


def _network(size: int, units: int, layers: int) -> nn.Sequential:
    sizes = [size, *[units] * (layers - 1), size]
    parts: list[nn.Module] = []
    for a, b in pairwise(sizes):
        parts += [nn.Linear(a, b), nn.ReLU()]
    last = parts[-2]
    assert isinstance(last, nn.Linear)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*parts[:-1])

"""A whole window of fixed length from a fresh state, unrolled, to be exported."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor, nn

from hrnn.arguments import whole
from hrnn.export.step import Step


class Window(nn.Module):
    """All steps of a window that starts with a sequence. With fixed periods it is known who ticks when, and only those are
    computed; where the data say it, every step is a `Step`."""

    def __init__(self, step: Step, steps: int):
        super().__init__()
        self.step, self.steps = step, whole("steps", steps)
        self.eval()

    def forward(
        self, x: Shaped[Tensor, "time batch ..."], boundaries: Bool[Tensor, "time batch ..."] | None = None
    ) -> tuple[Shaped[Tensor, "time batch ..."], Tensor]:
        """x (steps, batch) or (steps, batch, input_size) to the head's outputs (steps, batch, ...) and the state after, as a
        step takes it."""
        state = self.step.initial_state(1).expand(x.shape[1], -1)
        if self.step.given:
            outputs = []
            for t in range(self.steps):
                output, state = self.step(x[t], state, None if boundaries is None else boundaries[t])
                outputs.append(output)
            return torch.stack(outputs), state
        return self._in_phase(x, state)

    def _in_phase(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """All rows at the same place: plain numbers say who ticks."""
        step, (cells, _, raw) = self.step, self.step.split(state)
        periods = [period for period in step.periods if isinstance(period, int)]
        position, outputs = [0] * len(periods), []
        for t in range(self.steps):
            top = next((i for i, at in enumerate(position) if at), len(position))
            cells, raw = step.after(step.before(x[t]), cells, raw, [i <= top for i in range(len(cells))])
            for i in range(min(top + 1, len(periods))):
                position[i] = (position[i] + 1) % periods[i]
            outputs.append(step.read(cells))
        places = [torch.full_like(x[0].reshape(x.shape[1], -1)[:, :1], at, dtype=step.dtype) for at in position]
        return torch.stack(outputs), torch.cat([*(part for cell in cells for part in cell), *places, *raw.values()], 1)

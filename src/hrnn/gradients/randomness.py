"""Random numbers in steps that are run again: a user's cell with dropout must see the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class Streams:
    """Torch's random numbers as two streams: those of the cells, the same whenever a step is run, and those of everybody else,
    losses and decoders, who go on where the cells were when the window had been run for the first time."""

    def __init__(self, device: torch.device, steps: int):
        """steps: of the window."""
        self._device, self._steps, self._ended = device, steps, False
        self._others: tuple[Tensor, ...] = ()

    def now(self) -> tuple[Tensor, ...]:
        """Torch's random state."""
        states = [torch.get_rng_state()]
        if self._device.type != "cpu":
            states.append(torch.get_device_module(self._device).get_rng_state(self._device))
        return tuple(states)

    def _go_on(self, states: tuple[Tensor, ...]) -> None:
        torch.set_rng_state(states[0])
        if len(states) > 1:
            torch.get_device_module(self._device).set_rng_state(states[1], self._device)

    @contextmanager
    def cells(self, random: tuple[Tensor, ...], stop: int) -> Iterator[None]:
        """Cells draw from `random` on, up to a step. Afterwards everybody else goes on; or begins, if the window's end has been
        reached for the first time."""
        first_end = stop == self._steps and not self._ended
        self._ended = self._ended or first_end
        self._others = () if first_end else self.now()
        self._go_on(random)
        yield
        if not first_end:
            self._go_on(self._others)

    @contextmanager
    def others(self) -> Iterator[None]:
        """Within `cells`: somebody else draws."""
        if not self._others:  # the steps at the window's end are run once, and nothing has to be as it was
            yield
            return
        cells = self.now()
        self._go_on(self._others)
        yield
        self._others = self.now()
        self._go_on(cells)

"""One window, checked: what both gradient methods are given, and what they return."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hrnn import checks
from hrnn.arguments import number, shown
from hrnn.hierarchy import HRNN
from hrnn.state import State
from hrnn.tensors import swapped

Loss = Callable[[Tensor, Tensor], Tensor | tuple[Tensor, Mapping[str, Tensor]]]


@dataclass(frozen=True)
class Chunk:
    """A part of a window that comes in pieces; the arguments are those of `backward`, for these steps only."""

    x: Tensor
    y: Tensor | None = None
    mask: Tensor | None = None
    boundaries: Tensor | None = None
    lengths: Any = None  # (batch,) tensor or list
    reset: Tensor | None = None


@dataclass(frozen=True)
class Result:
    """What one window gave, detached from any graph.

    state:        to be passed to the next window
    loss:         0-d, the task's loss: `weight` times the sum over targets, by default their mean
    local_losses: (levels below the top,), `local_weight` times the sum over segments of loss times steps spanned, by default
                  the mean; nan where beta is 0, as it is not computed
    metrics:      what the loss function returned beside its values, summed over targets
    loss_sum:     0-d, the sum over targets, whatever `weight` is
    local_sums:   (levels below the top,), the sum over segments of loss times steps spanned, whatever `local_weight` is
    targets:      how many positions carried a target
    steps:        how many steps all rows had together, padding left out

    All sums are made in float32 at least, whatever the model's dtype.
    """

    state: State
    loss: Tensor
    local_losses: Tensor
    metrics: dict[str, Tensor]
    loss_sum: Tensor
    local_sums: Tensor
    targets: int
    steps: int


@dataclass(frozen=True)
class Differentiated:
    """Told to `on_segment`: a level's ticks up to `step` have been differentiated, `gradients()` so far gathered for it. They
    are the buffers themselves, in float32 at least: clone what you keep."""

    level: int
    step: int
    gradients: Callable[[], dict[Tensor, Tensor]]


class Window:
    """Arguments of `backward`, checked and in the order (time, batch); iterating gives its chunks."""

    def __init__(
        self,
        model: HRNN,
        x: Tensor | Iterable[Chunk],
        y: Tensor | None,
        *,
        loss: Loss,
        betas: Sequence[float] | None,
        state: State | None,
        mask: Tensor | None,
        boundaries: Tensor | None,
        lengths: Tensor | Sequence[int] | None,
        reset: Tensor | None,
        weight: float | None,
        local_weight: float | None,
        generator: torch.Generator | None,
    ):
        if not isinstance(model, HRNN):
            raise TypeError(f"model is a {type(model).__name__}; give an hrnn.HRNN")
        if not callable(loss):
            raise TypeError(f"loss is a {type(loss).__name__}; give a function of (output, target)")
        if torch.is_inference_mode_enabled() or any(p.is_inference() for p in model.parameters()):
            raise RuntimeError(
                "backward was called under torch.inference_mode(), or for a model that was made under it, and nothing can be "
                "differentiated there; leave that mode (torch.no_grad() does no harm), or make the model outside of it"
            )
        if generator is not None and (not isinstance(generator, torch.Generator) or generator.device.type != "cpu"):
            raise TypeError(f"generator is {shown(generator)}; give a torch.Generator of the CPU, or None for torch's own")
        weight = None if weight is None else number("weight", weight)
        local_weight = None if local_weight is None else number("local_weight", local_weight)
        self.model, self.betas = model, checks.betas(model, betas)
        self.streamed = not isinstance(x, Tensor)
        self.batch: int | None = None
        self._steps = 0  # of the chunks so far
        self.row_steps = 0  # of all rows, in the chunks that have been handed out
        self._start_over: Tensor | None = None  # rows that are reset before the first step
        self._opened = self.in_phase = False
        self._given_state = state
        if self.streamed:
            if type(x).__module__ == "numpy":
                checks.tensor("x", x)
            numbers = isinstance(x, list | tuple) and any(not isinstance(chunk, Chunk | tuple) for chunk in x[:1])
            if not isinstance(x, Iterable) or numbers or isinstance(x, str | bytes | bytearray | Mapping):
                raise TypeError(f"x is a {type(x).__name__}; give a tensor, or an iterable of hrnn.Chunk")
            extra = {"y": y, "mask": mask, "boundaries": boundaries, "lengths": lengths, "reset": reset}
            if named := [name for name, value in extra.items() if value is not None]:
                raise ValueError(f"{named[0]} was given beside an iterator; put it into each hrnn.Chunk instead")
            if weight is None or (local_weight is None and any(self.betas)):
                raise ValueError(
                    "weight and local_weight cannot be derived from an iterator; give weight=1/targets and "
                    "local_weight=1/(steps * batch) of the whole window"
                )
            self._chunks: Iterator[Chunk] = iter(x)
            first = next(self._chunks, None)
            if first is None:
                raise ValueError("x is an iterator without chunks; give at least one hrnn.Chunk")
            self._first = self._checked(first)
        else:
            assert isinstance(x, Tensor)
            if (weight is None) != (local_weight is None) and any(self.betas):
                given, missing = ("weight", "local_weight") if local_weight is None else ("local_weight", "weight")
                raise ValueError(
                    f"{given} was given without {missing}; give both, so that betas keep their meaning, or neither"
                )
            self._chunks = iter(())
            self._first = self._checked(Chunk(x, y, mask, boundaries, lengths, reset))
        rows = self._first.x.shape[1]
        self.state = model.initial_state(rows) if state is None else state
        checks.state(model, self.state, rows)
        self.state = self.state.detach()
        if self._start_over is not None:
            self.state = model.reset(self.state, self._start_over)
        self.weight = weight if weight is not None else 1.0 / max(1, _count(self._first))
        # One over the steps of all rows; not known of an iterator that has no local losses.
        self.local_weight: Any = local_weight
        if local_weight is None and not self.streamed:
            self.local_weight = 1.0 / max(1, _valid_steps(self._first))
        # Drawn whatever the betas are: the generator's course does not depend on them.
        self.seed = int(torch.randint(2**63 - 1, (), generator=generator))
        self.given_x = None if self.streamed else x if isinstance(x, Tensor) and x.requires_grad else None

    def __iter__(self) -> Iterator[Chunk]:
        for chunk in itertools.chain([self._first], map(self._checked, self._chunks)):
            self.row_steps += _valid_steps(chunk)
            yield chunk

    def _checked(self, chunk: Any) -> Chunk:
        """Time first, shapes as documented, mask without padded steps (None: a target everywhere)."""
        if isinstance(chunk, tuple) and 1 <= len(chunk) <= 6:
            chunk = Chunk(*chunk)
        if not isinstance(chunk, Chunk):
            raise TypeError(
                f"x is an iterator that gave a {type(chunk).__name__}; expected hrnn.Chunk, or a tuple (x, y); a window as a "
                f"whole is a tensor"
            )
        model = self.model
        x: Any = chunk.x
        y, mask, boundaries, reset = chunk.y, chunk.mask, chunk.boundaries, chunk.reset
        if model.batch_first:
            x, y, mask, boundaries, reset = (swapped(v) for v in (x, y, mask, boundaries, reset))
        x = checks.inputs(model, x)
        steps, batch = x.shape[:2]
        if self.batch not in (None, batch):
            raise ValueError(f"x is an iterator that changed the batch from {self.batch} to {batch} rows; keep it the same")
        self.batch = batch
        if self.streamed and x.requires_grad:
            raise ValueError("x requires grad and comes from an iterator; give the window as one tensor to get x.grad")
        if x.requires_grad and not chunk.x.is_leaf:
            raise ValueError(
                "x requires grad and is computed from other tensors, which would get no gradient; give "
                "leaf = x.detach().requires_grad_(), and go on with x.backward(leaf.grad)"
            )
        if mask is not None:
            if isinstance(mask, Tensor):
                checks.tensor("mask", mask)
            if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != (steps, batch):
                kind = f"{mask.dtype} of shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
                raise ValueError(f"mask is {kind}; expected bool of shape ({steps}, {batch}), true where there is a target")
            mask = mask.to(model.device)
        lengths = checks.lengths(chunk.lengths, steps, batch, model.device)
        checks.values(model, x, lengths, start=self._steps)
        self._steps += steps
        if lengths is not None:
            valid = torch.arange(steps, device=model.device)[:, None] < lengths
            mask = valid if mask is None else mask & valid
        if y is None and (mask is None or bool(mask.any())):
            raise ValueError("y is None; give targets (time, batch, ...), or a mask that is false everywhere")
        if isinstance(y, Tensor):
            checks.tensor("y", y)
        if y is not None and (not isinstance(y, Tensor) or y.shape[:2] != (steps, batch)):
            shape = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            raise ValueError(f"y is {shape}; its first dimensions must be those of x, ({steps}, {batch})")
        start = self._given_state is None and not self._opened
        at_start, later = checks.resets(model, reset, steps, batch, lengths, start)
        if self._opened:
            if self.in_phase and (lengths is not None or at_start is not None or later is not None):
                raise ValueError(
                    "a later chunk of the window has lengths or reset and the first has not; give the first chunk a reset "
                    "too, all false, so that rows may part"
                )
            if at_start is not None:
                later = torch.cat([at_start[None], (_nowhere(x) if later is None else later)[1:]])
        else:
            self._start_over = at_start
            self.in_phase = later is None and lengths is None and (not self.streamed or chunk.lengths is chunk.reset is None)
            self._opened = True
        return Chunk(x, y, mask, checks.boundaries(model, boundaries, steps, batch), lengths, later)


def _nowhere(x: Tensor) -> Tensor:
    """(time, batch) booleans, all false."""
    return torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)


def _count(chunk: Chunk) -> int:
    return chunk.x.shape[0] * chunk.x.shape[1] if chunk.mask is None else int(chunk.mask.sum())


def _valid_steps(chunk: Chunk) -> int:
    return chunk.x.shape[0] * chunk.x.shape[1] if chunk.lengths is None else int(chunk.lengths.sum())

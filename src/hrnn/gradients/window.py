"""One window, checked: what gradient methods are given, and what they return."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hrnn import checks
from hrnn.arguments import number, shown
from hrnn.gradients.gathered import Gathered
from hrnn.hierarchy import HRNN
from hrnn.segments import Given
from hrnn.state import State
from hrnn.tensors import swapped

Loss = Callable[[Tensor, Tensor], Tensor | tuple[Tensor, Mapping[str, Tensor]]]


@dataclass(frozen=True)
class Chunk:
    """A part of a window that comes in pieces; the arguments are those of `backward`, for these steps only."""

    x: Any  # a tensor
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
    engine:       what ran the window, "compiled" or "literal", and why not the former

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
    engine: str = ""


@dataclass(frozen=True)
class Differentiated:
    """Told to `on_segment`: a level's ticks up to `step` have been differentiated, `gradients()` so far gathered for it. They
    are the buffers themselves, in float32 at least: clone what you keep."""

    level: int
    step: int
    gradients: Callable[[], dict[Tensor, Tensor]]


class Window:
    """One window's arguments, checked and in the order (time, batch); iterating gives its chunks.

    given:      the window as a whole; or, its x being an iterable of chunks, nothing else
    in_phase:   does nothing in the first chunk let rows part? Then nothing in later ones may
    may_part:   may rows tick at different steps: by lengths, resets, given boundaries, or because they do already?
    weight, local_weight: what a target's loss, and a step's share of a local loss, is multiplied by; the latter is None for an
                iterator without local losses
    source:     what the user gave: the chunks, an iterator of them or a sequence
    given_x:    the tensor that `x.grad` is wanted of, as the user gave it
    """

    def __init__(
        self,
        model: HRNN,
        given: Chunk,
        *,
        loss: Loss,
        betas: Sequence[float] | None,
        state: State | None,
        weight: float | None,
        local_weight: float | None,
        generator: torch.Generator | None,
        on_segment: Callable[[Differentiated], None] | None,
        default_beta: float = 0.0,
    ):
        if not isinstance(model, HRNN):
            raise TypeError(f"model is a {type(model).__name__}; give an hrnn.HRNN")
        if not callable(loss):
            raise TypeError(f"loss is a {type(loss).__name__}; give a function of (output, target)")
        if on_segment is not None and not callable(on_segment):
            raise TypeError(f"on_segment is {shown(on_segment)}; give a function of hrnn.gradients' Differentiated, or None")
        if torch.is_inference_mode_enabled() or any(p.is_inference() for p in model.parameters()):
            raise RuntimeError(
                "backward was called under torch.inference_mode(), or for a model that was made under it, and nothing can be "
                "differentiated there; leave that mode (torch.no_grad() does no harm), or make the model outside of it"
            )
        if generator is not None and (not isinstance(generator, torch.Generator) or generator.device.type != "cpu"):
            raise TypeError(f"generator is {shown(generator)}; give a torch.Generator of the CPU, or None for torch's own")
        weight = None if weight is None else number("weight", weight)
        local_weight = None if local_weight is None else number("local_weight", local_weight)
        self.model, self.betas, self.on_segment = model, checks.betas(model, betas, default_beta), on_segment
        self.betas_given = betas is not None
        self.streamed = not isinstance(given.x, Tensor)
        self.batch: int | None = None
        self.row_steps = 0  # of all rows, in the chunks that have been handed out
        self.steps: int = 0  # of the chunks so far; of the whole window if it is given as one
        self._start_over: Tensor | None = None  # rows that are reset before the first step
        self.in_phase = self.may_part = False
        self._given_state = state
        self.source: Any = self._of_chunks(given, weight, local_weight) if self.streamed else [given]
        self._chunks = in_order(self.source)
        if not self.streamed and (weight is None) != (local_weight is None) and any(self.betas):
            there, missing = ("weight", "local_weight") if local_weight is None else ("local_weight", "weight")
            raise ValueError(
                f"{there} was given without {missing}; give both, so that betas keep their meaning, or neither, or "
                f"betas={[0.0] * len(self.betas)} for no local losses"
            )
        first = next(self._chunks, None)
        if first is None:
            raise ValueError("x is an iterator without chunks; give at least one hrnn.Chunk")
        self._first = self.checked(first, 0, opening=True)
        self.steps, rows = self._first.x.shape[:2]
        own, state = state is None, model.begun(rows) if state is None else state
        if isinstance(state, State) and any(part.requires_grad for cell in state.cells for part in cell):
            raise ValueError(
                "state requires grad, and backward takes it for a constant; give state.detach(), or use loss.backward() on "
                "what model(x, state) returns"
            )
        if not own or self._first.reset is not None:  # it is not ours, or a user's cell may have made it
            checks.state(model, state, rows)
            state = state.detach()
        self.state = state if self._start_over is None else model.reset(state, self._start_over)
        self.wiring = model.wiring(rows)
        position = self.state.clock.position
        self.may_part |= any(isinstance(p, Given) for p in model.periods) or (
            not own and bool((position != position[:1]).any())
        )
        self.weight = weight if weight is not None else 1.0 / max(1, _count(self._first))
        if local_weight is None and not self.streamed:
            local_weight = 1.0 / max(1, _valid_steps(self._first))
        self.local_weight = local_weight
        # Drawn whatever the betas are: the generator's course does not depend on them.
        self.seed = int(torch.randint(2**63 - 1, (), generator=generator))
        self.given_x = given.x if isinstance(given.x, Tensor) and given.x.requires_grad else None

    def _of_chunks(self, given: Chunk, weight: float | None, local_weight: float | None) -> Any:
        x: Any = given.x
        if type(x).__module__ == "numpy":
            checks.tensor("x", x)
        numbers = isinstance(x, list | tuple) and any(not isinstance(chunk, Chunk | tuple) for chunk in x[:1])
        several = isinstance(x, Iterable) or by_position(x)
        if not several or numbers or isinstance(x, str | bytes | bytearray | Mapping):
            raise TypeError(f"x is a {type(x).__name__}; give a tensor, or an iterable of hrnn.Chunk")
        if named := [name for name, value in vars(given).items() if name != "x" and value is not None]:
            raise ValueError(f"{named[0]} was given beside an iterator; put it into each hrnn.Chunk instead")
        if weight is None or (local_weight is None and any(self.betas)):
            raise ValueError(
                "weight and local_weight cannot be derived from an iterator; give weight=1/targets and "
                "local_weight=1/(steps * batch) of the whole window"
            )
        return x

    @property
    def rows(self) -> int:
        """Of the batch; none where, of a window that is given as a whole, none has any step: one of several processes may have
        come to the end of all of its own."""
        lengths = None if self.streamed else self._first.lengths
        return 0 if lengths is not None and not bool(lengths.any()) else self.state.batch

    def __iter__(self) -> Iterator[Chunk]:
        for chunk in itertools.chain([self._first], self._later()):
            self.row_steps += _valid_steps(chunk)
            yield chunk

    def _later(self) -> Iterator[Chunk]:
        for given in self._chunks:
            chunk = self.checked(given, self.steps, opening=False)
            self.steps += chunk.x.shape[0]
            yield chunk

    def checked(self, chunk: Any, start: int, *, opening: bool) -> Chunk:
        """Time first, shapes as documented, mask without padded steps (None: a target everywhere). `start`: the number of its
        first step; `opening`: the window begins with it."""
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
        mask = None if mask is None else _checked_mask(mask, steps, batch).to(model.device)
        lengths = checks.lengths(chunk.lengths, steps, batch, model.device)
        checks.values(model, x, lengths, start=start)
        if lengths is not None:
            valid = torch.arange(steps, device=model.device)[:, None] < lengths
            mask = valid if mask is None else mask & valid
        if y is None and (mask is None or bool(mask.any())):
            raise ValueError("y is None; give targets (time, batch, ...), or a mask that is false everywhere")
        if y is not None:
            _check_targets(y, steps, batch)
        parts = chunk.lengths is not None or chunk.reset is not None
        later = self._resets(x, reset, lengths, parts=parts, opening=opening)
        return Chunk(x, y, mask, checks.boundaries(model, boundaries, steps, batch), lengths, later)

    def _resets(self, x: Tensor, reset: Tensor | None, lengths: Tensor | None, *, parts: bool, opening: bool) -> Tensor | None:
        """Where sequences start in a chunk (time, batch), but for those that start with the window's first step: these are
        reset in the state. `parts`: the user has given something that may let rows part, if only later."""
        steps, batch = x.shape[:2]
        start = self._given_state is None and opening
        at_start, later = checks.resets(self.model, reset, steps, batch, lengths, start)
        if opening:
            self._start_over = at_start
            self.in_phase = later is None and lengths is None and not (self.streamed and parts)
            self.may_part = lengths is not None or (parts and (self.streamed or later is not None))
        elif self.in_phase and (lengths is not None or at_start is not None or later is not None):
            raise ValueError(
                "a later chunk of the window has lengths or reset and the first has not; give the first chunk a reset "
                "too, all false, so that rows may part"
            )
        elif at_start is not None:
            nowhere = torch.zeros(steps, batch, dtype=torch.bool, device=x.device)
            later = torch.cat([at_start[None], (nowhere if later is None else later)[1:]])
        return later


class InputGradient:
    """The gradient of x, where the user wants it: filled in as steps are differentiated."""

    def __init__(self, window: Window):
        self.given, self.batch_first = window.given_x, window.model.batch_first
        self.total: Tensor | None = None  # (time, batch, input_size)
        if self.given is not None:
            x = self.given.transpose(0, 1) if self.batch_first else self.given
            self.total = torch.zeros_like(x, memory_format=torch.contiguous_format)

    def steps(self, start: int, stop: int) -> Tensor | None:
        """A view of some steps; None where nobody wants it."""
        return None if self.total is None else self.total[start:stop]

    def part(self) -> InputGradient:
        """The same, which has nothing to gather."""
        part = copy(self)
        part.given = None
        return part

    def gather(self, gathered: Gathered) -> None:
        """The window is over."""
        if self.given is not None and self.total is not None:
            gathered.add(self.given, self.total.transpose(0, 1) if self.batch_first else self.total)


def by_position(x: Any) -> bool:
    """Can it be read by position: has it a length, and entries?"""
    return hasattr(x, "__len__") and hasattr(x, "__getitem__")


def in_order(x: Any) -> Iterator[Any]:
    """Its entries, from the first to the last."""
    return iter(x) if isinstance(x, Iterable) else (x[i] for i in range(len(x)))


def _checked_mask(mask: Any, steps: int, batch: int) -> Tensor:
    if isinstance(mask, Tensor):
        checks.tensor("mask", mask)
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != (steps, batch):
        kind = f"{mask.dtype} of shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"mask is {kind}; expected bool of shape ({steps}, {batch}), true where there is a target")
    return mask


def _check_targets(y: Any, steps: int, batch: int) -> None:
    if isinstance(y, Tensor):
        checks.tensor("y", y)
    if not isinstance(y, Tensor) or y.shape[:2] != (steps, batch):
        shape = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(f"y is {shape}; its first dimensions must be those of x, ({steps}, {batch})")


def _count(chunk: Chunk) -> int:
    return chunk.x.shape[0] * chunk.x.shape[1] if chunk.mask is None else int(chunk.mask.sum())


def _valid_steps(chunk: Chunk) -> int:
    return chunk.x.shape[0] * chunk.x.shape[1] if chunk.lengths is None else int(chunk.lengths.sum())

"""What users may get wrong, said in one sentence each: the argument, its value, what was expected, how to mend it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hrnn.segments import Given, Period
from hrnn.state import State

if TYPE_CHECKING:
    from hrnn.hierarchy import HRNN


def sizes(hidden_sizes: Sequence[int]) -> list[int]:
    """At least one level, each with at least one unit."""
    if isinstance(hidden_sizes, int):
        raise TypeError(
            f"hidden_sizes is {hidden_sizes}; give a list, the lowest level first, e.g. hidden_sizes=[{hidden_sizes}]"
        )
    if not hidden_sizes or any(not isinstance(n, int) or n < 1 for n in hidden_sizes):
        raise ValueError(f"hidden_sizes is {hidden_sizes}; give at least one level, each of at least one unit, e.g. [256, 256]")
    return list(hidden_sizes)


def periods(values: Sequence[Period], levels: int) -> list[Period]:
    """One fewer than levels; each at least 1."""
    if isinstance(values, int | Given):
        raise TypeError(f"periods is {values}; give a list, e.g. periods=[{values}]")
    values = list(values)
    if len(values) != levels - 1:
        example = "[]" if levels == 1 else f"[{', '.join(['10'] * (levels - 1))}]"
        raise ValueError(
            f"periods has {len(values)} entries for {levels} levels; give one fewer than hidden_sizes, e.g. periods={example}"
        )
    for i, period in enumerate(values):
        number = period.reach if isinstance(period, Given) else period
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(
                f"periods[{i}] is {period}; a period is a whole number of ticks, at least 1, or hrnn.Given(reach) with a "
                f"reach of at least 1"
            )
    return values


def inputs(model: HRNN, x: Any, name: str = "x") -> None:
    """(time, batch) tokens, or (time, batch, input_size) vectors of the model's dtype, on its device."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}; give a tensor")
    tokens = model.input_size if model.tokens else None
    expected = "(time, batch)" if tokens else f"(time, batch, {model.input_size})"
    if x.dim() != (2 if tokens else 3):
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}; expected {expected}" + (" token numbers" if tokens else " vectors")
        )
    if x.shape[0] == 0 or x.shape[1] == 0:
        which = "sequence" if x.shape[0] == 0 else "batch"
        raise ValueError(f"{name} has shape {tuple(x.shape)}, an empty {which}; give at least one step and one row")
    if x.device != model.device:
        raise ValueError(f"{name} is on {x.device} and the model on {model.device}; move one of them with .to()")
    if tokens:
        if x.is_floating_point() or x.dtype == torch.bool:
            raise TypeError(f"{name} is {x.dtype} for a model of Tokens({tokens}); give whole numbers, e.g. {name}.long()")
        return
    if x.shape[2] != model.input_size:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; expected {expected}, as the model was made for that input size")
    if x.dtype != model.dtype:
        raise TypeError(f"{name} is {x.dtype} and the model {model.dtype}; convert one of them, e.g. {name}.to({model.dtype})")


def values(model: HRNN, x: Tensor, lengths: Tensor | None, start: int = 0, name: str = "x") -> None:
    """Tokens in range, vectors finite if that is to be checked; padding is not looked at. `start` is the first step's number
    in what the user gave."""
    if model.tokens:
        low, high = (int(v) for v in torch.aminmax(x))
        if low >= 0 and high < model.input_size:
            return
        bad = (x < 0) | (x >= model.input_size)
    elif model.check_finite:
        bad = ~torch.isfinite(x).all(-1)
    else:
        return
    if lengths is not None:
        bad &= torch.arange(x.shape[0], device=x.device)[:, None] < lengths
    if not bool(bad.any()):
        return
    step, row = bad.nonzero()[0].tolist()
    if model.tokens:
        count = model.input_size
        raise ValueError(
            f"{name} has token {int(x[step, row])} at step {start + step}, row {row}; Tokens({count}) allows 0 to {count - 1}"
        )
    raise ValueError(f"{name} is not finite at step {start + step}, row {row}; mend or mask that value")


def state(model: HRNN, value: Any, batch: int) -> None:
    """Of this model, this batch size, this device."""
    if not isinstance(value, State):
        raise TypeError(f"state is a {type(value).__name__}; give the State that a call returned, or None to start afresh")
    got = [cell[0].shape[-1] for cell in value.cells]
    if got != model.hidden_sizes:
        raise ValueError(f"state has hidden sizes {got} and the model {model.hidden_sizes}; it belongs to another model")
    if value.batch != batch:
        raise ValueError(
            f"state has {value.batch} rows for a batch of {batch}; take rows with state.select(), or start with None"
        )
    part = value.cells[0][0]
    if part.device != model.device or part.dtype != model.dtype:
        raise ValueError(
            f"state is {part.dtype} on {part.device} and the model {model.dtype} on {model.device}; use state.to(device, dtype)"
        )
    like = model.initial_state(1)
    shapes, expected = (
        [[part.shape[1:] for part in cell] for cell in s.cells] + [[(h.shape[0], *h.shape[2:])] for h in s.history]
        for s in (value, like)
    )
    beyond = [isinstance(p, int) and int(value.clock.position[:, i].max()) > p for i, p in enumerate(model.periods)]
    if shapes != expected or any(beyond):
        raise ValueError("state was made by a model with other cells, periods or decoders; start with state=None")


def boundaries(model: HRNN, value: Any, steps: int, batch: int) -> Tensor | None:
    """As (steps or steps + 1, batch, given levels), or None where no level has given boundaries."""
    given = sum(isinstance(p, Given) for p in model.periods)
    if value is None:
        if given:
            raise ValueError(f"boundaries is None, but periods={model.periods} wants them; give a bool tensor (time, batch)")
        return None
    if not given:
        raise ValueError(f"boundaries was given, but periods={model.periods} are all fixed; use hrnn.Given(reach) for a period")
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"boundaries is {kind}; give a bool tensor, true where the level above ticks")
    full = value[..., None] if value.dim() == 2 and given == 1 else value
    if full.dim() != 3 or full.shape[0] not in (steps, steps + 1) or full.shape[1:] != (batch, given):
        shape = f"({steps}, {batch})" if given == 1 else f"({steps}, {batch}, {given})"
        raise ValueError(
            f"boundaries has shape {tuple(value.shape)}; expected {shape}, or one step more to say whether a segment ends there"
        )
    return full.to(model.device)


def lengths(value: Any, steps: int, batch: int, device: torch.device) -> Tensor | None:
    """(batch,) whole numbers from 0 to `steps`; None where no row is shorter."""
    if value is None:
        return None
    value = torch.as_tensor(value)
    if value.shape != (batch,) or value.is_floating_point() or value.dtype == torch.bool:
        raise ValueError(f"lengths is {value.dtype} of shape {tuple(value.shape)}; expected whole numbers of shape ({batch},)")
    if bool((value < 0).any() | (value > steps).any()):
        row = int(((value < 0) | (value > steps)).nonzero()[0])
        raise ValueError(f"lengths[{row}] is {int(value[row])}; expected 0 to {steps}, the number of steps given")
    return None if bool((value == steps).all()) else value.to(device)


def resets(
    model: HRNN, value: Any, steps: int, batch: int, lengths: Tensor | None, start: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Rows to be reset before the first step, (batch,), and resets in the course of the steps, (steps, batch); None where
    there are none. `start`: all rows are at the start of a sequence. A user's cell may have a learned initial state, which
    gets its gradient only if it is entered in the course of the steps; and boundaries given by the data say there whether the
    segment before was complete."""
    if value is None and start and not model.builtin:
        value = torch.ones(batch, dtype=torch.bool)
    if value is None:
        return None, None
    if not isinstance(value, Tensor) or value.dtype != torch.bool or value.shape not in ((batch,), (steps, batch)):
        kind = f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"reset is {kind}; expected bool of shape ({batch},), at the first step, or ({steps}, {batch})")
    value = value.to(model.device)
    if value.dim() == 1:
        value = torch.cat([value[None], value.new_zeros(steps - 1, batch)])
    if lengths is not None:  # nothing starts in padding
        value = value & (torch.arange(steps, device=value.device)[:, None] < lengths)
    if start:
        value = torch.cat([value[:1] | (not model.builtin), value[1:]])
    first = None
    if model.builtin and not any(isinstance(p, Given) for p in model.periods) and bool(value[0].any()):
        first, value = value[0], torch.cat([torch.zeros_like(value[:1]), value[1:]])
    return first, value if bool(value.any()) else None


def betas(model: HRNN, value: Sequence[float] | None) -> list[float]:
    """One weight for each level below the top; None is all zero."""
    below = len(model.periods)
    if value is None:
        return [0.0] * below
    if isinstance(value, int | float):
        raise TypeError(
            f"betas is {value}; give a list with one weight for each level below the top, e.g. betas={[value] * below}"
        )
    numbers = [float(b) for b in value]
    if len(numbers) != below:
        raise ValueError(
            f"betas has {len(numbers)} entries for {below + 1} levels; give one for each level below the top: {below}"
        )
    if any(not 0 <= b < float("inf") for b in numbers):
        raise ValueError(f"betas is {numbers}; weights of losses are finite and not negative")
    if any(numbers) and model.decoders is None:
        raise ValueError(
            f"betas is {numbers}, but the model has no decoders; make or load it with decoders=True, or give betas of 0"
        )
    return numbers

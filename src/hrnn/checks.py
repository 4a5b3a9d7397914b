"""What users may get wrong in a call, said in one sentence each: the argument, its value, what was expected, how to fix it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from hrnn.arguments import HUGE, LARGEST, entries, number, shown, whole
from hrnn.precision import wide
from hrnn.segments import Given, Period
from hrnn.state import State
from hrnn.tensors import INTEGERS, in_memory
from hrnn.wiring import Wiring

_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # that torch can store and convert, and hardly anything else

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@runtime_checkable
class Hierarchy(Protocol):
    """What arguments are checked against: of an HRNN, all that concerns them."""

    input_size: int
    tokens: bool
    hidden_sizes: list[int]
    periods: list[Period]
    check_finite: bool
    decoders: nn.ModuleList | None
    state_kinds: dict[Any, list[Any]]

    @property
    def device(self) -> torch.device: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def builtin(self) -> bool: ...

    @property
    def shows_all(self) -> bool: ...

    @property
    def edges(self) -> Wiring: ...

    def initial_state(self, batch: int) -> State: ...


def tensor(name: str, value: Any) -> Tensor:
    """A tensor with ordinary memory."""
    if not isinstance(value, Tensor):
        if type(value).__module__ == "numpy":
            raise TypeError(f"{name} is a numpy array; give a tensor: torch.from_numpy({name})")
        raise TypeError(f"{name} is a {type(value).__name__}; give a tensor")
    if problem := in_memory(value):
        raise ValueError(f"{name} is {problem}")
    return value


def inputs(model: Hierarchy, value: Any, name: str = "x") -> Tensor:
    """(time, batch) tokens, or (time, batch, input_size) vectors of the model's dtype, on its device."""
    device, dtype = model.device, model.dtype
    if device.type == "meta":
        raise ValueError("model is on meta, where nothing has a value; move it with model.to_empty() and load weights")
    if dtype not in DTYPES:
        raise ValueError(f"model is {dtype}, in which torch does not compute; give one of {', '.join(map(str, DTYPES))}")
    if isinstance(value, Tensor) and value.device.type == "meta":
        raise ValueError(f"{name} is on meta and the model on {device}; move one of them with .to()")
    x = tensor(name, value)
    tokens = model.input_size if model.tokens else None
    expected = "(time, batch)" if tokens else f"(time, batch, {model.input_size})"
    if x.dim() != (2 if tokens else 3):
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}; expected {expected}" + (" token numbers" if tokens else " vectors")
        )
    if x.shape[0] == 0 or x.shape[1] == 0:
        which = "sequence" if x.shape[0] == 0 else "batch"
        raise ValueError(f"{name} has shape {tuple(x.shape)}, an empty {which}; give at least one step and one row")
    if x.device != device:
        raise ValueError(f"{name} is on {x.device} and the model on {device}; move one of them with .to()")
    if tokens:
        if x.dtype not in INTEGERS + _UNSIGNED:
            raise TypeError(f"{name} is {x.dtype} for a model of Tokens({tokens}); give whole numbers, e.g. {name}.long()")
        return x.long() if x.dtype in _UNSIGNED else x
    if x.shape[2] != model.input_size:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; expected {expected}, as the model was made for that input size")
    if x.dtype != dtype:
        raise TypeError(f"{name} is {x.dtype} and the model {dtype}; convert one of them, e.g. {name}.to({dtype})")
    return x


def values(model: Hierarchy, x: Tensor, lengths: Tensor | None, start: int = 0, name: str = "x") -> None:
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
    raise ValueError(
        f"{name} is not finite at step {start + step}, row {row}; inputs cannot be masked: replace the value, e.g. with "
        f"torch.nan_to_num({name}), and add an input channel that says where, or cut the row there with lengths or reset"
    )


def state(model: Hierarchy, value: Any, batch: int) -> None:
    """Of this model, this batch size, this device, and with numbers that the engine can work with."""
    if not isinstance(value, State):
        raise TypeError(f"state is a {type(value).__name__}; give the State that a call returned, or None to start afresh")
    value.check_parts()
    got = [cell[0].shape[-1] for cell in value.cells]
    if got != model.hidden_sizes:
        raise ValueError(f"state has hidden sizes {shown(got)} and the model {model.hidden_sizes}; it belongs to another model")
    if value.batch != batch:
        raise ValueError(
            f"state has {value.batch} rows for a batch of {batch}; take rows with state.select(), or start with None"
        )
    part = value.cells[0][0]
    if part.device != model.device or part.dtype != model.dtype:
        raise ValueError(
            f"state is {part.dtype} on {part.device} and the model {model.dtype} on {model.device}; use state.to(device, dtype)"
        )
    value.check()
    beyond = [isinstance(p, int) and int(value.clock.position[:, i].max()) > p for i, p in enumerate(model.periods)]
    if _kinds(value) != _expected(model) or any(beyond):
        raise ValueError("state was made by a model with other cells, periods or decoders; start with state=None")
    remembered = [(part, 0) for part in value.history[:1]] + [(part, -1) for part in value.raw.values()]
    for part, least in remembered if model.tokens else []:
        low, high = (int(v) for v in torch.aminmax(part)) if part.numel() else (0, 0)
        if low < least or high >= model.input_size:
            raise ValueError(
                f"state remembers the token {low if low < least else high}, the model has Tokens({model.input_size}); start "
                f"with state=None"
            )


def _kinds(state: State) -> list[Any]:
    """Of every tensor that belongs to a row: the rest of its shape, dtype and device."""
    cells = [[(part.shape[1:], part.dtype, part.device) for part in cell] for cell in state.cells]
    kept = [("history", h) for h in state.history] + [*state.raw.items()]
    return [cells, [(name, h.shape[0], *h.shape[2:], h.dtype, h.device) for name, h in kept]]


def _expected(model: Hierarchy) -> list[Any]:
    """The kinds of a model's own states, found once: making a state takes longer than looking at one."""
    if not model.builtin:
        return _kinds(model.initial_state(1))
    key = (model.dtype, model.device, model.decoders is not None)
    if key not in model.state_kinds:
        model.state_kinds[key] = _kinds(model.initial_state(1))
    return model.state_kinds[key]


def boundaries(model: Hierarchy, value: Any, steps: int, batch: int) -> Tensor | None:
    """As (steps or steps + 1, batch, given levels), or None where no level has given boundaries."""
    given = sum(isinstance(p, Given) for p in model.periods)
    if value is None:
        if given:
            raise ValueError(
                f"boundaries is None, but periods={shown(model.periods)} wants them; give a bool tensor (time, batch)"
            )
        return None
    if not given:
        raise ValueError(
            f"boundaries was given, but periods={shown(model.periods)} are all fixed; use hrnn.Given(reach) for a period"
        )
    if not isinstance(value, Tensor) or tensor("boundaries", value).dtype != torch.bool:
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
    if not isinstance(value, Tensor) and not hasattr(value, "__array__"):
        counts = entries("lengths", value, f"[{', '.join([str(steps)] * min(4, batch))}]")
        value = torch.tensor([whole(f"lengths[{i}]", n, -LARGEST) for i, n in enumerate(counts)], dtype=torch.int64)
    elif not isinstance(value, Tensor):
        try:
            value = torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError):  # an array of objects, of text, of another byte order
            raise TypeError(f"lengths is {shown(value)}; expected whole numbers of shape ({batch},)") from None
    tensor("lengths", value)
    if value.shape != (batch,) or value.dtype not in INTEGERS + _UNSIGNED:
        raise ValueError(f"lengths is {value.dtype} of shape {tuple(value.shape)}; expected whole numbers of shape ({batch},)")
    value = value.long()
    if bool((value < 0).any() | (value > steps).any()):
        row = int(((value < 0) | (value > steps)).nonzero()[0])
        raise ValueError(f"lengths[{row}] is {int(value[row])}; expected 0 to {steps}, the number of steps given")
    return None if bool((value == steps).all()) else value.to(device)


def resets(
    model: Hierarchy, value: Any, steps: int, batch: int, lengths: Tensor | None, start: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Rows to be reset before the first step, (batch,), and resets in the course of the steps, (steps, batch); None where
    there are none. `start`: all rows are at the start of a sequence. A user's cell may have a learned initial state, which
    gets its gradient only if it is entered in the course of the steps; and boundaries given by the data say there whether the
    segment before was complete."""
    if value is None and start and not model.builtin:
        value = torch.ones(batch, dtype=torch.bool)
    if value is None:
        return None, None
    if isinstance(value, Tensor):
        tensor("reset", value)
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


def betas(model: Hierarchy, value: Sequence[float] | None, default: float = 0.0) -> list[float]:
    """One weight for each level below the top; None is the default, or 0 without decoders."""
    below = len(model.periods)
    read = [model.edges.sends(level) for level in range(below)]
    if value is None:
        return [0.0 if model.decoders is None or not one else default for one in read]
    if isinstance(value, int | float):
        raise TypeError(
            f"betas is {shown(value)}; give a list with one weight for each level below the top, "
            f"e.g. betas={shown([value] * below)}"
        )
    given = entries("betas", value, shown([0.1] * below))
    if len(given) != below:
        raise ValueError(
            f"betas has {len(given)} entries for {below + 1} levels; give one for each level below the top: {below}"
        )
    try:
        numbers = [number("betas", beta) for beta in given]
    except ValueError:
        raise ValueError(f"betas is {shown(given)}; weights of losses are finite and not negative") from None
    if any(beta > HUGE for beta in numbers):
        raise ValueError(f"betas is {shown(given)}; give at most {HUGE:g}, which is far beyond sense")
    if stray := [level for level, beta in enumerate(numbers) if beta and not read[level]]:
        raise ValueError(
            f"betas is {numbers}, but no level reads the summary of level {stray[0]}, which needs no local loss; give 0 "
            f"there, or betas=None"
        )
    if any(numbers) and model.decoders is None:
        raise ValueError(
            f"betas is {numbers}, but the model has no decoders; make or load it with decoders=True, or give betas of 0"
        )
    return numbers


def metric(name: Any, value: Any) -> Tensor:
    """The sum of what a loss function returned beside its values."""
    try:
        found = value if isinstance(value, Tensor) else torch.as_tensor(value)
        problem = in_memory(found)
        if not problem:
            return wide(found.detach()).sum()
    except (TypeError, ValueError, RuntimeError, OverflowError):
        problem = shown(value)
    raise TypeError(f"loss returned the metric {shown(name)} as {problem}; give a tensor or a number, to be summed")

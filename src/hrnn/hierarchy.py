"""`HRNN`: a stack of recurrent levels that tick ever more slowly."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Int, Shaped
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from hrnn import checks
from hrnn.cells import BUILTIN, BuiltinCell, Cell, UserCell
from hrnn.decoders import INDICES, Decoder, per_level
from hrnn.forward import Run
from hrnn.segments import Clock, Given, Period, reach_of
from hrnn.state import State


@dataclass(frozen=True)
class Tokens:
    """Inputs are symbols, numbered from 0 to count - 1; their product with a weight is a lookup."""

    count: int


CellChoice = str | Callable[[int, int], nn.Module]


class HRNN(nn.Module):
    """A hierarchical recurrent network.

    inputs:        Tokens(n), or an int: vectors of that size
    hidden_sizes:  units of each level, the lowest first; one level is an ordinary recurrent network
    periods:       one fewer: how many ticks of a level make one tick of the level above, or Given(reach) where the data
                   say when it ticks
    cell:          "lstm", "gru", "rnn", or a callable (input_size, hidden_size) -> module, see hrnn.cells.contract; a list
                   has one for each level
    decoders:      whether the levels below the top have decoders for local losses; inference does not need them
    decoder_layers, decoder_units, indices:  for all levels, or a list: weight layers, hidden units, and whether one
                   "sampled" index is decoded for each segment or "all"
    batch_first:   inputs, outputs, boundaries and reset are (batch, time, ...)
    check_finite:  refuse inputs that are not finite, naming step and row

    The loop is that of nn.LSTM:

        model = hrnn.HRNN(hrnn.Tokens(3), hidden_sizes=[256, 256], periods=[10])
        output, state = model(x)              # (time, batch) to (time, batch, 256)
        output, state = model(more, state)    # goes on where it stopped, in mid-segment or not
    """

    def __init__(
        self,
        inputs: int | Tokens,
        hidden_sizes: Sequence[int],
        periods: Sequence[Period] = (),
        cell: CellChoice | Sequence[CellChoice] = "lstm",
        *,
        decoders: bool = True,
        decoder_layers: int | Sequence[int] = 2,
        decoder_units: int | Sequence[int] = 256,
        indices: str | Sequence[str] = "sampled",
        batch_first: bool = False,
        check_finite: bool = False,
    ):
        super().__init__()
        self.inputs = inputs
        self.tokens = isinstance(inputs, Tokens)
        count = inputs.count if isinstance(inputs, Tokens) else inputs
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"inputs is {inputs}; give hrnn.Tokens(n) or the size of the input vectors, at least 1")
        self.input_size: int = count
        self.hidden_sizes = checks.sizes(hidden_sizes)
        self.periods = checks.periods(periods, len(self.hidden_sizes))
        self.batch_first, self.check_finite = batch_first, check_finite
        levels, below = len(self.hidden_sizes), len(self.periods)
        choices = [cell] * levels if isinstance(cell, str) or callable(cell) else list(cell)
        if len(choices) != levels:
            raise ValueError(f"cell has {len(choices)} entries for {levels} levels; give one for each level, or one for all")
        sizes = [self.input_size, *self.hidden_sizes, 0]
        self.cells = nn.ModuleList(
            _make_cell(choices[i], sizes[i], sizes[i + 2], sizes[i + 1], self.tokens and i == 0) for i in range(levels)
        )
        options = {
            "decoder_layers": per_level("decoder_layers", decoder_layers, below),
            "decoder_units": per_level("decoder_units", decoder_units, below),
            "indices": per_level("indices", indices, below),
        }
        for i in range(below):
            if options["decoder_layers"][i] < 1 or options["decoder_units"][i] < 1:
                raise ValueError(f"decoder_layers and decoder_units of level {i} are {options['decoder_layers'][i]} and "
                                 f"{options['decoder_units'][i]}; give at least 1")  # fmt: skip
            if options["indices"][i] not in INDICES:
                raise ValueError(f"indices is {options['indices'][i]!r}; expected one of {INDICES}")
        self.decoders: nn.ModuleList | None = None
        if decoders:
            self.decoders = nn.ModuleList(
                Decoder(
                    self.hidden_sizes[i],
                    sizes[i],
                    reach_of(self.periods[i]),
                    tokens=self.tokens and i == 0,
                    layers=options["decoder_layers"][i],
                    units=options["decoder_units"][i],
                    indices=options["indices"][i],
                )
                for i in range(below)
            )
        self._config = {
            "inputs": {"tokens": count} if self.tokens else count,
            "hidden_sizes": self.hidden_sizes,
            "periods": [{"given": p.reach} if isinstance(p, Given) else p for p in self.periods],
            "cell": [c if isinstance(c, str) else None for c in choices],
            **options,
            "batch_first": batch_first,
            "check_finite": check_finite,
        }

    @property
    def config(self) -> dict[str, Any]:
        """What it was made with, as JSON can hold it; a user's cell is None there."""
        return {**self._config, "decoders": self.decoders is not None}

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    @property
    def builtin(self) -> bool:
        """Are all cells built in?"""
        return all(isinstance(cell, BuiltinCell) for cell in self.cells)

    def cell(self, level: int) -> Cell:
        """The cell of a level."""
        return self.cells[level]  # type: ignore[return-value]

    def decoder(self, level: int) -> Decoder:
        """The decoder of a level below the top."""
        assert self.decoders is not None
        return self.decoders[level]  # type: ignore[return-value]

    def initial_state(self, batch: int) -> State:
        """The state of `batch` rows before their sequences begin."""
        if batch < 1:
            raise ValueError(f"batch is {batch}; give at least one row")
        device = self.device
        with torch.no_grad():
            cells = tuple(self.cell(i).initial_state(batch) for i in range(len(self.cells)))
        sizes = [self.input_size, *self.hidden_sizes]
        history = []
        for i, period in enumerate(self.periods if self.decoders is not None else []):
            tokens = self.tokens and i == 0
            shape = (reach_of(period), batch) if tokens else (reach_of(period), batch, sizes[i])
            history.append(torch.zeros(shape, dtype=torch.int64 if tokens else self.dtype, device=device))
        clock = Clock.start(batch, len(self.periods), device)
        return State(cells, clock, torch.arange(batch, device=device), tuple(history))

    def reset(self, state: State, rows: Bool[Tensor, " batch"]) -> State:
        """`state` with the rows where `rows` is true back before the start of a sequence."""
        fresh = self.initial_state(state.batch)

        def mixed(new: Tensor, old: Tensor, axis: int) -> Tensor:
            return torch.where(rows.view(*[1] * axis, -1, *[1] * (old.dim() - 1 - axis)), new, old)

        return State(
            tuple(
                tuple(mixed(a, b, 0) for a, b in zip(new, old, strict=True))
                for new, old in zip(fresh.cells, state.cells, strict=True)
            ),
            state.clock.cleared(rows),
            state.row,
            tuple(mixed(a, b, 1) for a, b in zip(fresh.history, state.history, strict=True)),
        )

    def forward(
        self,
        x: Shaped[Tensor, "outer inner *features"],
        state: State | None = None,
        boundaries: Bool[Tensor, "..."] | None = None,
        lengths: Int[Tensor, " batch"] | Sequence[int] | None = None,
        reset: Bool[Tensor, "..."] | None = None,
    ) -> tuple[Shaped[Tensor, "outer inner hidden"], State]:
        """Inputs to the lowest level's hidden states, and the state after them. Differentiable by autograd. The outer dimension
        is time and the inner one the batch, or, with batch_first, the other way round.

        x:          (time, batch) tokens or (time, batch, input_size) vectors
        boundaries: bool (time, batch), or (time, batch, n) where n levels have given boundaries: true where the level above
                    ticks; may have one step more, which says whether a segment ends with the last step
        lengths:    (batch,) how many steps of each row count; outputs behind them are zero, the state is that at the length,
                    and what stands in x there does not matter; a boundary right behind a row's last step says that its
                    segment ends
        reset:      bool (batch,) or (time, batch): a new sequence starts at this step (batch: at the first)
        """
        if self.batch_first:
            x, boundaries, reset = (_swap(v) for v in (x, boundaries, reset))
        checks.inputs(self, x)
        steps, batch = x.shape[:2]
        given = checks.boundaries(self, boundaries, steps, batch)
        valid = checks.lengths(lengths, steps, batch, self.device)
        checks.values(self, x, valid)
        at_start, later = checks.resets(self, reset, steps, batch, valid, start=state is None)
        if state is None:
            state = self.initial_state(batch)
        checks.state(self, state, batch)
        if at_start is not None:
            state = self.reset(state, at_start)
        run = Run(self, state)
        output = run.feed(x, given, valid, later)
        return (_swap(output) if self.batch_first else output), run.close()

    def step(
        self,
        x: Shaped[Tensor, "batch ..."],
        state: State | None = None,
        boundaries: Bool[Tensor, "..."] | None = None,
        reset: Bool[Tensor, " batch"] | None = None,
    ) -> tuple[Shaped[Tensor, "batch hidden"], State]:
        """One input of a stream: (batch,) or (batch, input_size) to (batch, hidden). Memory does not grow with the stream."""
        axis = 1 if self.batch_first else 0
        inputs, given, at = (v.unsqueeze(axis) if isinstance(v, Tensor) else v for v in (x, boundaries, reset))
        output, state = self(inputs, state, boundaries=given, reset=at)
        return output.squeeze(axis), state

    def save(self, path: str | Path, decoders: bool = True) -> None:
        """Write weights and configuration as one safetensors file, with the decoders or, for inference, without."""
        keep = decoders and self.decoders is not None
        weights = {k: v.contiguous() for k, v in self.state_dict().items() if keep or not k.startswith("decoders.")}
        config = {**self.config, "decoders": keep}
        save_file(weights, str(path), metadata={"format": "pt", "hrnn": json.dumps(config)})

    @staticmethod
    def load(path: str | Path, cell: CellChoice | Sequence[CellChoice] | None = None, device: str = "cpu") -> HRNN:
        """Read what `save` wrote. A model with a user's cells wants them again, as `cell`."""
        with safe_open(str(path), framework="pt", device=device) as file:
            text = (file.metadata() or {}).get("hrnn")
            if text is None:
                raise ValueError(f"{path} holds tensors but no hrnn model; write it with model.save()")
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        config = json.loads(text)
        inputs, periods = config.pop("inputs"), config.pop("periods")
        stored = config.pop("cell")
        if cell is None and None in stored:
            raise ValueError(
                f"{path} was saved with a cell of the user's at level {stored.index(None)}; give it again: load(path, cell=...)"
            )
        model = HRNN(
            Tokens(inputs["tokens"]) if isinstance(inputs, dict) else inputs,
            periods=[Given(p["given"]) if isinstance(p, dict) else p for p in periods],
            cell=stored if cell is None else cell,
            **config,
        )
        dtype = next(t.dtype for name, t in weights.items() if t.is_floating_point())
        model.to(device=device, dtype=dtype)
        model.load_state_dict(weights)
        return model

    def extra_repr(self) -> str:
        return f"{self.inputs}, hidden_sizes={self.hidden_sizes}, periods={self.periods}"


def _swap(value: Any) -> Any:
    return value.transpose(0, 1) if isinstance(value, Tensor) and value.dim() > 1 else value


def _make_cell(choice: CellChoice, inputs: int, context: int, hidden: int, tokens: bool) -> nn.Module:
    if isinstance(choice, str):
        if choice not in BUILTIN:
            raise ValueError(f"cell is {choice!r}; expected one of {sorted(BUILTIN)}, or a callable that makes a module")
        return BUILTIN[choice](inputs, context, hidden, tokens)
    if not callable(choice):
        raise TypeError(f"cell is {choice!r}; give a name or a callable (input_size, hidden_size) -> nn.Module")
    module = choice(inputs + context, hidden)
    if not isinstance(module, nn.Module):
        raise TypeError(f"cell returned a {type(module).__name__}; expected an nn.Module with step and initial_state")
    return UserCell(module, inputs, context, hidden, tokens)

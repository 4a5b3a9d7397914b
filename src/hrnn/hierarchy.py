"""`HRNN`: a stack of recurrent levels that tick ever more slowly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor, nn

from hrnn import checks, description, streaming, tensors
from hrnn.arguments import entries, flag, shown, whole
from hrnn.cells import BUILTIN, BuiltinCell, Cell, UserCell, by_hand
from hrnn.decoders import Decoder
from hrnn.executor import Listener, Run, learned_starts
from hrnn.formats import numbered
from hrnn.precision import without_autocast
from hrnn.readers import ReaderChoice, make_reader
from hrnn.recovery import AT_ONCE, Recovery, pieces
from hrnn.room import check_fits, input_sizes, output_size, side_by_side
from hrnn.schedule import schedule
from hrnn.segments import Behind, Clock, Given, Period, reach_of
from hrnn.state import State
from hrnn.wiring import Wiring


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
    decoder_layers, decoder_units, indices:  for all levels, or a list: weight layers, hidden units, and whether "all"
                   indices are decoded for each segment or one that is "sampled", as in the paper
    normalized:    for all levels, or a list: whether local losses are divided by the variance of what is to be decoded, or
                   the entropy of tokens, so that one beta suits all data; what is known of it is part of the model
    symbol_weights: "equal", or "inverse": tokens count for the inverse of their frequency in the lowest local loss
    output:        what the output has at every step: the hidden state of the "lowest" level, as in the paper, or those of "all"
                   levels, the lowest first
    reads:         for all levels above the lowest, or a list: what a level reads when it ticks. "summary": the hidden state of
                   the level below, as in the paper; "inputs": the raw inputs of the segment of the level below that has just
                   ended, so that nothing hidden goes up and no gradient has to come down; or "both"
    reader:        for all levels above the lowest, or a list: what makes a vector of those inputs. "linear": relu(W · inputs);
                   "maximum": half of it the largest over the parts of V · part, for rare events; or a callable (parts,
                   input_size, size) -> module, see hrnn.readers
    context:       for all levels below the top, or a list: where the hidden state above enters a segment. "input": as an input
                   of the first tick, as in the paper; "state": as the initial state
    burn_in:       so many inputs before each segment are read once more by the lowest level, from the context on; where its
                   summary is not read
    segments:      for all levels below the top, or a list: how many consecutive segments of a row share a batch, where their
                   level sends and reads no summary; None: as many as take about 8 MB. Gradients do not depend on it
    batch_first:   inputs, outputs, boundaries and reset are (batch, time, ...)
    check_finite:  refuse inputs that are not finite, naming step and row

    The loop is that of nn.LSTM:

        model = hrnn.HRNN(hrnn.Tokens(3), hidden_sizes=[256, 256], periods=[10])
        output, state = model(x)              # (time, batch) to (time, batch, 256)
        output, state = model(more, state)    # goes on where it stopped, in mid-segment or not
    """

    stream_plan: streaming.Plan | None = None

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
        indices: str | Sequence[str] = "all",
        normalized: bool | Sequence[bool] = True,
        symbol_weights: str = "equal",
        output: str = "lowest",
        reads: str | Sequence[str] = "summary",
        reader: ReaderChoice | Sequence[ReaderChoice | None] = "linear",
        context: str | Sequence[str] = "input",
        burn_in: int = 0,
        segments: int | Sequence[int | None] | None = None,
        batch_first: bool = False,
        check_finite: bool = False,
    ):
        super().__init__()
        self.inputs = inputs
        self.tokens = isinstance(inputs, Tokens)
        self.input_size = _checked_inputs(inputs)
        self.hidden_sizes = description.checked_sizes(hidden_sizes)
        self.periods = description.checked_periods(periods, len(self.hidden_sizes))
        self.batch_first, self.check_finite = flag("batch_first", batch_first), flag("check_finite", check_finite)
        levels = len(self.hidden_sizes)
        choices = [cell] * levels if isinstance(cell, str) or callable(cell) else entries("cell", cell, '"lstm"')
        if len(choices) != levels:
            raise ValueError(f"cell has {len(choices)} entries for {levels} levels; give one for each level, or one for all")
        flag("decoders", decoders)
        options = description.checked_decoders(len(self.periods), decoder_layers, decoder_units, indices, normalized)
        weighted = description.checked_weights(symbol_weights, self.tokens) != "equal"
        self.edges, self._segments, readers, contexts = description.checked_edges(
            self.periods, reads, reader, context, burn_in, segments
        )
        self.paper_edges = self.edges.plain and "state" not in contexts  # all summaries read, all contexts inputs
        self._config = {
            "inputs": {"tokens": self.input_size} if self.tokens else self.input_size,
            "hidden_sizes": self.hidden_sizes,
            "periods": [{"given": p.reach} if isinstance(p, Given) else p for p in self.periods],
            "cell": [c if isinstance(c, str) else None for c in choices],
            **options,
            "symbol_weights": symbol_weights,
            "output": description.checked_output(output),
            "reads": list(self.edges.reads),
            "reader": [one if isinstance(one, str) else None for one in readers],
            "context": contexts,
            "burn_in": self.edges.burn_in,
            "segments": self._segments,
            "batch_first": batch_first,
            "check_finite": check_finite,
        }
        if torch.get_default_device().type != "meta":
            what = f"hidden_sizes is {shown(self.hidden_sizes)}, periods {shown(self.periods)}, inputs {shown(inputs)}"
            count = description.numbers({**self._config, "decoders": decoders})
            check_fits(f"{what}, decoder_units {shown(decoder_units)}", 4 * count)
        sizes = [*self.input_sizes, 0]
        above = [*self.hidden_sizes[1:], 0]
        self.cells = nn.ModuleList(
            _make_cell(choices[i], sizes[i], above[i], self.hidden_sizes[i], self.tokens and i == 0, [*contexts, "input"][i])
            for i in range(levels)
        )
        self.readers = nn.ModuleList(
            make_reader(readers[i - 1], self.edges.parts(i), self.input_size, self.hidden_sizes[i], self.tokens)
            if self.edges.takes(i)
            else nn.Identity()
            for i in range(1, levels)
        )
        self.state_kinds: dict[Any, list[Any]] = {}  # see hrnn.checks
        self._begun: tuple[Any, State] | None = None  # see `begun`
        self.decoders = self._make_decoders(options, weighted) if decoders else None

    def _make_decoders(self, options: dict[str, list[Any]], weighted: bool) -> nn.ModuleList:
        """One for each level below the top, but for those whose summary nobody reads. weighted: symbols count for the
        inverse of their frequency."""
        return nn.ModuleList(
            Decoder(
                self.hidden_sizes[i],
                self.input_sizes[i],
                reach_of(period),
                tokens=self.tokens and i == 0,
                layers=options["decoder_layers"][i],
                units=options["decoder_units"][i],
                indices=options["indices"][i],
                normalized=options["normalized"][i],
                weighted=weighted and i == 0,
                halves=self.hidden_sizes[i - 1] if i and self.edges.reads[i - 1] == "both" else 0,
            )
            if self.edges.sends(i)
            else nn.Identity()
            for i, period in enumerate(self.periods)
        )

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
    def shows_all(self) -> bool:
        """Are there other levels than the lowest in the output?"""
        return self._config["output"] == "all" and len(self.hidden_sizes) > 1

    @property
    def output_size(self) -> int:
        """Numbers of the output, for each step and row."""
        return output_size(self.hidden_sizes, "all" if self.shows_all else "lowest")

    @property
    def input_sizes(self) -> list[int]:
        """Numbers of what each level reads at a tick, the context left out."""
        return input_sizes(self.input_size, self.hidden_sizes, self.edges.reads)

    def wiring(self, rows: int) -> Wiring:
        """Who reads what of whom, in batches of a window of so many rows."""
        widths = self.hidden_sizes
        found = [
            side_by_side(widths[i], reach_of(self.periods[i]), rows) if own is None else own
            for i, own in enumerate(self._segments)
        ]
        return replace(self.edges, periods=tuple(self.periods), segments=tuple(found))

    @property
    def builtin(self) -> bool:
        """Are all cells built in, and as they were made?"""
        return all(by_hand(cell) for cell in self.cells)

    @property
    def levels(self) -> list[Cell]:
        """Each level's cell, the lowest first."""
        return list(self.cells)  # type: ignore[arg-type]

    def cell(self, level: int) -> Cell:
        """The cell of a level."""
        return self.cells[_level("level", level, len(self.cells))]  # type: ignore[return-value]

    def decoder(self, level: int) -> Decoder:
        """The decoder of a level below the top."""
        if self.decoders is None:
            raise ValueError(f"level is {shown(level)}, but the model has no decoders; make or load it with decoders=True")
        if not isinstance(found := self.decoders[_level("level", level, len(self.decoders))], Decoder):
            raise ValueError(f"level is {level}, whose summary no level reads: it has no decoder")
        return found

    def initial_state(self, batch: int) -> State:
        """The state of `batch` rows before their sequences begin."""
        batch = whole("batch", batch, remedy="at least one row")
        if batch > 1:
            kept = sum(map(reach_of, self.periods)) if self.decoders is not None else 0
            check_fits(f"batch is {batch}", 4 * batch * (sum(self.hidden_sizes) + kept))
        device, dtype = self.device, self.dtype
        with torch.no_grad():
            cells = tuple(
                cell.initial_state(batch)
                if isinstance(cell, BuiltinCell)
                else tuple(p.detach().clone() for p in cell.initial_state(batch))
                for cell in self.levels
            )
        sizes = self.input_sizes

        def nothing(count: int, tokens: bool, size: int) -> Tensor:
            shape = (count, batch) if tokens else (count, batch, size)
            return torch.zeros(shape, dtype=torch.int64 if tokens else dtype, device=device)

        history = [
            nothing(reach_of(period) * self.edges.sends(i), self.tokens and i == 0, sizes[i])
            for i, period in enumerate(self.periods if self.decoders is not None else [])
        ]
        raw = {
            name: nothing(count, self.tokens, self.input_size).sub_(int(self.tokens))
            for name, count in (("inputs", self.edges.places(self.edges.highest)), ("recent", self.edges.burn_in))
            if count
        }
        clock = Clock.start(batch, len(self.periods), device)
        rows = torch.arange(batch, device=device)
        if all(isinstance(cell, BuiltinCell) for cell in self.levels):
            return State.of(cells, clock, rows, tuple(history), **raw)
        return State(cells, clock, rows, tuple(history), **raw)

    def begun(self, batch: int) -> State:
        """The same for whoever changes nothing in it: made once for each batch size where cells are built in."""
        if not all(isinstance(cell, BuiltinCell) for cell in self.cells):
            return self.initial_state(batch)
        key = (batch, self.dtype, self.device, self.decoders is not None)
        if self._begun is None or self._begun[0] != key:
            self._begun = key, self.initial_state(batch)
        return self._begun[1]

    def reset(self, state: State, rows: Bool[Tensor, " batch"]) -> State:
        """`state` with the rows where `rows` is true back before the start of a sequence."""
        if isinstance(state, State):
            state.check_parts()
        checks.state(self, state, state.batch if isinstance(state, State) else 1)
        if checks.tensor("rows", rows).dtype != torch.bool or rows.shape != (state.batch,):
            raise ValueError(f"rows is {shown(rows)}; expected bool of shape ({state.batch},), true where a row starts over")
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
            **{name: mixed(part, state.raw[name], 1) for name, part in fresh.raw.items()},
        )

    def forward(
        self,
        x: Shaped[Tensor, "outer inner *features"],
        state: State | None = None,
        boundaries: Bool[Tensor, "..."] | None = None,
        lengths: Int[Tensor, " batch"] | Sequence[int] | None = None,
        reset: Bool[Tensor, "..."] | None = None,
    ) -> tuple[Shaped[Tensor, "outer inner hidden"], State]:
        """Inputs to the lowest level's hidden states, or those of all levels, and the state after them. Differentiable by
        autograd. The outer dimension is time and the inner one the batch, or, with batch_first, the other way round.

        x:          (time, batch) tokens or (time, batch, input_size) vectors
        boundaries: bool (time, batch), or (time, batch, n) where n levels have given boundaries: true where the level above
                    ticks; may have one step more, which says whether a segment ends with the last step
        lengths:    (batch,) how many steps of each row count; outputs behind them are zero, the state is that at the length,
                    and what stands in x there does not matter; a boundary right behind a row's last step says that its
                    segment ends
        reset:      bool (batch,) or (time, batch): a new sequence starts at this step (batch: at the first)
        """
        return self._run(x, state, boundaries, lengths, reset, None)

    def _run(
        self, x: Any, state: State | None, boundaries: Any, lengths: Any, reset: Any, listener: Listener | None
    ) -> tuple[Tensor, State]:
        if self.batch_first:
            x, boundaries, reset = (tensors.swapped(v) for v in (x, boundaries, reset))
        x = checks.inputs(self, x)
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
        with without_autocast(self.device):
            there = None if valid is None else torch.arange(steps, device=self.device)[:, None] < valid
            wiring = self.wiring(batch)
            plan = schedule(
                wiring, state.clock, steps, boundaries=given, following=Behind().after(given, valid, steps), valid=there,
                reset=later, learned=learned_starts(self.levels),
            )  # fmt: skip
            run = Run(
                self.levels, state, wiring, list(self.readers), shows_all=self.shows_all and listener is None, listener=listener
            )
            run.run(plan, x)
            output = run.output(steps)
            return (tensors.swapped(output) if self.batch_first else output), run.after()

    @torch.no_grad()
    def recovered(
        self,
        x: Shaped[Tensor, "outer inner *features"],
        state: State | None = None,
        boundaries: Bool[Tensor, "..."] | None = None,
        lengths: Int[Tensor, " batch"] | Sequence[int] | None = None,
        reset: Bool[Tensor, "..."] | None = None,
    ) -> list[Tensor]:
        """What decoders recover from the summaries of these inputs; the arguments are those of `forward`. For each level below
        the top (reach,): of the input j ticks back what is lost, j from 1. 0 is nothing, 1 as much as by guessing the mean, or
        by frequency; nan where no segment was so long."""
        found = {level: Recovery(self.decoder(level)) for level in range(len(self.periods)) if self.edges.sends(level)}
        at_once = AT_ONCE // max(1, x.shape[1] * self.hidden_sizes[0]) if isinstance(x, Tensor) and x.dim() > 1 else 0
        if boundaries is not None or self.batch_first or not 0 < at_once < len(x):
            self._run(x, state, boundaries, lengths, reset, lambda ended: found[ended.level].add(ended))
            return self._lost(found)
        for some, left, starts in pieces(x, lengths, reset, at_once):  # outputs are not kept: no more than these are there
            _, state = self._run(some, state, None, left, starts, lambda ended: found[ended.level].add(ended))
        return self._lost(found)

    def _lost(self, found: dict[int, Recovery]) -> list[Tensor]:
        """Of each level below the top; nan where nobody reads its summary."""
        return [
            found[level].lost() if level in found else torch.full((reach_of(period),), torch.nan, dtype=torch.float64)
            for level, period in enumerate(self.periods)
        ]

    def step(
        self,
        x: Shaped[Tensor, "batch ..."],
        state: State | None = None,
        boundaries: Bool[Tensor, "..."] | None = None,
        reset: Bool[Tensor, " batch"] | None = None,
    ) -> tuple[Shaped[Tensor, "batch hidden"], State]:
        """One input of a stream: (batch,) or (batch, input_size) to (batch, hidden). Memory does not grow with the stream."""
        if boundaries is None and reset is None and not torch.is_grad_enabled() and streaming.called_by(HRNN, self):
            done = streaming.step(self, x, state)
            if done is not None:
                return done
        for name, value in (("x", x), ("boundaries", boundaries), ("reset", reset)):
            if isinstance(value, Tensor) and checks.tensor(name, value).dim() < 1:
                raise ValueError(f"{name} has shape (); expected a batch of rows, ({name if name == 'x' else 'batch'}, ...)")
        axis = 1 if self.batch_first else 0
        inputs, given, at = (v.unsqueeze(axis) if isinstance(v, Tensor) else v for v in (x, boundaries, reset))
        output, state = self(inputs, state, boundaries=given, reset=at)
        return output.squeeze(axis), state

    def save(self, path: str | Path, decoders: bool = True) -> None:
        """Write weights and configuration as one safetensors file, with the decoders or, for inference, without."""
        keep = flag("decoders", decoders) and self.decoders is not None
        weights = {name: tensor for name, tensor in self.state_dict().items() if keep or not name.startswith("decoders.")}
        if self.device.type == "meta":
            raise ValueError("model is on meta, where nothing has a value; there is nothing to be saved")
        tensors.write(path, weights, numbered("model", {**self.config, "decoders": keep}))

    @staticmethod
    def load(
        path: str | Path,
        cell: CellChoice | Sequence[CellChoice] | None = None,
        device: torch.device | str = "cpu",
        reader: ReaderChoice | Sequence[ReaderChoice | None] | None = None,
    ) -> HRNN:
        """Read what `save` wrote. A model with a user's cells wants them again, as `cell`, and one with a user's readers these,
        as `reader`. A file that is damaged, or was made to do harm, gets a ValueError."""
        device = tensors.device_of(device)
        weights, metadata = tensors.read(path)
        if metadata is None:
            raise ValueError(f"{path} holds tensors but no hrnn model; write it with model.save()")
        config = description.stored(path, metadata)
        stored = config["cell"]
        if cell is None and isinstance(stored, list) and None in stored:
            raise ValueError(
                f"{path} was saved with a cell of the user's at level {stored.index(None)}; give it again: load(path, cell=...)"
            )
        if reader is None and (own := description.own_readers(config)):
            raise ValueError(
                f"{path} was saved with a reader of the user's at level {own[0]}; give it again: load(path, reader=...)"
            )
        try:
            description.check_described(config, weights)
            model = HRNN(
                Tokens(config["inputs"]["tokens"]) if isinstance(config["inputs"], dict) else config["inputs"],
                periods=[Given(p["given"]) if isinstance(p, dict) else p for p in config["periods"]],
                cell=stored if cell is None else cell,
                reader=config["reader"] if reader is None else reader,
                **{name: value for name, value in config.items() if name not in ("inputs", "periods", "cell", "reader")},
            )
            model.to(dtype=description.matched(weights, model.state_dict()))
        except (TypeError, ValueError, KeyError, AttributeError, RuntimeError, MemoryError, OverflowError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"{path} does not hold the model that it describes: {reason}") from None
        model.load_state_dict(weights)
        return model.to(device)

    def extra_repr(self) -> str:
        usual = {"output": "lowest", "reads": ["summary"], "context": ["input"], "burn_in": 0}
        other = [f", {name}={self._config[name]!r}" for name, one in usual.items() if not _only(self._config[name], one)]
        return f"{self.inputs}, hidden_sizes={self.hidden_sizes}, periods={self.periods}{''.join(other)}"


def _only(value: Any, usual: Any) -> bool:
    """Is a choice the usual one, at every level?"""
    return bool(value == (usual * len(value) if isinstance(usual, list) else usual))


def _level(name: str, value: Any, count: int) -> int:
    return value if type(value) is int and 0 <= value < count else whole(name, value, 0, count - 1)


def _checked_inputs(inputs: Any) -> int:
    """How many symbols there are, or numbers of an input."""
    try:
        return whole("inputs", inputs.count if isinstance(inputs, Tokens) else inputs)
    except ValueError:
        given = inputs if isinstance(inputs, str) else shown(inputs)
        raise ValueError(f"inputs is {given[:100]}; give hrnn.Tokens(n) or the size of the input vectors, at least 1") from None


def _make_cell(choice: CellChoice, inputs: int, above: int, hidden: int, tokens: bool, context: str) -> nn.Module:
    if isinstance(choice, str):
        if choice not in BUILTIN:
            raise ValueError(f"cell is {shown(choice)}; expected one of {sorted(BUILTIN)}, or a callable that makes a module")
        return BUILTIN[choice](inputs, above, hidden, tokens, context)
    if not callable(choice):
        raise TypeError(f"cell is {shown(choice)}; give a name or a callable (input_size, hidden_size) -> nn.Module")
    module = choice(inputs + above * (context == "input"), hidden)
    if not isinstance(module, nn.Module):
        raise TypeError(f"cell returned a {type(module).__name__}; expected an nn.Module with step and initial_state")
    cell = UserCell(module, inputs, above, hidden, tokens, context)
    if cell.starts_from_context:
        with torch.enable_grad():
            if any(part.requires_grad for part in cell.initial_state(1)):
                raise ValueError(
                    f"cell {type(module).__name__} learns its initial state, which context='state' does not use: segments "
                    f"start from the context; give context='input', or an initial_state without parameters"
                )
    return cell

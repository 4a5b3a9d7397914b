"""The built-in cells' ticks in C, where that was compiled: the same numbers as torch's, but for rounding."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from hrnn.cells.builtin import BuiltinCell
from hrnn.cells.contract import Prepared
from hrnn.native.functions import KINDS, Block, Tick, Weights, fits, functions

_WORTH = 30_000_000  # multiplications that are worth a second thread: about half a millisecond of one


def serves(cell: BuiltinCell) -> bool:
    """Can this cell's ticks run in C? Not if its parameters do not fit together: torch says what is wrong with them."""
    return functions(cell.weight_hidden) is not None and all(
        fits(part, cell.weight_hidden.dtype, shape) for part, shape in _parameters(cell) if part is not None
    )


def _parameters(cell: BuiltinCell) -> list[tuple[Tensor | None, tuple[int, ...]]]:
    """What the C reads of a cell, and the shapes that it expects."""
    size, entered = cell.hidden_size, cell.input_columns.stop - cell.input_columns.start
    return [
        (cell.weight_input, (entered, cell.input_size)),
        (cell.weight_context, (entered, cell.context_size)),
        (cell.weight_hidden, (cell.hidden_columns.stop - cell.hidden_columns.start, size)),
        (cell.bias, (entered,)),
        (cell.extra_bias(), (size,)),
    ]


class NativeWeights(Prepared):
    """A cell's weights as the C reads them."""

    def __init__(self, cell: BuiltinCell, own: bool = False):
        """own: they share no memory with the parameters."""
        self._cell, self._own, self._run = cell, own, functions(cell.weight_hidden)
        self._sizes = (KINDS[type(cell).__name__], cell.hidden_size, *_sizes(cell), cell.context_size)
        self._packed = cell.weight_hidden.new_empty(self._run.prepared_size(*self._sizes))
        self._structure = Weights()
        self.address = ctypes.addressof(self._structure)
        self.again()

    def again(self) -> Prepared:
        if not serves(self._cell):
            raise RuntimeError(
                "the parameters of a cell were replaced within a window, by some of another shape, dtype or device; replace "
                "them between windows"
            )
        parts = [None if part is None else part.detach().contiguous() for part, _ in _parameters(self._cell)]
        self._run.prepare(*self._sizes, *map(_address, parts), self._packed.data_ptr(), self.address)
        self.back_input, self.back_context = (part.clone() if self._own and part is not None else part for part in parts[:2])
        return self


class Buffers:
    """The buffers of a block, as the C sees them."""

    def __init__(
        self, cell: BuiltinCell, gates: Tensor, states: Sequence[Tensor], inputs: Tensor, after: Sequence[Tensor] = ()
    ):
        """after: where ticks do not stand in line, an LSTM's c after each."""
        self._run, self._dtype = functions(gates), gates.dtype
        if inputs.dtype != (torch.int64 if cell.tokens else gates.dtype):
            raise RuntimeError(f"a level of {gates.dtype} was given inputs of {inputs.dtype}; let all levels have one dtype")
        memory, later = states[1] if len(states) > 1 else None, after[0] if after else None
        self._block = Block(
            KINDS[type(cell).__name__], gates.shape[1], cell.hidden_size, *_sizes(cell), cell.context_size,
            *map(_address, (gates, states[0], memory, later, inputs)),
        )  # fmt: skip
        self._address = ctypes.addressof(self._block)
        self._gates = gates.shape[2]
        self._of_row = gates.shape[2] * (cell.hidden_size + (0 if cell.tokens else cell.input_size))  # products of a tick

    def _threads(self, ticks: int, rows: int) -> int:
        return torch.get_num_threads() if ticks * rows * self._of_row >= _WORTH else 1

    def forward(
        self, weights: NativeWeights, start: int, stop: int, row: int, rows: int, fresh: bool, context: Tensor | None
    ) -> None:
        """Ticks start to stop of some rows; `fresh`: from zero, with the context (rows, context_size), if there is one."""
        self._check(context)
        entering, threads = _address(context), self._threads(stop - start, rows)
        self._run.forward(self._address, weights.address, start, stop, row, rows, fresh, entering, threads)

    def _check(self, context: Tensor | None) -> None:
        if context is not None and context.dtype is not self._dtype:
            raise RuntimeError(
                f"a level of {self._dtype} was given a context of {context.dtype}; let all levels have one dtype"
            )

    def sweep(
        self,
        weights: NativeWeights,
        first: int,
        last: int,
        d_hidden: Tensor,
        carry: list[Tensor],
        out: Tensor,
        starts: bool,
        keep: Tensor | None = None,
    ) -> None:
        """Backward through ticks; arguments as in `Block._sweep`. keep (ticks, rows, 1): 0 where a row has no state before."""
        before = None if starts else torch.empty_like(carry[0])
        room = None if keep is None else torch.empty_like(carry[0])
        self._run.sweep(
            self._address, weights.address, first, last,
            *map(_address, (d_hidden, carry[1] if len(carry) > 1 else None, out, before, keep, room)),
            self._threads(last - first, out.shape[1]),
        )  # fmt: skip
        if before is not None:
            carry[0] = before


class Rows(Buffers):
    """Those of one tick, of rows that each go their own way: gates (rows, gates) and so on; `after` is there for an LSTM."""

    def __init__(
        self, cell: BuiltinCell, gates: Tensor, before: Sequence[Tensor], inputs: Tensor, after: Sequence[Tensor] = ()
    ):
        super().__init__(cell, gates[None], before, inputs, after)
        self._rows, self._before = len(gates), before

    def enter(self, weights: NativeWeights) -> None:
        """The products that do not depend on the state."""
        self._run.enter(self._address, weights.address, self._rows)

    def tick(
        self,
        weights: NativeWeights,
        rows: Tensor | None,
        starts: bool,
        mask: Tensor | None,
        context: Tensor | None,
        receivers: Tensor | None,
        state: Sequence[Tensor],
        output: Tensor,
    ) -> None:
        """One tick of `rows` of the state, or of all, whose inputs have entered: the state is brought up to date, the state
        before and the output are written. starts: some start a segment, those in `mask` (rows), or all; the context (n,
        context) is for the rows numbered by `receivers` (n), or for all."""
        context = None if context is None or not starts else context.contiguous()
        self._check(context)
        room = None if receivers is None or context is None else output.new_empty(len(context), self._gates)
        fresh = 0 if not starts else 2 if mask is None else 1
        self._run.tick(
            self._address,
            weights.address,
            ctypes.byref(
                Tick(
                    self._rows, 0 if context is None else len(context), fresh,
                    *map(_address, (rows, mask, context, receivers)),
                    *(_address(part) for part in (state[0], state[1] if len(state) > 1 else None)),
                    *(_address(part) for part in (self._before[0], self._before[1] if len(state) > 1 else None)),
                    _address(output), _address(room),
                )
            ),
        )  # fmt: skip


def _sizes(cell: BuiltinCell) -> tuple[int, int]:
    """The vocabulary of tokens, or 0; the size of vectors, or 0."""
    return (cell.input_size, 0) if cell.tokens else (0, cell.input_size)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()

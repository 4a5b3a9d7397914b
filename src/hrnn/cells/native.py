"""The built-in cells' ticks in C, where that was compiled: the same numbers as torch's, but for rounding."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from hrnn.cells.builtin import BuiltinCell
from hrnn.native.functions import KINDS, Block, Weights, fits, functions

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


class NativeWeights:
    """A cell's weights as the C reads them."""

    def __init__(self, cell: BuiltinCell):
        self._cell, self._run = cell, functions(cell.weight_hidden)
        self._sizes = (KINDS[type(cell).__name__], cell.hidden_size, *_sizes(cell), cell.context_size)
        self._packed = cell.weight_hidden.new_empty(self._run.prepared_size(*self._sizes))
        self._structure = Weights()
        self.address = ctypes.addressof(self._structure)
        self.again()

    def again(self) -> None:
        """The parameters have moved."""
        if not serves(self._cell):
            raise RuntimeError(
                "the parameters of a cell were replaced within a window, by some of another shape, dtype or device; replace "
                "them between windows"
            )
        parts = [None if part is None else part.detach().contiguous() for part, _ in _parameters(self._cell)]
        self._run.prepare(*self._sizes, *map(_address, parts), self._packed.data_ptr(), self.address)
        self.back_input, self.back_context = parts[:2]


class Buffers:
    """The buffers of a block, as the C sees them."""

    def __init__(self, cell: BuiltinCell, gates: Tensor, states: Sequence[Tensor], inputs: Tensor):
        self._run, self._dtype = functions(gates), gates.dtype
        if inputs.dtype != (torch.int64 if cell.tokens else gates.dtype):
            raise RuntimeError(f"a level of {gates.dtype} was given inputs of {inputs.dtype}; let all levels have one dtype")
        memory = states[1] if len(states) > 1 else None
        self._block = Block(
            KINDS[type(cell).__name__], gates.shape[1], cell.hidden_size, *_sizes(cell), cell.context_size,
            *map(_address, (gates, states[0], memory, inputs)),
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
    ) -> None:
        """Backward through ticks: out (ticks, places, gates) gets the gradients of the gates' inputs, carry that of the state
        before the first; of its hidden state only if that is not zero because a segment `starts`."""
        before = None if starts else torch.empty_like(carry[0])
        self._run.sweep(
            self._address, weights.address, first, last,
            *map(_address, (d_hidden, carry[1] if len(carry) > 1 else None, out, before)),
            self._threads(last - first, out.shape[1]),
        )  # fmt: skip
        if before is not None:
            carry[0] = before


def _sizes(cell: BuiltinCell) -> tuple[int, int]:
    """The vocabulary of tokens, or 0; the size of vectors, or 0."""
    return (cell.input_size, 0) if cell.tokens else (0, cell.input_size)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()

"""Recurrent cells: built in, differentiated by hand, or a user's own, differentiated by autograd."""

from hrnn.cells.builtin import BuiltinCell
from hrnn.cells.contract import CellState, UserCell
from hrnn.cells.exchange import from_torch, to_torch
from hrnn.cells.gru import GRU
from hrnn.cells.lstm import LSTM
from hrnn.cells.rnn import RNN
from hrnn.unchanged import unchanged

Cell = BuiltinCell | UserCell
BUILTIN: dict[str, type[BuiltinCell]] = {"lstm": LSTM, "gru": GRU, "rnn": RNN}

__all__ = ["BUILTIN", "GRU", "LSTM", "RNN", "BuiltinCell", "Cell", "CellState", "UserCell", "by_hand", "from_torch", "to_torch"]


def by_hand(cell: object) -> bool:
    """Is this a built-in cell as it was made, to be differentiated by hand? One that a user has parametrised, pruned or given
    hooks is run and differentiated like a user's own."""
    if not isinstance(cell, BuiltinCell) or type(cell) not in BUILTIN.values():
        return False
    parameters = 3 + (cell.context_size > 0) + cell.starts_from_context + (type(cell) is GRU)
    return unchanged([cell], [type(cell)], parameters)

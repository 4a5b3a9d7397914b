"""Recurrent cells: built in, differentiated by hand, or a user's own, differentiated by autograd."""

from hrnn.cells.builtin import BuiltinCell
from hrnn.cells.contract import CellState, UserCell
from hrnn.cells.exchange import from_torch, to_torch
from hrnn.cells.gru import GRU
from hrnn.cells.lstm import LSTM
from hrnn.cells.rnn import RNN

Cell = BuiltinCell | UserCell
BUILTIN: dict[str, type[BuiltinCell]] = {"lstm": LSTM, "gru": GRU, "rnn": RNN}

__all__ = ["BUILTIN", "GRU", "LSTM", "RNN", "BuiltinCell", "Cell", "CellState", "UserCell", "from_torch", "to_torch"]

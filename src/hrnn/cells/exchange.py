"""Weights from and to `torch.nn.LSTM`, `GRU` and `RNN` (one layer, one direction)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from hrnn.cells.builtin import BuiltinCell
from hrnn.cells.gru import GRU
from hrnn.cells.lstm import LSTM
from hrnn.cells.rnn import RNN

_PARTNERS: dict[Any, type[BuiltinCell]] = {nn.LSTM: LSTM, nn.GRU: GRU, nn.RNN: RNN}


def _check(cell: nn.Module, other: Any) -> BuiltinCell:
    expected = _PARTNERS.get(type(other))
    if expected is None or not isinstance(cell, expected):
        raise TypeError(f"a cell of type {type(cell).__name__} cannot exchange weights with {type(other).__name__}")
    if other.num_layers != 1 or other.bidirectional or other.proj_size or getattr(other, "nonlinearity", "tanh") != "tanh":
        raise ValueError(f"{other} has several layers, directions, a projection or a relu; one plain layer is expected")
    if cell.starts_from_context:
        raise ValueError("the cell starts from its context (context='state'), for which a layer of torch has no weights")
    inputs = cell.input_size + cell.context_size
    if (other.input_size, other.hidden_size) != (inputs, cell.hidden_size):
        raise ValueError(
            f"{other} has sizes ({other.input_size}, {other.hidden_size}); expected ({inputs}, {cell.hidden_size}), "
            f"that is (input_size + context_size, hidden_size)"
        )
    return cell


def from_torch(cell: nn.Module, other: Any) -> None:
    """Copy the weights of a torch layer over [input, context] into `cell`. Biases of theirs that only add up are added."""
    cell = _check(cell, other)
    size = cell.hidden_size
    with torch.no_grad():
        entering, recurrent = other.weight_ih_l0, other.weight_hh_l0
        cell.weight_input.copy_(entering[:, : cell.input_size])
        if cell.weight_context is not None:
            cell.weight_context.copy_(entering[:, cell.input_size :])
        b_i = other.bias_ih_l0 if other.bias else torch.zeros_like(cell.bias)
        b_h = other.bias_hh_l0 if other.bias else torch.zeros_like(cell.bias)
        if isinstance(cell, GRU):
            cell.weight_hidden.copy_(torch.cat([recurrent[2 * size :], recurrent[: 2 * size]]))
            cell.bias.copy_(torch.cat([b_i[: 2 * size] + b_h[: 2 * size], b_i[2 * size :]]))
            cell.bias_hidden.copy_(b_h[2 * size :])
        else:
            cell.weight_hidden.copy_(recurrent)
            cell.bias.copy_(b_i + b_h)


def to_torch(cell: nn.Module) -> Any:
    """A torch layer over [input, context] that computes what `cell` does; a token is a one-hot vector there."""
    partner = next((torch_type for torch_type, own in _PARTNERS.items() if isinstance(cell, own)), None)
    if partner is None or not isinstance(cell, BuiltinCell):
        raise TypeError(f"a cell of type {type(cell).__name__} has no counterpart in torch.nn")
    if cell.starts_from_context:
        raise ValueError("the cell starts from its context (context='state'), for which a layer of torch has no weights")
    other: Any = partner(cell.input_size + cell.context_size, cell.hidden_size)
    other = other.to(cell.bias.device, cell.bias.dtype)
    with torch.no_grad():
        entering, recurrent, bias, hidden_bias = cell.torch_weights()
        context = [] if cell.weight_context is None else [cell.weight_context]
        other.weight_ih_l0.copy_(torch.cat([entering, *context], 1))
        other.weight_hh_l0.copy_(recurrent)
        other.bias_ih_l0.copy_(bias)
        other.bias_hh_l0.copy_(hidden_bias)
    return other

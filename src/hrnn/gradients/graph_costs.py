"""What a state and a step's graph will take, before a window is run: reckoned for the built-in cells, tried out for others."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from hrnn.cells import BUILTIN, BuiltinCell
from hrnn.cells.native import serves
from hrnn.forward import Forward, in_phase
from hrnn.gradients.piece import Pieces
from hrnn.recomputation import Costs, costs_of_levels
from hrnn.room import OVERHEAD
from hrnn.segments import reach_of

_TRIED = 64  # steps
_NODE = 1500  # bytes of the objects that autograd has for a tensor that it keeps
_LOST = 4 / 3  # what tensors took in processes, of what they should: 1.2 to 1.5, as they are large or small


def costs_of(run: Pieces) -> Costs:
    """Of a window's pieces."""
    window, model = run.window, run.model
    state = window.state
    size = sum(t.nbytes for cell in state.cells for t in cell) + sum(t.nbytes for t in state.history) + 33 * state.batch
    weights = sum(p.nbytes for p in model.parameters())
    names = {kind: name for name, kind in BUILTIN.items()}
    if window.in_phase and in_phase(model.levels, model.periods, state.clock):
        builtin = [cell for cell in model.levels if isinstance(cell, BuiltinCell)]
        cells = [names[type(cell)] for cell in builtin]
        reckoned = costs_of_levels(
            model.hidden_sizes, [reach_of(p) for p in model.periods], state.batch, cells=cells, inputs=model.input_size,
            tokens=model.tokens, decoder_units=model.config["decoder_units"], width=model.dtype.itemsize,
            shown=model.output_size, native=all(map(serves, builtin)),
        )  # fmt: skip
        return replace(reckoned, state=size)
    return Costs(5 * weights + OVERHEAD, size, int(_LOST * _tried(run)))


def _tried(run: Pieces) -> int:
    """What autograd keeps of a step, on the average over the first ones."""
    model, seen, objects = run.model, {}, 0
    there = {p.untyped_storage().data_ptr() for p in model.parameters()}  # anyway
    stop = min(_TRIED, run.window.steps)

    def kept(tensor: Tensor) -> Tensor:
        nonlocal objects
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in there:
            seen[storage.data_ptr()] = storage.nbytes()
        objects += _NODE
        return tensor.detach()  # itself it would keep itself alive

    at, device = run.begin(), model.device
    devices, kind = ([], "cuda") if device.type == "cpu" else ([device], device.type)
    random = torch.random.fork_rng(devices, device_type=kind)
    with torch.enable_grad(), random, torch.autograd.graph.saved_tensors_hooks(kept, lambda t: t):
        forward = Forward.resumed(model.levels, model.periods, at, None, run.restricted, shows_all=model.shows_all)
        for chunk in run.steps.chunks(0, stop):
            there.add(chunk.x.untyped_storage().data_ptr())
            forward.feed(chunk.x.detach(), chunk.boundaries, chunk.lengths, chunk.reset)
    outputs = 2 * sum(cell[0].nbytes for cell in at.state.cells[: len(model.levels) if model.shows_all else 1])
    return (sum(seen.values()) + objects) // stop + outputs

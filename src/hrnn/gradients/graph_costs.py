"""What a state and a step's graph will take, before a window is run: reckoned for the built-in cells, tried out for others."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from hrnn.cells import BUILTIN, BuiltinCell, by_hand
from hrnn.executor import Run
from hrnn.gradients.pieces import Pieces
from hrnn.gradients.steps import piece
from hrnn.recomputation import Costs, costs_of_levels
from hrnn.room import OVERHEAD
from hrnn.segments import Behind, reach_of

_TRIED = 64  # steps
_NODE = 1500  # bytes of the objects that autograd has for a tensor that it keeps
_LOST = 4 / 3  # what tensors took in processes, of what they should: 1.2 to 1.5, as they are large or small


def costs_of(run: Pieces) -> Costs:
    """Of a window's pieces."""
    window, model, state = run.window, run.window.model, run.window.state
    kept = [*(t for cell in state.cells for t in cell), *state.history, *state.raw.values()]
    size = sum(t.nbytes for t in kept) + 33 * state.batch
    names = {kind: name for name, kind in BUILTIN.items()}
    cells = [names[type(cell)] for cell in model.levels if isinstance(cell, BuiltinCell) and by_hand(cell)]
    if len(cells) == len(model.levels) and window.in_phase and not window.may_part and model.paper_edges:
        reckoned = costs_of_levels(
            model.hidden_sizes, [reach_of(p) for p in model.periods], state.batch, cells=cells, inputs=model.input_size,
            decoder_units=model.config["decoder_units"], outputs=0, shown=model.output_size, tokens=model.tokens,
            width=model.dtype.itemsize,
        )  # fmt: skip
        return replace(reckoned, state=size)
    weights = sum(p.nbytes for p in model.parameters())
    return Costs(5 * weights + OVERHEAD, size, int(_LOST * _tried(run)))


def _tried(run: Pieces) -> int:
    """What autograd keeps of a step, on the average over the first ones."""
    model, seen, objects = run.window.model, {}, 0
    there = {p.untyped_storage().data_ptr() for p in model.parameters()}  # anyway
    stop = min(_TRIED, run.window.steps)

    def kept(tensor: Tensor) -> Tensor:
        nonlocal objects
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in there:
            seen[storage.data_ptr()] = storage.nbytes()
        objects += _NODE
        return tensor.detach()  # itself it would keep itself alive

    state, device = run.window.state, model.device
    devices, kind = ([], "cuda") if device.type == "cpu" else ([device], device.type)
    random = torch.random.fork_rng(devices, device_type=kind)
    with torch.enable_grad(), random, torch.autograd.graph.saved_tensors_hooks(kept, lambda t: t):
        steps = piece(list(run.steps.chunks(0, stop)), 0, Behind())
        there.add(steps.x.untyped_storage().data_ptr())
        tried = Run(model.levels, state, run.window.wiring, list(model.readers), shows_all=model.shows_all)
        tried.run(steps.plan(run.window, state.clock, True), steps.x.detach())
    outputs = 2 * sum(cell[0].nbytes for cell in state.cells[: len(model.levels) if model.shows_all else 1])
    return (sum(seen.values()) + objects) // stop + outputs

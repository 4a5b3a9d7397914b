"""Whether a run can be begun: its options and its data fit each other, and all of it fits this machine, before anything is
allocated. Every figure is a lower bound: what is refused surely does not fit, and what passes may still be too much."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch

from hrnn.errors import UserError
from hrnn.gradients import Checkpointed
from hrnn.parallel import ALONE, Group
from hrnn.readers import UserReader
from hrnn.room import in_words, input_sizes, memory_of_machine, weight_numbers
from hrnn.tasks import Window
from hrnn.training import edges
from hrnn.training.config import Config
from hrnn.training.methods import enough_memory, parsed
from hrnn.training.network import Network, build, reading

FLOAT, TOKEN = 4, 8
TRIED = 64  # steps
SHARE = 0.95  # of the machine's memory; the rest is what the system and the interpreter have
GATES = {"lstm": 4, "gru": 3, "rnn": 1}  # a user's own cell counts as nothing
MOMENTS = {"sgd": 0, "rmsprop": 1, "adagrad": 1}  # vectors of the optimizer to one of weights; two elsewhere
REMEDIES = {
    "weights": "--hidden-sizes, --periods or --decoder-units",
    "batches": "--batch, or shorter sequences",
    "windows": "--window, --batch, --hidden-sizes or --periods",
}


def check(config: Config[Any], group: Group = ALONE) -> Network:
    """Find mistakes in options and data now, not when the first validation comes, and before there is a folder. Returns the
    network, which was built for it."""
    require_room(config, group)
    if config.model.symbol_weights != "equal" and isinstance(config.task.inputs, int):
        raise UserError(
            f"--symbol-weights {config.model.symbol_weights} is for symbols, and the inputs of this task are vectors; drop it"
        )
    network = build(config)
    _try_readers(network, config.model.reader)
    task, budget, read = config.task, config.budget, reading(config, group)
    per_epoch = task.batches_per_epoch(read)
    if per_epoch is None and budget.epochs is not None:
        raise UserError("--epochs is for tasks whose data end; give --updates or --sequences")
    if (budget.validate_every or budget.stop_after) and "validation" not in task.parts():
        raise UserError("--validate-every and --stop-after are for tasks with a validation part; this one has none")
    if budget.stop_after and not (budget.validate_every or per_epoch):
        raise UserError("--stop-after counts validations; give --validate-every, too")
    first = next(iter(task.batch(0, read).windows))
    if isinstance(network.method, Checkpointed) and network.method.bytes is not None:
        with enough_memory(config.model.gradient):
            _try_out(network, first)
    for part in task.parts():
        next(iter(task.evaluation(part, read)))
    return network


def _try_readers(network: Network, names: Sequence[str]) -> None:
    """A user's reader that gives another size is found now, on a copy, not in the first window."""
    for reader, name in zip(network.levels.readers, names, strict=True):
        if isinstance(reader, UserReader):
            places = torch.zeros(1, math.prod(reader.parts), *[] if reader.tokens else [reader.input_size])
            try:
                with torch.random.fork_rng(devices=[]), torch.no_grad():
                    copy.deepcopy(reader)(places.long() if reader.tokens else places)
            except (ValueError, TypeError, RuntimeError) as error:
                raise UserError(f"--reader {name} cannot be used: {error}") from None


def _try_out(network: Network, window: Window) -> None:
    """The first steps of a window, forward and backward, on a copy: a method may refuse the memory that it was given."""
    levels, steps = copy.deepcopy(network.levels), min(window.steps, TRIED)
    boundaries, reset = (None if value is None else value[:steps] for value in (window.boundaries, window.reset))
    with torch.random.fork_rng(devices=[]):
        network.method.backward(
            levels,
            window.x[:steps],
            window.y[:steps],
            loss=lambda output, target: output.sum(-1),
            boundaries=boundaries if any(not isinstance(period, int) for period in levels.periods) else None,
            lengths=None if window.lengths is None else window.lengths.clamp(max=steps),
            reset=reset,
        )


def require_room(config: Config[Any], group: Group = ALONE, *, learning: bool = True) -> None:
    """Refuse a run, or only its evaluation, that surely needs more than the machine has."""
    there, needs = memory_of_machine(), bytes_needed(config, group, learning=learning)
    total = sum(needs.values())
    if there is not None and total > SHARE * there:
        most = max(needs, key=lambda name: needs[name])
        raise UserError(
            f"the run needs about {in_words(total)}, {in_words(needs[most])} of it for its {most}, and this machine has "
            f"{in_words(there)}; give a smaller {REMEDIES[most]}"
        )


def bytes_needed(config: Config[Any], group: Group = ALONE, *, learning: bool = True) -> dict[str, int]:
    """At least so many bytes: weights with their gradients and moments, one batch, and what a window keeps."""
    moments, restricted = MOMENTS.get(config.learning.optimizer, 2), config.model.restricted
    averaged = config.learning.average is not None
    # Weights, gradients (restricted ones are gathered apart), average, moments, and a checkpoint of all but gradients.
    copies = 1 + 1 + restricted + averaged + moments + 1 + averaged + moments if learning else 1
    needs = {"weights": FLOAT * copies * weights(config), "batches": 0, "windows": 0}
    read = reading(config, group)
    steps, inputs, rows = config.task.steps_of_batch(read), config.task.inputs, len(read.rows)
    state = FLOAT * rows * (sum(config.hidden_sizes) + history(config))
    if steps is None:
        return {**needs, "windows": state}
    place = FLOAT * inputs if isinstance(inputs, int) else 2 * TOKEN
    needs["batches"] = steps * rows * place
    window = min(steps, read.window)
    # The output for all steps, or, where gradients are taken, what every level keeps of its ticks.
    kept = window * config.output_size if not learning else ticks_kept(config, window)
    needs["windows"] = FLOAT * rows * kept + state
    return needs


def history(config: Config[Any]) -> int:
    """Numbers of one row's state that are asked for later: of decoders, what every level below the top has read; the raw inputs
    of readers and of a burn-in."""
    reaches = (*config.reaches, *config.periods)
    wiring, inputs = edges.of(config.model, reaches), config.task.inputs
    width = inputs if isinstance(inputs, int) else TOKEN // FLOAT
    widths = (width, *input_sizes(width, config.hidden_sizes, wiring.reads)[1:])
    decoded = sum(reach * widths[level] for level, reach in enumerate(reaches) if wiring.sends(level))
    return decoded + width * (wiring.places(wiring.highest) + wiring.burn_in)


def ticks_kept(config: Config[Any], window: int) -> int:
    """Numbers that the gradient of one row keeps: with true gradients those of all ticks, else those of a segment of each level
    below the top. Where the data say when levels tick, only the lowest level's share is known, of restricted ones a tick."""
    gates, (method, knob) = GATES.get(config.model.cell, 1), parsed(config.model.method)
    restricted, window = method.restricted, method.keeps(window, knob)
    if config.reaches:
        return gates * config.hidden_sizes[0] * (1 if restricted else window)
    total, ticks = 0, window
    for level, size in enumerate(config.hidden_sizes):
        period = config.periods[level] if level < len(config.periods) else None
        kept = min(period, ticks) if restricted and period else ticks
        total += gates * size * kept
        ticks = math.ceil(ticks / period) if period else ticks
    return total


def weights(config: Config[Any]) -> int:
    """Numbers that are learned, those of a user's own cells left out."""
    inputs, model, reaches = config.task.inputs, config.model, (*config.reaches, *config.periods)
    levels = weight_numbers(
        config.hidden_sizes,
        reaches,
        [model.cell] * len(config.hidden_sizes),
        inputs=inputs if isinstance(inputs, int) else inputs.count,
        decoder_layers=[model.decoder_layers] * len(reaches),
        decoder_units=[model.decoder_units] * len(reaches),
        decoders=True,
        reads=model.reads,
        context=model.context,
        readers=[
            one if read != "summary" and ":" not in one else None for one, read in zip(model.reader, model.reads, strict=True)
        ],
    )
    head: int = (config.output_size + 1) * config.task.outputs
    return levels + head

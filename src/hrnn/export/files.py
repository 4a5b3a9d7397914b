"""Models as files for other programs: ONNX and torch.export, each with a small JSON file beside it."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import hrnn
from hrnn.arguments import flag, path_of, shown
from hrnn.errors import UserError, require_extra
from hrnn.export import metadata
from hrnn.export.checking import TOLERANCE, Run, largest_difference
from hrnn.export.step import Step
from hrnn.export.window import Window
from hrnn.files import write_atomically
from hrnn.hierarchy import HRNN
from hrnn.readers import UserReader

CHECKED_STEPS = 100


def to_onnx(
    model: HRNN,
    path: str | Path,
    *,
    head: nn.Module | None = None,
    before: nn.Module | None = None,
    example: Tensor | None = None,
    facts: dict[str, Any] | None = None,
    check: bool = True,
) -> dict[str, Any]:
    """One streaming step as an ONNX model: x, the state and, where levels have given ones, boundaries, to output and new_state.
    The batch is free, and each row is at its own place. Returns what is written beside it, and also into it, under "hrnn".

    head, before: as `hrnn.export.Step` has them
    example:      (n, ...) inputs as `before` takes them; needed with it
    facts:        what else is to be written down, as JSON can hold it
    check:        run the file in onnxruntime against the model over a hundred steps, and raise if it differs
    """
    require_extra("onnx", "export to ONNX")
    import onnx

    path, step = _file(path, ".onnx"), Step(model, head, before)
    _check_readers(step)
    x, boundaries = _examples(step, example)
    arguments = [x, step.initial_state(len(x))] + ([] if boundaries is None else [boundaries])
    names = ["x", "state", "boundaries"][: len(arguments)]
    with _quiet():
        program = torch.onnx.export(
            step,
            tuple(arguments),
            dynamo=True,
            input_names=names,
            output_names=["output", "new_state"],
            dynamic_shapes=tuple(_free_batch() for _ in arguments),
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    _forget_where(proto)
    entries = _entries(model, "one step, ONNX", facts) | metadata.of_step(step, x, boundaries, arguments, None)
    entry = proto.metadata_props.add()
    entry.key, entry.value = "hrnn", json.dumps(entries)
    proto.producer_name, proto.producer_version = "hrnn", hrnn.__version__
    onnx.checker.check_model(proto)
    content = proto.SerializeToString()
    if flag("check", check):
        entries |= _checked(_in_onnxruntime(content), step, model, x)
    write_atomically(path, content)
    metadata.write(path, entries)
    return entries


def to_torch_export(
    model: HRNN,
    path: str | Path,
    *,
    head: nn.Module | None = None,
    before: nn.Module | None = None,
    example: Tensor | None = None,
    steps: int | None = None,
    facts: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One streaming step, or a whole window of `steps` from a fresh state, as a file that `torch.export.load` reads. The other
    arguments, and what is returned, as in `to_onnx`."""
    path, step = _file(path, ".pt2"), Step(model, head, before)
    _check_readers(step)
    x, boundaries = _examples(step, example)
    given = [] if boundaries is None else [boundaries]
    module: Step | Window = step
    arguments = [x, step.initial_state(len(x)), *given]
    if steps is not None:
        module = Window(step, steps)
        arguments = [tensor.expand(steps, *tensor.shape).clone() for tensor in (x, *given)]
    axis = 0 if steps is None else 1
    with _quiet(), torch.no_grad():
        program = torch.export.export(
            module, tuple(arguments), dynamic_shapes=tuple(_free_batch(axis) for _ in arguments), strict=False
        )
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)  # paths of this machine
    kind = "one step, torch.export" if steps is None else f"a window of {steps} steps from a fresh state, torch.export"
    entries = _entries(model, kind, facts) | metadata.of_step(module, x, boundaries, arguments, steps)
    if steps is None:
        runs: Any = program.module()
        entries |= _checked(lambda *given: runs(*[t for t in given if t is not None]), step, model, x)
    content = io.BytesIO()
    torch.export.save(program, content)
    write_atomically(path, content.getvalue())
    metadata.write(path, entries)
    return entries


def _entries(model: HRNN, kind: str, facts: dict[str, Any] | None) -> dict[str, Any]:
    metadata.check(facts)
    return metadata.of_model(model, kind) | {"hrnn": hrnn.__version__, "torch": torch.__version__} | (facts or {})


def _file(path: str | Path, ending: str) -> Path:
    """Where the file goes, refused before anything is computed."""
    found = path_of("path", path)
    if found.suffix != ending or found.is_dir() or not found.parent.is_dir():
        raise ValueError(f"path is {shown(str(path))}; give the name of a file in an existing folder, ending in {ending}")
    return found


def _examples(step: Step, example: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """At least two rows of inputs, and boundaries where they are given: a batch of one would not be taken for any."""
    if example is None and not isinstance(step.before, nn.Identity):
        raise ValueError("example is None, and before says nothing of what it reads; give some inputs, (n, ...)")
    if example is None:
        example = torch.zeros(2, dtype=torch.int64) if step.tokens else torch.zeros(2, step.input_size, dtype=step.dtype)
    if not isinstance(example, Tensor) or example.dim() < 1 or not len(example):
        raise ValueError(f"example is {shown(example)}; give a tensor of inputs, (n, ...)")
    x = example.cpu()
    x = torch.cat([x, x]) if len(x) == 1 else x
    flags = torch.zeros(len(x), step.given, dtype=torch.bool)
    return x, None if not step.given else flags[:, 0] if step.given == 1 else flags


def _free_batch(axis: int = 0) -> dict[int, Any]:
    return {axis: torch.export.Dim("batch", max=2**31)}  # torch 2.6 refuses a batch without an end


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what exporters say of things that are not used."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.fx.experimental.symbolic_shapes")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _check_readers(step: Step) -> None:
    """Refuse readers of the user's that torch does not export: what it says of the whole step would be pages long."""
    for level, reader in enumerate(step.readers, start=1):
        if isinstance(reader, UserReader):
            shape = (2, step.edges.places(level), *[step.input_size] * (not step.tokens))
            places = torch.zeros(shape, dtype=torch.int64 if step.tokens else step.dtype)
            try:
                with _quiet(), redirect_stderr(io.StringIO()):
                    torch.export.export(reader, (places,), dynamic_shapes=(_free_batch(),), strict=False)
            except Exception as error:
                raise ValueError(
                    f"level {level} has a reader of your own, {type(reader.module).__name__}, that torch.export does not take "
                    f"({type(error).__name__}); write it in torch's operations, for any number of rows, without a branch that "
                    f"depends on them"
                ) from error


def _forget_where(proto: Any) -> None:
    """The exporter notes lines of source files with their paths, which are nobody's business."""
    for part in (proto.graph, *proto.graph.node, *proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    proto.ClearField("metadata_props")


def _in_onnxruntime(content: bytes) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def run(x: Tensor, state: Tensor, boundaries: Tensor | None) -> tuple[Tensor, Tensor]:
        given = {"x": x, "state": state} | ({} if boundaries is None else {"boundaries": boundaries})
        output, new_state = session.run(None, {name: value.numpy() for name, value in given.items()})
        return torch.from_numpy(output), torch.from_numpy(new_state)

    return run


def _checked(run: Run, step: Step, model: HRNN, example: Tensor) -> dict[str, Any]:
    """How far the exported step is from the model; too far is an error."""
    found, most = largest_difference(run, step, model, example, CHECKED_STEPS), TOLERANCE[step.dtype]
    if not found <= most:
        raise UserError(f"the exported step differs from the model by {found:.2g} after {CHECKED_STEPS} steps; not written")
    return {"checked": {"steps": CHECKED_STEPS, "largest_difference": found}}

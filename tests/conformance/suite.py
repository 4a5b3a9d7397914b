"""What every gradient method has to give, on every executor, in any case: what the oracle says.

A method or an executor is one entry here, or in a test of its own that calls `check` with it, and receives every test.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F

import hrnn
from hrnn import native
from hrnn.native import functions
from hrnn.streaming import in_c
from tests.conformance.cases import Built, Case, Window, build, chunks
from tests.helpers import seeded
from tests.oracle import Oracle, Row

EXACT = 1e-10  # of the largest entry, in float64


class Method(NamedTuple):
    """What it is compared with (see `oracle`), and a constructor."""

    truth: str
    make: Callable[[Case, hrnn.HRNN], hrnn.gradients.Gradient]
    once: bool = False  # does it take chunks that can be read only once?
    edges: bool = False  # must a level read a summary?
    zeros: bool = False  # does it give zeros where there is no loss at all, instead of nothing?

    def suits(self, case: Case) -> bool:
        return any(case.sends) or not self.edges

    def truth_of(self, case: Case) -> str:
        """Where no level reads a summary, nothing is cut."""
        return "full" if self.truth == "restricted" and not any(case.sends) else self.truth


def synthetic(case: Case, model: hrnn.HRNN) -> hrnn.Synthetic:
    method = hrnn.Synthetic(model, 3, round_steps=case.round_steps).double()
    torch.manual_seed(case.seed)
    for parameter in method.parameters():
        torch.nn.init.uniform_(parameter, -0.5, 0.5)
    return method.to(model.dtype)


METHODS = {
    "full": Method("full", lambda case, model: hrnn.Full(), once=True),
    "checkpointed": Method("full", lambda case, model: hrnn.Checkpointed(every=case.piece)),
    "truncated": Method("truncated", lambda case, model: hrnn.Truncated(case.piece), once=True),
    "restricted": Method("restricted", lambda case, model: hrnn.Restricted(case.round_steps), once=True),
    "checkpointed top": Method("restricted", lambda case, model: hrnn.Restricted(top="checkpointed"), zeros=True),
    "replay": Method("replay", lambda case, model: hrnn.Restricted(case.round_steps, replay=case.replay), edges=True),
    "synthetic": Method("synthetic", synthetic, once=True, edges=True, zeros=True),
}


@contextmanager
def literal() -> Iterator[None]:
    """Nothing that was compiled."""

    def nothing(dtype: torch.dtype) -> None:
        return None

    with patch.object(functions, "_of_level", nothing), patch.object(in_c, "function", nothing):
        yield


Executors = Mapping[str, Callable[[], AbstractContextManager]]
EXECUTORS: dict[str, Callable[[], AbstractContextManager]] = {"literal": literal}
if native.library() is not None:
    EXECUTORS["compiled"] = nullcontext


class Outcome(NamedTuple):
    """Of one window: gradients by name, of the parameters, of x and of a state, None where there is none; all other numbers; of
    the output times `upstream` the same gradients, as autograd finds them through a forward pass."""

    gradients: dict[str, Tensor | None]
    values: dict[str, Tensor]
    forward: dict[str, Tensor | None] = {}  # noqa: RUF012


class DisagreementError(AssertionError):
    def __init__(self, case: Case, who: str, what: str):
        super().__init__(f"{who}: {what}\n{case}")
        self.who, self.what = who, what


# ------------------------------------------------------------------------------------------------------ what is expected


def loss_of(head: torch.nn.Module) -> Callable[[Tensor, Tensor], tuple[Tensor, dict[str, Tensor]]]:
    def loss(output: Tensor, target: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        logits = head(output)
        values = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view(target.shape)
        return values, {"right": logits.argmax(-1) == target}

    return loss


def counts(window: Mapping[str, Any]) -> dict[str, int]:
    """Targets, and steps of all rows."""
    steps, batch = window["y"].shape
    valid = torch.ones(steps, batch, dtype=torch.bool)
    if window["lengths"] is not None:
        valid = torch.arange(steps)[:, None] < window["lengths"]
    targets = valid if window["mask"] is None else valid & window["mask"]
    return {"targets": int(targets.sum()), "steps": int(valid.sum())}


def weights(window: Mapping[str, Any]) -> dict[str, float]:
    """As `backward` has them by default."""
    found = counts(window)
    return {"weight": 1 / max(1, found["targets"]), "local_weight": 1 / max(1, found["steps"])}


def asked(case: Case, window: Mapping[str, Any], number: int) -> dict[str, Any]:
    """What an oracle is asked for a window, beside x, y and the loss."""
    seed = int(torch.randint(2**63 - 1, (), generator=seeded(number)))
    options = {name: window[name] for name in ("mask", "boundaries", "lengths", "reset")}
    return options | weights(window) | {"betas": list(case.betas), "seed": seed}


def upstream(output: Tensor, number: int) -> Tensor:
    return torch.randn(output.shape, generator=seeded(number), dtype=torch.float64).to(output.dtype)


def oracle(case: Case, model: hrnn.HRNN, truth: str) -> Oracle:
    return Oracle(
        model, case.batch, truth == "restricted", replay=case.replay if truth == "replay" else None,
        synthetic=synthetic(case, model).networks if truth == "synthetic" else None,
        every=case.piece if truth == "truncated" else None,
    )  # fmt: skip


@functools.lru_cache(maxsize=16)
def expected(case: Case, truth: str) -> list[Outcome]:
    """What each window gives, by the oracle."""
    built, found = build(case), []
    one, loss = oracle(case, built.model, truth), loss_of(built.head)
    parameters = named(model=built.model, head=built.head)
    for number, window in enumerate(built.windows):
        x, arguments = window["x"].clone().requires_grad_(not case.tokens), asked(case, window, number)
        output, total, task, local = one.window(x, window["y"], loss=lambda *a: loss(*a)[0], **arguments)
        begun = {
            f"state {i} {j} {b}": p for b, row in enumerate(one.begun) for i, cell in enumerate(row) for j, p in enumerate(cell)
        }
        wanted = parameters | begun | ({} if case.tokens else {"x": x})
        gradients = by_autograd(total, wanted)
        passed = by_autograd((output * upstream(output, number)).sum(), wanted) if truth == "full" else {}
        if one.synthetic is not None:
            gradients |= by_autograd(one.learned(total, arguments["local_weight"]), named(networks=one.synthetic))
        shown = [(output[t, b][None, None], window["y"][t, b][None, None]) for t, b in one.targets]
        values = {
            "output": output,
            "output of steps": output,
            "loss": task,
            "local_losses": [float(plain(v)) if b else math.nan for v, b in zip(local, case.betas, strict=True)],
            "right": sum(int(loss(*at)[1]["right"]) for at in shown),
        }
        values |= counts(window) | state_of(one) | known_of(one)
        found.append(Outcome(gradients, {name: plain(value) for name, value in values.items()}, passed))
    return found


def plain(value: Any) -> Tensor:
    """Numbers, or tensors, as they are now."""
    return (value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)).detach().double().clone()


def named(**modules: torch.nn.Module) -> dict[str, Tensor]:
    """Parameters by name."""
    return {f"{name} {own}": p for name, module in modules.items() for own, p in module.named_parameters()}


def by_autograd(total: Tensor | float, wanted: dict[str, Tensor]) -> dict[str, Tensor | None]:
    if not (isinstance(total, Tensor) and total.requires_grad):
        return {}
    return dict(zip(wanted, torch.autograd.grad(total, wanted.values(), allow_unused=True, retain_graph=True), strict=True))


def state_of(one: Oracle) -> dict[str, Any]:
    """The state after a window, as `State.tensors` names it."""
    rows, below = one.rows, range(len(one.model.periods))
    cells = {
        f"cells.{i}.{j}": torch.stack([cells[i][j] for cells in one.cells])
        for i, cell in enumerate(one.cells[0])
        for j in range(len(cell))
    }
    return (
        cells
        | inputs_of(one)
        | {
            "position": [[row.position(i) for i in below] for row in rows],
            "span": [[row.latest[i].span if row.latest[i] else 0 for i in below] for row in rows],
            "ordinal": [row.count for row in rows],
            "skipped": [row.skipped for row in rows],
        }
    )


def inputs_of(one: Oracle) -> dict[str, Tensor]:
    """The inputs that a state holds: those of the segment that the highest reader is going to read, and the latest."""
    reading = [level for level, reads in enumerate(one.reads) if level and reads != "summary"]
    found = {}
    if reading:
        found["inputs"] = [one.places(reading[-1] - 1, row.latest[reading[-1] - 1]) for row in one.rows]
    if one.burn_in:
        found["recent"] = [latest_of(one, row) for row in one.rows]
    absent = torch.tensor(-1) if one.model.tokens else one.vector(None)
    return {
        name: torch.stack([torch.stack([absent if x is None else x for x in places]) for places in rows], 1)
        for name, rows in found.items()
    }


def latest_of(one: Oracle, row: Row) -> list[Tensor | None]:
    """The inputs that a burn-in may begin with, the latest first."""
    latest = one.raw[row.number][row.sequence :][::-1][: one.burn_in]
    return [*latest, *[None] * (one.burn_in - len(latest))]


def known_of(one: Oracle) -> dict[str, Any]:
    """What the decoders know of their targets after a window."""
    found = {}
    for level in (level for level, sends in enumerate(one.sends) if sends):
        decoder = one.model.decoders[level]
        if decoder.statistics is not None:
            total, mean, variances = one.statistics(level)
            known = {"seen": total * mean} if decoder.tokens else {"count": total, "mean": mean}
            if not decoder.tokens and len(variances) == 1:  # of two halves the next window's loss tells
                known["variance"] = variances[0]
            found |= {f"decoders.{level}.statistics.{name}": value for name, value in known.items()}
    return found


# ---------------------------------------------------------------------------------------------------------- what is found


def turned(model: hrnn.HRNN, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """As the model wants them: time or the batch first."""
    swapped = ("x", "y", "mask", "boundaries", "reset") if model.batch_first else ()
    return {n: v.transpose(0, 1).contiguous() if n in swapped and v is not None else v for n, v in arguments.items()}


def taken(wanted: dict[str, Tensor]) -> dict[str, Tensor | None]:
    """Their gradients, which are cleared."""
    found = {name: parameter.grad for name, parameter in wanted.items()}
    for parameter in wanted.values():
        parameter.grad = None
    return found


def given_as(window: dict[str, Any], shape: Window, model: hrnn.HRNN, tokens: bool, once: bool) -> dict[str, Any]:
    """The arguments of `backward`: one tensor, which wants a gradient, or chunks."""
    if shape.cuts:
        parts = [hrnn.Chunk(**turned(model, vars(part))) for part in chunks(window, shape.cuts)]
        return {"x": iter(parts) if shape.once and once else parts} | weights(window)
    own = turned(model, window)
    return own | {"x": own["x"].clone().requires_grad_(not tokens)}


def run(
    case: Case, built: Built, method: Method, state: hrnn.State | None = None, into_state: bool = False, **options: Any
) -> list[Outcome]:
    """What each window gives; the states are carried on. into_state: gradients of the states that are given, too."""
    model, gradient, found = built.model, method.make(case, built.model), []
    networks = {"networks": gradient.networks} if isinstance(gradient, hrnn.Synthetic) else {}
    parameters = named(model=model, head=built.head, **networks)
    forget(model)
    for number, (window, shape) in enumerate(zip(built.windows, case.windows, strict=True)):
        alike = not case.apart and window["reset"] is None
        given = given_as(window, shape, model, case.tokens, method.once and (alike or bool(case.round_steps)))
        given |= built.weights[number] if built.weights else {}
        state = leaf(state) if into_state and state is not None else state
        common = {"loss": loss_of(built.head), "betas": list(case.betas), "state": state, "generator": seeded(number)}
        result = gradient.backward(model, **(given | common | options))
        gradients, x = taken(parameters), given["x"]
        if isinstance(x, Tensor) and x.requires_grad:
            gradient_x = torch.zeros_like(x) if x.grad is None else x.grad
            gradients["x"] = gradient_x.transpose(0, 1) if model.batch_first else gradient_x
        if into_state and state is not None:
            gradients |= state_gradients(state)
        values = {name: getattr(result, name) for name in ("loss", "local_losses", "targets", "steps")}
        values |= {"right": result.metrics.get("right", 0)} | result.state.tensors()
        values |= dict(model.named_buffers()) | parameters
        state = result.state
        found.append(Outcome(gradients, {name: plain(value) for name, value in values.items()}))
    return found


def forget(model: hrnn.HRNN) -> None:
    """What decoders know of their targets."""
    for decoder in model.decoders:
        if (known := getattr(decoder, "statistics", None)) is not None:  # there is none of what nobody reads
            known.reset()


def forward(case: Case, built: Built) -> list[Outcome]:
    """The same of the model's own forward pass, and of autograd through it and through the states between its chunks."""
    model, state, found = built.model, None, []
    wanted = named(model=model)
    for number, (window, shape) in enumerate(zip(built.windows, case.windows, strict=True)):
        begun = None if state is None else leaf(state)
        x = window["x"].clone().requires_grad_(not case.tokens)
        state, outputs = begun, []
        # Calls are windows of their own: in a second one, boundaries behind a row's last step would say something else.
        cuts = () if window["lengths"] is not None and window["boundaries"] is not None else shape.cuts
        for part in chunks(window | {"x": x}, cuts):
            own = turned(model, {name: value for name, value in vars(part).items() if name not in ("y", "mask")})
            output, state = model(**own, state=state)
            outputs.append(output.transpose(0, 1) if model.batch_first else output)
        output = torch.cat(outputs)
        if output.requires_grad:
            (output * upstream(output, number)).sum().backward()
        gradients = taken(wanted) | ({} if case.tokens else {"x": x.grad}) | ({} if begun is None else state_gradients(begun))
        values = {"output": output} | state.tensors()
        if window["lengths"] is None:
            values["output of steps"] = stepped(model, window, begun)
        if any(other.cuts for other in case.windows):  # each call counts what it is told too late
            del values["skipped"]
        found.append(Outcome(gradients, {name: plain(value) for name, value in values.items()}))
    return found


def stepped(model: hrnn.HRNN, window: dict[str, Any], state: hrnn.State | None) -> Tensor:
    """The outputs of the steps of a window, one after another."""
    outputs, first = [], {"boundaries": window["boundaries"], "reset": window["reset"]}
    with torch.no_grad():
        for t, x in enumerate(window["x"]):
            output, state = model.step(x, state, **{name: None if v is None else v[t] for name, v in first.items()})
            outputs.append(output)
    return torch.stack(outputs)


def leaf(state: hrnn.State) -> hrnn.State:
    """A state that wants a gradient."""
    cells = tuple(tuple(part.detach().clone().requires_grad_() for part in cell) for cell in state.cells)
    return replace(state.detach(), cells=cells)


def state_gradients(state: hrnn.State) -> dict[str, Tensor | None]:
    """Of rows that have begun: others read no state of the levels below the top."""
    begun = (state.clock.ordinal > 0).all(1).tolist()
    parts = {f"state {i} {j}": part.grad for i, cell in enumerate(state.cells) for j, part in enumerate(cell)}
    return {f"{name} {b}": None if g is None else g[b] for name, g in parts.items() for b, there in enumerate(begun) if there}


# ------------------------------------------------------------------------------------------------------------- comparing


def compare(case: Case, who: str, found: list[Outcome], truth: list[Outcome], tolerance: float = EXACT) -> float:
    """All that was found, window after window; the largest error. Gradients are measured by the largest entry of all."""
    worst = 0.0
    for number, (mine, theirs) in enumerate(zip(found, truth, strict=True)):
        scale = max([1e-3, *(float(g.abs().max()) for g in theirs.gradients.values() if g is not None and g.numel())])
        pairs = [(name, g, theirs.gradients.get(name), scale) for name, g in mine.gradients.items()]
        pairs += [(name, value, theirs.values[name], 0.0) for name, value in mine.values.items() if name in theirs.values]
        for name, a, b, size in pairs:
            a, b = (
                (torch.zeros_like(b) if a is None and b is not None else a),
                torch.zeros_like(a) if b is None and a is not None else b,
            )
            if a is None or not a.numel():
                continue
            if a.shape != b.shape:
                raise DisagreementError(case, who, f"window {number}: {name} has shape {tuple(a.shape)}, not {tuple(b.shape)}")
            if name == "local_losses" and torch.equal(a.isnan(), b.isnan()):  # where they are not computed
                a, b = a.nan_to_num(), b.nan_to_num()
            off = float((a - b).abs().max()) / (size or max(1e-3, float(b.abs().max())))
            if not off <= tolerance:
                few = [[round(v, 12) for v in values.flatten()[:4].tolist()] for values in (a, b)]
                raise DisagreementError(case, who, f"window {number}: {name} is off by {off:.1e}: {few[0]} for {few[1]}")
            worst = max(worst, off)
    return worst


def check(case: Case, methods: Mapping[str, Method] = METHODS, executors: Executors = EXECUTORS) -> Counter[str]:
    """Every method on every executor, and the forward pass, beside the oracle; the largest error of each."""
    worst: Counter[str] = Counter()
    built = build(case)
    for executor, force in executors.items():
        for name, method in methods.items():
            if not method.suits(case):
                continue
            with force():
                found = run(case, built, method)
            truth, who = expected(case, method.truth_of(case)), f"{name}, {executor}"
            worst[name] = max(worst[name], compare(case, who, found, truth))
            for mine, theirs in zip(found, truth, strict=True):
                some = [n for n, gradient in mine.gradients.items() if gradient is not None and n != "x"]
                if some and not theirs.gradients and not method.zeros:
                    raise DisagreementError(case, who, f"{some[0]} has a gradient, and there is no loss")
        with force():
            found = forward(case, built)
        truth = [Outcome(one.forward, one.values) for one in expected(case, "full")]
        worst["forward"] = max(worst["forward"], compare(case, f"forward, {executor}", found, truth))
    return worst


def check_single(case: Case, method: str = "restricted", executors: Executors = EXECUTORS) -> float:
    """float32 is close to the oracle's float64."""
    built, truth, worst = build(case), expected(case, METHODS[method].truth_of(case)), 0.0
    for module in (built.model, built.head):
        module.float()
    for window in built.windows:
        window["x"] = window["x"] if case.tokens else window["x"].float()
    for executor, force in executors.items():
        with force():
            found = run(case, built, METHODS[method])
        worst = max(worst, compare(case, f"{method} in float32, {executor}", found, truth, 1e-3))
    return worst


def check_into_state(case: Case, method: str, executors: Executors = EXECUTORS) -> float:
    """A state that wants a gradient gets it, or is refused in words."""
    built, worst = build(case), 0.0
    for executor, force in executors.items():
        try:
            with force():
                found = run(case, built, METHODS[method], into_state=True)
        except ValueError as error:
            if "state" not in str(error):
                raise
        else:
            who = f"{method} into a state, {executor}"
            worst = max(worst, compare(case, who, found, expected(case, METHODS[method].truth_of(case))))
    return worst


def check_in_time(case: Case, executors: Executors = EXECUTORS) -> float:
    """Outputs before a step do not move, to the last bit, with what comes in from it on. A stream, each row by itself, gives
    what a batch does, with states of its own."""
    case, worst = untold(case), 0.0
    built = build(case)
    model, names = built.model, ("boundaries", "lengths", "reset")
    for executor, force in executors.items():
        state, truth, found = None, [], []
        streams = [model.initial_state(case.batch).select(torch.tensor([b])) for b in range(case.batch)]
        with force(), torch.no_grad():
            for number, window in enumerate(built.windows):
                own, x = turned(model, {name: window[name] for name in names}), window["x"]
                output, after = (value for value in model(**own, **turned(model, {"x": x}), state=state))
                output = output.transpose(0, 1) if model.batch_first else output
                for t in range(1, len(x)):
                    other = x.clone()
                    other[t:] = torch.where(x[t:] < 0, x[t:], (x[t:] + 1) % 3) if case.tokens else 1 - 2 * x[t:]
                    moved, _ = model(**own, **turned(model, {"x": other}), state=state)
                    moved = moved.transpose(0, 1) if model.batch_first else moved
                    if not torch.equal(moved[:t], output[:t]):
                        raise DisagreementError(
                            case, executor, f"window {number}: outputs before step {t} move with inputs after"
                        )
                state = after
                truth.append(Outcome({}, {"output": plain(output)} | {n: plain(v) for n, v in after.tensors().items()}))
                found.append(Outcome({}, streamed(model, window, streams)))
        worst = max(worst, compare(case, f"stream, {executor}", found, truth))
    return worst


def untold(case: Case) -> Case:
    """Nothing is told of what comes behind a row's last step, which a stream has no way to say."""
    windows = []
    for window in case.windows:
        lengths = window.lengths or (window.steps,) * case.batch
        told = tuple((t, b, j) for t, b, j in window.boundaries if b < case.batch and t < lengths[b])
        windows.append(replace(window, boundaries=told, behind=False))
    return replace(case, windows=tuple(windows))


def streamed(model: hrnn.HRNN, window: dict[str, Any], streams: list[hrnn.State]) -> dict[str, Tensor]:
    """The outputs of a window, row by row and step by step; the rows' states go on."""
    steps, batch = window["x"].shape[:2]
    output = torch.zeros(steps, batch, model.output_size, dtype=model.dtype)
    for b in range(batch):
        rows = slice(b, b + 1)
        given = {name: window[name] for name in ("boundaries", "reset")}
        for t in range(steps if window["lengths"] is None else int(window["lengths"][b])):
            now = {name: None if value is None else value[t, rows] for name, value in given.items()}
            output[t, rows], streams[b] = model.step(window["x"][t, rows], streams[b], **now)
    after = hrnn.State.together(streams).tensors()
    return {name: plain(value) for name, value in after.items() if name != "skipped"} | {"output": plain(output)}

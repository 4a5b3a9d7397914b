"""What stands before and after the step of a run on series, so that it takes values as they come and gives numbers in their own
units: preprocessing as modules that can be exported, and in words what a module cannot do, as it would need a memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hrnn.data import Preprocessing
from hrnn.tasks import Series
from hrnn.training.answers import Answers

EXAMPLES = 32
MEANING = {
    "number": "in the source's unit; where it is missing, the last value before it, and nan where there was none",
    "own": "less the sequence's own mean, over its own scale; where it is missing, the last value before it, or 0",
    "before": "the channel's number at the step before, given as that was; at the first step its own",
    "missing": "1 where the channel's value is missing at this step, 0 elsewhere",
    "interval": "the time since the step before, in the source's unit; 0 at the first step",
    "seconds": "the time since the step before, in seconds; 0 at the first step",
    "category": "the place of its name in `names`; their number for whatever is not there",
}
COMPLETE = "forecasts are made after complete inputs: leave out the first steps of a sequence, as many as are left over"
FILLED = "at the end of a sequence, steps that an input lacks have nan for numbers and those before, -1 for categories, and 0"
WHOLE = {
    True: "the mean of the outputs of all steps of a sequence so far is its answer",
    False: "the output of a sequence's last step is its answer",
}


@dataclass(frozen=True)
class Around:
    """before, example: as `hrnn.export.to_onnx` takes them, None for tokens; head: with what comes after it; facts: for the
    file beside the step."""

    before: nn.Module | None
    example: Tensor | None
    head: nn.Module
    facts: dict[str, Any]


class Before(nn.Module):
    """Values (batch, columns), or (batch, patch, columns) where several steps are one input, to what the network reads. Numbers
    are brought to mean 0 and scale 1 in double precision, as in training."""

    mean: Tensor
    scale: Tensor
    changes: Tensor
    usual: Tensor

    def __init__(self, pre: Preprocessing, dtype: torch.dtype):
        super().__init__()
        own = pre.normalise == "sequence"
        mean, scale = ([0.0], [1.0]) if own else pre.statistics()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float64))
        self.register_buffer("scale", torch.tensor(scale, dtype=torch.float64))
        self.register_buffer("changes", torch.tensor(pre.changes, dtype=torch.float64))
        self.register_buffer("usual", torch.tensor(pre.interval, dtype=dtype))  # as a number, ONNX would have it in float32
        self.dtype, self.timed, self.patch = dtype, pre.interval > 0, pre.patch
        self.sizes = [len(pre.numeric), len(pre.changes), len(pre.masked), int(pre.interval > 0)]
        self.categories = [
            len(names) + 1 for names, kind in zip(pre.vocabularies, pre.kinds, strict=True) if kind == "category"
        ]

    def forward(self, x: Tensor) -> Tensor:
        values, before, missing, since, *codes = x.split([*self.sizes, *[1] * len(self.categories)], -1)
        numbers = self._applied(values)
        parts = [numbers.to(self.dtype)]
        if before.shape[-1]:
            parts.append(((numbers - self._applied(before)) / self.changes).to(self.dtype))
        parts.append(missing)
        if self.timed:
            parts.append(torch.where(since > 0, (since / self.usual).log(), torch.zeros_like(since)))
        parts += [(code == torch.arange(count)).to(self.dtype) for code, count in zip(codes, self.categories, strict=True)]
        joined = torch.cat(parts, -1)
        return joined.flatten(1) if self.patch > 1 else joined

    def _applied(self, values: Tensor) -> Tensor:
        numbers = (values.double() - self.mean) / self.scale
        return numbers.masked_fill(numbers.isnan(), 0.0)


class After(nn.Module):
    """A head whose outputs are brought to the source's units: times `scale`, plus `offset`, in a shape of their own."""

    scale: Tensor
    offset: Tensor

    def __init__(self, head: nn.Module, scale: Tensor, offset: Tensor, shape: tuple[int, ...]):
        super().__init__()
        self.head, self.shape = head, shape
        self.register_buffer("scale", scale)
        self.register_buffer("offset", offset)

    def forward(self, hidden: Tensor) -> Tensor:
        output: Tensor = self.head(hidden)
        output = output.unflatten(-1, self.shape) * self.scale + self.offset
        return output


def around(task: Series, head: nn.Module, dtype: torch.dtype) -> Around:
    """For the step of a run on this task, whose head this is."""
    pre, answers = task.learned, Answers(task)
    facts: dict[str, Any] = {"columns": columns_of(pre), "answers": {"of": answers.of}}
    if pre.patch > 1:
        lacking = COMPLETE if answers.ahead else FILLED
        facts |= {"steps_of_an_input": pre.patch, "an_input_that_is_not_complete": lacking}
    if answers.of == "sequence":
        facts["answers"]["whole"] = WHOLE[answers.running]
    if answers.ahead:
        own = pre.normalise == "sequence"
        unit = torch.tensor(task.changed, dtype=torch.float64) * torch.tensor([1.0] if own else pre.statistics()[1])
        head = After(head, unit.to(dtype), torch.zeros((), dtype=dtype), (answers.ahead, len(pre.numeric)))
        facts["answers"] |= {
            "output": "(batch, steps ahead, channels): to be added to each channel's last value"
            + (", and brought back by the sequence's own mean and scale" if own else ""),
            "channels": answers.names,
        }
    elif answers.labels:
        facts["answers"] |= {"output": "logits, whose softmax are the probabilities of", "classes": list(answers.labels)}
    else:
        scale, offset = (torch.tensor(one, dtype=dtype) for one in (pre.target_scale, pre.target_mean))
        head = After(head, scale, offset, (1,))
        facts["answers"] |= {"output": f"{pre.target_name or 'the target'}, in the source's unit"}
    if pre.tokens:
        return Around(None, None, head, facts)
    return Around(Before(pre, dtype), examples(pre, dtype), head, facts)


def columns_of(pre: Preprocessing) -> list[dict[str, Any]]:
    """What each column of the input is, in their order; of tokens, what their codes are."""
    if pre.tokens:
        known = {"name": pre.channels[0], "is": "token", "names": list(pre.vocabularies[0])}
        return [{**known, "meaning": "the place of its name in `names`" if pre.complete else MEANING["category"]}]
    number = MEANING["own" if pre.normalise == "sequence" else "number"]
    found: list[dict[str, Any]] = [{"name": pre.channels[place], "is": "number", "meaning": number} for place in pre.numeric]
    found += [
        {"name": pre.channels[place], "is": "before", "meaning": MEANING["before"]} for place in pre.numeric if pre.changes
    ]
    found += [{"name": name, "is": "missing", "meaning": MEANING["missing"]} for name in pre.masked]
    if pre.interval:
        meaning = MEANING["seconds" if pre.times == "timestamps" else "interval"]
        found.append({"name": "time", "is": "interval", "meaning": meaning})
    for name, entries, kind in zip(pre.channels, pre.vocabularies, pre.kinds, strict=True):
        if kind == "category":
            found.append({"name": name, "is": "category", "names": list(entries), "meaning": MEANING["category"]})
    return found


def examples(pre: Preprocessing, dtype: torch.dtype) -> Tensor:
    """Inputs such as there may be, some of them missing: for the comparison with the model."""
    generator = torch.Generator().manual_seed(0)
    before = Before(pre, dtype)
    shape = (EXAMPLES, pre.patch)
    values = torch.randn(*shape, before.sizes[0], generator=generator, dtype=torch.float64) * before.scale + before.mean
    values[0, 0] = torch.nan
    earlier = values.roll(1, 0)[..., : before.sizes[1]]
    missing = (torch.rand(*shape, before.sizes[2], generator=generator) < 0.3).double()
    since = torch.rand(*shape, before.sizes[3], generator=generator).double() * 2 * pre.interval
    codes = [torch.randint(count, (*shape, 1), generator=generator).double() for count in before.categories]
    made = torch.cat([values, earlier, missing, since, *codes], -1).to(dtype)
    return made if pre.patch > 1 else made[:, 0]

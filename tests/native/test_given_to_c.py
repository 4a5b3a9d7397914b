"""What is handed to C has the layout, dtype, shape and place that C reads it with: torch's checks are not there any more."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

import pytest
import torch
from torch import nn

import hrnn
from hrnn.native import functions
from tests.helpers import assert_close, seeded, squares

pytestmark = pytest.mark.usefixtures("engine")
CELLS = ["lstm", "gru", "rnn"]


def make(cell="lstm", sizes=(5, 7), periods=(4,), dtype=torch.float64, **options):
    torch.manual_seed(0)
    return hrnn.HRNN(3, list(sizes), list(periods), cell=cell, **options).to(dtype)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("sizes", [(5,), (5, 7)])
def test_gradients_of_outputs_in_any_order_of_memory(cell, sizes):
    """Those of batch_first come transposed, where a window is one piece; so may those of states."""
    model, twin = (make(cell, sizes, [30][: len(sizes) - 1], batch_first=first) for first in (True, False))
    twin.load_state_dict(model.state_dict())
    torch.manual_seed(1)
    x, weight = torch.randn(3, 20, 3).double(), torch.randn(3, 20, 5).double()
    (model(x)[0] * weight).sum().backward()
    (twin(x.transpose(0, 1))[0] * weight.transpose(0, 1).contiguous()).sum().backward()
    for p, q in zip(model.cells.parameters(), twin.cells.parameters(), strict=True):
        assert_close(p.grad if p.grad is not None else p * 0, q.grad if q.grad is not None else q * 0, tolerance=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_of_states_in_any_order_of_memory(cell):
    model, weight = make(cell, (5,), ()), torch.randn(5, 3).double()
    x, more = torch.randn(6, 3, 3).double(), torch.randn(20, 3, 3).double()
    found = []
    for order in (lambda w: w, lambda w: w.contiguous()):
        parts = model(more, model(x)[1])[1].cells[0]
        gradients = [torch.autograd.grad(p, model.cell(0).weight_input, order(weight.t()), retain_graph=True)[0] for p in parts]
        found.append(sum(gradients))
    assert_close(*found, tolerance=1e-12)


def test_full_gradients_of_a_loss_that_permutes():
    model = make(sizes=(5,), periods=())
    x, y = torch.randn(26, 3, 3).double(), torch.randn(26, 3, 5).double()
    found = []
    for loss in (squares, lambda o, t: (o.permute(2, 1, 0) - t.permute(2, 1, 0)).square().mean(0).t()):
        model.zero_grad()
        hrnn.Full().backward(model, x, y, loss=loss)
        found.append([p.grad for p in model.parameters()])
    for a, b in zip(*found, strict=True):
        assert_close(a, b, tolerance=1e-12)


def test_a_decoder_whose_weights_lie_otherwise_since_a_move():
    """`after` may set `.data` to a tensor in another order of memory; the numbers are the same."""
    found = []
    for other in (False, True):
        model, moves = make(), []
        x, y = torch.randn(60, 3, 3, generator=seeded()).double(), torch.randn(60, 3, 5, generator=seeded()).double()

        def after(level, optimizer, model=model, moves=moves, other=other):
            moves.append(level)
            weight = model.decoder(0).layers[0].weight
            if other and len(moves) == 2:
                weight.data = weight.data.t().contiguous().t()

        updates = hrnn.Updates(model, lambda p: torch.optim.SGD(p, lr=0.05), every=2, after=after)
        hrnn.Restricted().backward(model, x, y, loss=squares, betas=[0.5], generator=seeded(), updates=updates)
        found.append([p.detach() for p in model.parameters()])
    for a, b in zip(*found, strict=True):
        assert_close(a, b, tolerance=1e-12)


def _replaced(name, change):
    def replace(model):
        *path, last = name.split(".")
        module = model.get_submodule(".".join(path))
        setattr(module, last, nn.Parameter(change(getattr(module, last).detach())))

    return replace


WRONG = {  # with torch each of them raises; C reads, or writes, what is not there
    "bias on meta": _replaced("cells.0.bias", lambda p: p.to("meta")),
    "context on meta": _replaced("cells.0.weight_context", lambda p: p.to("meta")),
    "bias of another dtype": _replaced("cells.0.bias", lambda p: p.float()),
    "short bias": _replaced("cells.0.bias", lambda p: p[:3]),
    "narrow input": _replaced("cells.0.weight_input", lambda p: p[:, :2]),
    "narrow hidden": _replaced("cells.0.weight_hidden", lambda p: p[:, :4]),
    "narrow context": _replaced("cells.0.weight_context", lambda p: p[:, :3]),
    "upper cell of another dtype": lambda model: model.cell(1).float(),
}
WRONG_DECODERS = {
    "decoder of another dtype": lambda model: model.decoder(0).float(),
    "one layer of another dtype": lambda model: model.decoder(0).layers[1].float(),
    "few indices": _replaced("decoders.0.index", lambda p: p[:2]),
    "narrow first layer": lambda model: model.decoder(0).layers.__setitem__(0, nn.Linear(5, 100).double()),
    "few outputs": lambda model: model.decoder(0).layers.__setitem__(1, nn.Linear(256, 2).double()),
    "data of another shape": lambda model: setattr(model.decoder(0).layers[0].weight, "data", torch.zeros(256, 4).double()),
}


@cache
def outcomes() -> dict[str, list[int]]:
    """How a process ends that computes with each of them, natively and by torch: 0 if every call was refused. All are forks of
    one process that is not this one: the heap may be gone."""
    program = """
import json, os, torch, hrnn
from tests.native.test_given_to_c import WRONG, WRONG_DECODERS, make
from tests.helpers import squares
from hrnn.native import functions
def tried(name, torch_alone):
    if torch_alone: functions._of_level = lambda dtype: None
    model = make()
    (WRONG | WRONG_DECODERS)[name](model)
    x, y = torch.randn(26, 3, 3).double(), torch.randn(26, 3, 5).double()
    def forward():
        with torch.no_grad(): model(x)
    def backward(**options): hrnn.Restricted().backward(model, x, y, loss=squares, betas=[0.5], **options)
    for call in ([forward] if name in WRONG else []) + [backward, lambda: backward(lengths=[26, 20, 11])]:
        try: call()
        except (ValueError, TypeError, RuntimeError, IndexError): continue
        return 3
    return 0
def ended(*arguments):
    if not (child := os.fork()):
        try: os._exit(tried(*arguments))
        finally: os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
found = {name: [ended(name, alone) for alone in (False, True)] for name in [*WRONG, *WRONG_DECODERS]}
print(json.dumps(found))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", [*WRONG, *WRONG_DECODERS])
def test_parameters_that_do_not_fit_are_refused(name):
    assert outcomes()[name][functions._of_level(torch.float64) is None] == 0

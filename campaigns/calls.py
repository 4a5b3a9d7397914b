"""The public API as a grammar: every call with arguments that work, as expressions, and what may be put in their place."""

from __future__ import annotations

from dataclasses import dataclass, field

from campaigns.scenes import KINDS

CALLABLE = ("s.head", "s.model", "type")
CALLED = ("loss", "on_segment", "after", "optimizers", "cell")
JUNK = [
    *("None", "nan", "inf", "-1", "0", "1.5", "10**400", "2**63", "-10**30", "True", "'x'", "''", "b'ab'", "[]", "[None]"),
    *("['a']", "{}", "{'a': 1}", "set()", "(1, 2)", "object()", "range(3)", "np.array([1.5])", "np.int64(2)"),
    *("torch.tensor(nan)", "[[1]]", "torch.empty(2, 2, device='meta')", "torch.zeros(2, 2).to_sparse()", "Ellipsis"),
    *("10**15", "[nan]", "[10**400]", "'é' * 999", "[1.5, 1.5]", "torch.tensor([1, 2])", "[2**62, 2**62]", "s.x", "s.state"),
    *("s.model", "s.head", "hrnn.Tokens(3)", "type", "[-1]"),
]
TENSORS = [
    *("{v}[:0]", "{v}[:, :0]", "{v}[:-1]", "{v}.double()", "{v}.int()", "{v}.half()", "{v}.to('meta')", "{v}.to_sparse()"),
    *("{v}.to(torch.complex64)", "{v}.bool()", "{v}.to(torch.uint16)", "{v}[None]", "{v}[..., None]", "{v}.flatten()"),
    *("{v}.transpose(0, -1)", "strided({v})", "{v}.numpy()", "{v}.tolist()", "{v} * nan", "{v} + 10**9", "-1 - {v}"),
    "{v}.sum()",
    *("quantised({v})", "{v}.float().requires_grad_()", "{v}.float().requires_grad_() * 2", "{v}.to(torch.float8_e5m2)"),
    *("torch.nested.nested_tensor([{v}[0], {v}[1]])", "{v}.rename('a', *[None] * ({v}.dim() - 1))", "{v}.to(torch.uint8)"),
]
LOSSES = [
    *("lambda o, t: None", "lambda o, t: s.loss(o, t).sum()", "lambda o, t: (s.loss(o, t), {'a': None})", "lambda o, t: o"),
    *("lambda o, t: (s.loss(o, t), {'a': 'x'})", "lambda o, t: (s.loss(o, t), {'a': torch.zeros(2, device='meta')})"),
    *("lambda o, t: s.loss(o, t).long()", "lambda o, t: s.loss(o, t).to_sparse()", "lambda o, t: s.loss(o, t).to('meta')"),
    *("lambda o, t: s.loss(o, t).to(torch.complex64)", "lambda o, t: (s.loss(o, t), {3: 1.5, None: [1, 2]})"),
    "lambda o, t: ()",
    *("lambda o, t: s.loss(o, t).double()", "lambda o, t: s.loss(o, t).detach()", "lambda o, t: (s.loss(o, t), 5)"),
    *("lambda o, t: s.loss(o, t) > 1", "lambda o, t: (s.loss(o, t), {'a': 10**400})", "lambda o, t: quantised(s.loss(o, t))"),
]
STATES = [
    *("tampered(s.state, 'row', s.state.row - 5)", "tampered(s.state, 'row', None)", "tampered(s.state, 'history', ())"),
    "tampered(s.state, 'position', s.state.clock.position + 100)",
    *("tampered(s.state, 'position', s.state.clock.position - 9)", "tampered(s.state, 'span', s.state.clock.span.float())"),
    "tampered(s.state, 'ordinal', s.state.clock.ordinal + 2**63 - 1)",
    *("tampered(s.state, 'cells', s.state.cells[:1])", "tampered(s.state, 'cells', ())", "tampered(s.state, 'clock', 5)"),
    *("tampered(s.state, 'history', tuple(h + 50 for h in s.state.history))", "tampered(s.state, 'skipped', 'x')"),
    *("tampered(s.state, 'cells', tuple((c[0].long(), *c[1:]) for c in s.state.cells))", "s.state.to('meta')"),
    *("tampered(s.state, 'ticked', s.state.clock.position)", "s.state.to(dtype=torch.float64)", "s.state.select(s.rows)"),
    *("tampered(s.state, 'row', s.state.row[:1])", "tampered(s.state, 'position', s.state.clock.position[:, :0])"),
    *("s.other.state", "tampered(s.state, 'history', tuple(h.to_sparse() for h in s.state.history))", "s.state.detach()"),
]
UPDATES = ["s.other.updates()", "s.updates(rows=1)", "s.updates(clip=1.0)", "s.updates(every=None)", "hrnn.Updates", "s.head"]


@dataclass(frozen=True)
class Call:
    """A function, and for each argument the expressions that work; the first is that of the call with nothing else said."""

    function: str
    arguments: dict[str, list[str]]
    required: tuple[str, ...] = ()
    kinds: tuple[str, ...] = KINDS
    wrong: dict[str, list[str]] = field(default_factory=dict)  # beside the junk
    only_wrong: bool = False  # the call as it should be would take too long
    weight: int = 1  # how often it is drawn


_X = {"x": ["s.x"], "state": ["None", "s.state"], "boundaries": ["s.boundaries"], "reset": ["None", "s.reset", "s.flags"]}
_FORWARD = {**_X, "lengths": ["None", "s.lengths", "[5, 2, 4]"]}
_BACKWARD = {
    "model": ["s.model"],
    **_FORWARD,
    "y": ["s.y"],
    "loss": ["s.loss", "lambda o, t: (s.loss(o, t), {'a': o})"],
    "betas": ["s.betas"],
    "mask": ["None", "s.mask"],
    "generator": ["None", "torch.Generator()"],
    "on_segment": ["None", "lambda d: None"],
}
_NEEDED = ("model", "x", "y", "loss", "boundaries", "betas")
_WRONG = {
    "loss": LOSSES,
    "state": STATES,
    "updates": UPDATES,
    "x": ["[]", "iter([])", "[hrnn.Chunk(s.x, s.y)]", "[(s.x,)]", "[5]"],
    "betas": ["[nan] * len(s.betas)", "[-0.1]", "[10**400]", "s.betas + [1]", "torch.tensor(s.betas)", "['1'] * len(s.betas)"],
    "lengths": [
        "[5, 2]",
        "[5, 2, 9]",
        "[5, 2, -1]",
        "[5, 2, 1.5]",
        "['a', 2, 3]",
        "np.array([5, 2, 4])",
        "[0, 0, 0]",
        "[10**30] * 3",
    ],
    "weight": ["0.1", "1e-300"],
    "local_weight": ["0.1", "0"],
    "model": ["s.head", "s.model.state_dict()"],
}
_COUNTS = {"periods": ["[10]", "[2]"], "window": ["100", "784"]}
_SIZES = {"hidden_sizes": ["[8, 8]", "[4, 16]"], **_COUNTS}
_MODEL = {
    "inputs": ["2", "hrnn.Tokens(3)"],
    "hidden_sizes": ["[3, 4]", "(3, 4)"],
    "periods": ["[2]", "[hrnn.Given(2)]"],
    "cell": ["'lstm'", "'gru'", "['rnn', 'lstm']", "Minimal"],
    "decoders": ["True", "False"],
    "decoder_layers": ["2", "[1]"],
    "decoder_units": ["3", "[4]"],
    "indices": ["'sampled'", "['all']"],
    "batch_first": ["False"],
    "check_finite": ["True"],
}
CALLS = {
    "HRNN": Call(
        "hrnn.HRNN",
        _MODEL,
        ("inputs", "hidden_sizes", "periods"),
        wrong={
            "inputs": ["hrnn.Tokens(nan)", "hrnn.Tokens(10**15)", "hrnn.Tokens('a')"],
            "hidden_sizes": ["[10**9, 10**9]", "[3] * 5000"],
            "periods": ["[hrnn.Given(nan)]", "[hrnn.Given(10**15)]", "[1.0]"],
            "cell": ["[None, 5]", "nn.Linear", "['lstm']"],
            "decoder_layers": ["10**6", "[2, 2]"],
            "decoder_units": ["10**10"],
        },
        weight=4,
    ),
    "forward": Call("s.model", _FORWARD, ("x", "boundaries"), wrong=_WRONG, weight=5),
    "step": Call(
        "s.model.step",
        {"x": ["s.x[0]"], "state": ["None", "s.state"], "reset": ["None", "s.flags"]},
        ("x",),
        ("vectors", "tokens", "user", "single"),
        wrong=_WRONG,
        weight=3,
    ),
    "Restricted": Call("hrnn.Restricted", {"round_steps": ["None", "3"]}),
    "restricted": Call("hrnn.Restricted(round_steps=2).backward", _BACKWARD, _NEEDED, wrong=_WRONG, weight=8),
    "full": Call("hrnn.Full().backward", {**_BACKWARD, "updates": ["None"]}, _NEEDED, wrong=_WRONG, weight=4),
    "weighted": Call(
        "hrnn.Restricted().backward",
        {**_BACKWARD, "weight": ["0.1"], "local_weight": ["0.1"], "updates": ["None", "s.updates()"]},
        (*_NEEDED, "weight", "local_weight"),
        wrong=_WRONG,
        weight=8,
    ),
    "chunks": Call(
        "hrnn.Restricted().backward",
        {**_BACKWARD, "x": ["[hrnn.Chunk(s.x, s.y, s.mask, s.boundaries)] * 2"], "weight": ["0.1"], "local_weight": ["0.1"]},
        ("model", "x", "loss", "betas", "weight", "local_weight"),
        wrong={
            **_WRONG,
            "x": [
                "[hrnn.Chunk(s.x, s.y), 5]",
                "[(s.x, s.y, 1, 2, 3, 4, 5)]",
                "[hrnn.Chunk(s.x)]",
                "[hrnn.Chunk(s.x, s.y, boundaries=s.boundaries, lengths='abc')]",
                "'abc'",
                "[hrnn.Chunk(None)]",
                "{}",
            ],
        },
        weight=5,
    ),
    "Updates": Call(
        "hrnn.Updates",
        {
            "model": ["s.model"],
            "optimizers": ["torch.optim.Adam", "[torch.optim.SGD] * len(s.model.cells)"],
            "heads": ["()", "s.head.parameters()"],
            "every": ["1", "None"],
            "clip": ["None", "1.0"],
            "after": ["None", "print"],
            "group": ["Group()"],
            "rows": ["None", "3"],
        },
        ("model", "optimizers"),
        wrong={
            "optimizers": [
                "lambda p: None",
                "[torch.optim.SGD]",
                "[5] * len(s.model.cells)",
                "torch.optim.SGD(s.other.model.parameters())",
            ],
            "heads": ["s.head", "[s.x * 2]", "['a']"],
            "every": ["[1] * 9", "[None, 0]"],
            "clip": ["[nan] * 2", "[-1.0]"],
        },
        weight=4,
    ),
    "initial_state": Call("s.model.initial_state", {"batch": ["2"]}, ("batch",)),
    "reset": Call("s.model.reset", {"state": ["s.state"], "rows": ["s.flags"]}, ("state", "rows"), wrong=_WRONG, weight=2),
    "cell": Call("s.model.cell", {"level": ["0"]}, ("level",)),
    "decoder": Call("s.model.decoder", {"level": ["0"]}, ("level",), ("vectors", "tokens", "given")),
    "save": Call(
        "s.model.save",
        {"path": ["s.folder / 'saved'"], "decoders": ["True", "False"]},
        ("path",),
        wrong={"path": ["s.folder", "s.folder / 'no' / 'file'", "'a\\0b'"]},
    ),
    "load": Call(
        "hrnn.HRNN.load",
        {"path": ["s.file('model')"], "cell": ["None", "'lstm'"], "device": ["'cpu'"]},
        ("path",),
        ("vectors", "tokens", "given"),
        wrong={"path": ["s.folder", "s.file('state')"], "device": ["'cuda:99'", "'abc'"], "cell": ["Minimal", "'gru'"]},
    ),
    "load damaged": Call(
        "hrnn.HRNN.load", {"path": ["s.file('model', {n})"]}, ("path",), ("vectors", "tokens", "given", "single"), weight=3
    ),
    "State": Call(
        "hrnn.State",
        {"cells": ["s.state.cells"], "clock": ["s.state.clock"], "row": ["s.state.row"], "history": ["s.state.history"]},
        ("cells", "clock", "row", "history"),
    ),
    "State.load": Call(
        "hrnn.State.load",
        {"path": ["s.file('state')"], "device": ["'cpu'"]},
        ("path",),
        wrong={"path": ["s.file('model')", "s.folder"], "device": ["'cuda:99'", "'abc'"]},
    ),
    "State.load damaged": Call("hrnn.State.load", {"path": ["s.file('state', {n})"]}, ("path",), weight=3),
    "loaded and used": Call(
        "s.model",
        {"x": ["s.x"], "state": ["hrnn.State.load(s.file('state', {n}))"], "boundaries": ["s.boundaries"]},
        ("x", "state", "boundaries"),
        weight=4,
    ),
    "State.save": Call("s.state.save", {"path": ["s.folder / 'saved'"]}, ("path",), wrong={"path": ["s.folder"]}),
    "select": Call("s.state.select", {"rows": ["s.rows", "s.flags"]}, ("rows",)),
    "to": Call(
        "s.state.to",
        {"device": ["'cpu'", "None"], "dtype": ["torch.float64", "None"]},
        (),
        wrong={"device": ["'abc'", "'cuda'"], "dtype": ["torch.int64", "torch.complex64"]},
    ),
    "together": Call(
        "hrnn.State.together",
        {"states": ["[s.state, s.state]"]},
        ("states",),
        wrong={
            "states": [
                "[s.state, s.state.to(dtype=torch.float64)]",
                "[s.state, 5]",
                "[s.state, Scene('single', s.folder).state]",
            ]
        },
    ),
    "with_rows": Call("s.state.with_rows", {"row": ["s.state.row + 3"]}, ("row",)),
    "from_tensors": Call(
        "hrnn.State.from_tensors",
        {"tensors": ["s.state.tensors()"]},
        ("tensors",),
        wrong={
            "tensors": [
                "{**s.state.tensors(), 'row': None}",
                "{**s.state.tensors(), 'more': s.x}",
                "{**s.state.tensors(), 'span': s.x}",
                "{**s.state.tensors(), 'row': torch.tensor([1])}",
                "{5: s.x}",
            ]
        },
    ),
    "paper_count": Call("hrnn.memory.paper_count", _COUNTS, ("periods", "window")),
    "exact_count": Call("hrnn.memory.exact_count", _SIZES, ("hidden_sizes", "periods", "window")),
    "predict": Call(
        "hrnn.memory.predict",
        {
            **_SIZES,
            "batch": ["4"],
            "inputs": ["3"],
            "tokens": ["True", "False"],
            "cell": ["'gru'"],
            "decoder_units": ["7"],
            "all_indices": ["True"],
            "outputs": ["2"],
            "native": ["True", "None"],
        },
        (*_SIZES, "batch"),
        weight=2,
    ),
    "plan": Call(
        "hrnn.memory.plan",
        {
            "budget": ["10**8", "3 * 10**6"],
            "window": ["10**6"],
            "batch": ["4"],
            "hidden": ["16", "[8, 32]"],
            "depths": ["(2, 3)", "[1, 9]"],
        },
        ("budget", "window", "batch"),
        wrong={"window": ["2**62"], "depths": ["[10**9]"]},
        weight=2,
    ),
    "measure": Call("hrnn.memory.measure", {"maker": ["'nothing'"], "children": ["0"]}, ("maker", "children"), only_wrong=True),
    "one_window": Call(
        "hrnn.memory.one_window",
        {
            "method": ["'full'"],
            "hidden_sizes": ["[3, 4]"],
            "periods": ["[2]"],
            "window": ["5"],
            "batch": ["2"],
            "inputs": ["3"],
            "tokens": ["False"],
            "cell": ["'rnn'"],
            "indices": ["'all'"],
            "device": ["'cpu'"],
        },
        ("window", "batch"),
    ),
    "join": Call("joined", {"timeout": ["5.0"]}, ("timeout",)),
    "Group": Call("Group", {"rank": ["0"], "size": ["1"], "timeout": ["5.0"]}),
    "group.rows": Call("Group(1, 2).rows", {"batch": ["4"]}, ("batch",)),
    "group.shard": Call("Group(1, 2).shard", {"count": ["4"]}, ("count",)),
    "group.all_reduce_gradients": Call(
        "Group().all_reduce_gradients", {"parameters": ["s.model.parameters()"]}, ("parameters",)
    ),
    "group.all_reduce_numbers": Call("Group().all_reduce_numbers", {"values": ["{'a': 1.0}"]}, ("values",)),
    "group.all_gather": Call("Group().all_gather", {"tensors": ["{'a': s.x}"]}, ("tensors",)),
    "group.all_gather_text": Call("Group().all_gather_text", {"text": ["'a'"]}, ("text",)),
    "group.broadcast": Call("Group().broadcast", {"content": ["b'a'", "None"]}, ("content",)),
    "group.check_same_options": Call("Group().check_same_options", {"options": ["{'a': 1}"]}, ("options",)),
}

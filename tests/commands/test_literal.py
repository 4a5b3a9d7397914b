"""--literal: the paper's setting is one option away, and options beside it win."""

import json
from dataclasses import replace

import pytest

from hrnn.cli import main
from hrnn.tasks import Copy, Pixels, Text
from hrnn.training import folder as folders
from hrnn.training import literal
from hrnn.training.config import Budget, Config, Learning, Model, resolved
from tests.tiny import write_text

SMALL = [
    "copy",
    "--length",
    "2",
    "--hidden-sizes",
    "4",
    "4",
    "--periods",
    "2",
    "--window",
    "4",
    "--updates",
    "1",
    "--batch",
    "5",
]


def trained(tmp_path, *words):
    run = tmp_path / "run"
    assert main(["train", *SMALL, *words, "--run", str(run), "--overwrite"]) == 0
    assert "literal" not in json.dumps(folders.read_entries(run))  # only its consequences are kept
    config = folders.read_run(run).config()
    learning = config.learning
    return config.betas, config.model.indices, learning.update, learning.clip, learning.average


def test_the_papers_setting_is_one_option_away(tmp_path):
    assert trained(tmp_path) == ((1.0,), "all", "segment", 1.0, 5.0)
    assert trained(tmp_path, "--literal") == ((0.1,), "sampled", "batch", None, None)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--betas 1 --literal", ((1.0,), "sampled", "batch", None, None)),
        ("--literal --indices all", ((0.1,), "all", "batch", None, None)),
        ("--literal --update segment --clip 1", ((0.1,), "sampled", "segment", 1.0, None)),
        ("--literal --average 5", ((0.1,), "sampled", "batch", None, 5.0)),
        ("--literal --model gr-hrnn", ((0.0,), "sampled", "batch", None, None)),
        ("--literal --no-literal", ((1.0,), "all", "segment", 1.0, 5.0)),
    ],
)
def test_options_beside_it_win(tmp_path, words, expected):
    assert trained(tmp_path, *words.split()) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (Config(Copy()), {"start": 1, "step": 1, "hidden_sizes": (256, 256), "periods": (10,), "window": 200, "batch": 100}),
        (Config(Copy(length=9)), {"length": 9, "learning_rate": 1e-3, "schedule": "constant"}),
        (Config(Copy(start=5)), {"start": 5, "step": 1}),
        (Config(Pixels(pool=2)), {"hidden_sizes": (256, 256), "periods": (10,), "batch": 100, "epochs": 20}),
        (Config(Pixels(), Model(periods=(28,))), {"hidden_sizes": (256, 256), "periods": (28,), "learning_rate": 1e-3}),
        (Config(Pixels(), Model(model="lstm")), {"hidden_sizes": (256,), "periods": (), "betas": ()}),
        (Config(Pixels(), Model(periods=(7, 14))), {"hidden_sizes": (256, 256, 256), "betas": (0.1, 0.1)}),
        (Config(Pixels(), Model("gr-hrnn")), {"hidden_sizes": (256, 256), "betas": (0.0,)}),
        (Config(Pixels(), budget=Budget(updates=3)), {"updates": 3, "epochs": None, "schedule": "constant"}),
        (Config(Text()), {"window": 50, "batch": 100, "learning_rate": 1e-3, "schedule": "constant", "epochs": 8}),
    ],
)
def test_sizes_rates_and_lengths_are_the_papers_too(tmp_path, config, expected):
    if isinstance(config.task, Text):
        config = replace(config, task=Text(data=(write_text(tmp_path / "a.txt"),)))
    config = resolved(literal.as_published(config))
    found = {name: value for part in vars(config).values() for name, value in vars(part).items() if name in expected}
    assert found == expected


def test_it_sets_nothing_else():
    """Everything that is not named in its help is as without it."""
    differ = {name for name in vars(Model()) if getattr(literal.MODEL, name) != getattr(Model(), name)}
    assert differ == {"indices", "normalized"}
    differ = {name for name in vars(Learning()) if getattr(literal.LEARNING, name) != getattr(Learning(), name)}
    assert differ == {"update", "clip", "average"}


def test_a_beta_for_a_model_without_local_losses_is_still_refused(tmp_path, capsys):
    run = str(tmp_path / "run")
    assert main(["train", *SMALL, "--literal", "--model", "gr-hrnn", "--betas", "0.1", "--run", run]) == 2
    assert "gr-hrnn has no local loss" in capsys.readouterr().err

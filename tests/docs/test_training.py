"""What docs/ shows of tasks and training is run."""

import importlib
import re
from dataclasses import replace

import pytest
import torch

from hrnn.commands import sweep
from hrnn.commands.options import parse
from hrnn.commands.train import Train, task_and_rest
from hrnn.launching.grid import points
from hrnn.training.config import Config, resolved
from tests.commands.console import hrnn
from tests.docs.documented import PAGES, ROOT, arguments_of, code_in, lines_in, text_of
from tests.tiny import write_mnist, write_text

DOCS = ROOT / "docs"


def test_the_task_of_the_documentation_learns(tmp_path, monkeypatch, capsys):
    (code,) = code_in(DOCS / "own_task.md")
    assert "hash(" not in code  # which differs from process to process
    (tmp_path / "parity.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    train, help_, resume, evaluate = (arguments_of(line) for line in lines_in(DOCS / "own_task.md"))
    assert hrnn(capsys, *train, "--no-tensorboard")[0] == 0
    assert "--steps INT" in hrnn(capsys, *help_)[1]
    assert hrnn(capsys, *resume, "--updates", 102)[0] == 0
    code, out, _ = hrnn(capsys, *evaluate)
    assert code == 0
    assert float(re.search(r"accuracy ([\d.]+)", out)[1]) > 0.9  # chance is 0.5


def test_the_recipes_learn(capsys):
    names: dict = {}
    torch.manual_seed(0)
    for code in code_in(DOCS / "recipes.md"):
        exec(code, names)
    assert float(names["accuracy"]) > 0.7  # chance is 0.33


def test_training_from_python_as_documented(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    start, load = code_in(DOCS / "training.md")
    exec(start.replace("updates=100", "updates=3"), {})
    assert "'updates': 3" in capsys.readouterr().out
    assert (tmp_path / "runs" / "python" / "result.json").exists()
    exec(load, {})
    assert capsys.readouterr().out == "3 (32, 32) torch.Size([20, 1, 3])\n"
    assert (tmp_path / "model.safetensors").exists()


def test_an_experiment_from_python_as_documented(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = code_in(DOCS / "reproduce.md")
    exec(code.replace("scale=0.01", "scale=0.001"), {})
    assert capsys.readouterr().out == "{} False\n"
    assert (tmp_path / "runs" / "python" / "seed-1" / "result.json").exists()


class Understood(Exception):  # noqa: N818, it is no error
    """The options of a command, instead of doing what it does."""


def understood(words, monkeypatch):
    """What the command's own parser makes of its arguments."""
    module = importlib.import_module(f"hrnn.commands.{words[0]}")
    if words[0] == "sweep":
        return sweep.read(*task_and_rest(words[1:]))

    def stop(*arguments):
        raise Understood(parse(*arguments))

    monkeypatch.setattr(module, "parse", stop)
    with pytest.raises(Understood) as caught:
        module.main(words[1:])
    return caught.value.args[0]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with everything that the pages' commands read."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("book.txt", "more.txt", "other.txt", "log.txt"):
        write_text(folder / name)
    (folder / "ptb").mkdir()
    for part in ("train", "valid", "test"):
        write_text(folder / "ptb" / f"ptb.{part}.txt")
    write_mnist(folder / "mnist")
    (folder / "parity.py").write_text(code_in(DOCS / "own_task.md")[0])
    return folder


def commands_of(page):
    return [words for line in lines_in(page) if (words := arguments_of(line)) and "--help" not in words]


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)], ids=lambda page: page.name)
def test_every_command_of_a_page_is_understood(page, data, monkeypatch):
    monkeypatch.chdir(data)
    monkeypatch.syspath_prepend(data)
    for words in commands_of(page):
        options = understood(words, monkeypatch)
        if isinstance(options, Train):
            config = Config(options.task, options.model, options.learning, options.budget, options.upkeep)
            fetches = {"download": False} if hasattr(config.task, "download") else {}
            resolved(replace(config, task=replace(config.task, **fetches)))
        elif words[0] == "sweep":
            base, axes = options
            points(base.config, axes, base.grid.random, base.grid.sweep_seed or 0)


def heading_as_link(line):
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if anchor:
            headings = re.findall(r"^#+ .+$", text_of(there), re.MULTILINE)
            assert anchor in map(heading_as_link, headings), target

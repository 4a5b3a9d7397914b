"""Every Python block of README and docs is run, page by page, in the order in which it stands."""

import sys
import types

import pytest
import torch

from tests.docs.documented import PAGES, README, UPDATES, code_in, require, shorter_code


def learns(names, out, folder):
    (code,) = code_in(README)
    assert len([line for line in code.splitlines() if line.strip()]) <= 25
    assert float(names["result"].loss) < 0.1  # whoever tells blanks from bits and guesses the bits has 0.35


def classifies(names, out, folder):
    assert float(names["accuracy"]) > 0.7  # chance is 0.33


def shares_out(names, out, folder):
    assert names["losses"][-1] < names["losses"][0]


def trains(names, out, folder):
    assert (folder / "runs" / "python" / "result.json").exists()
    assert "(32, 32) torch.Size([20, 1, 3])\ntracking tracked\n" in out
    assert out.endswith("done\n")
    assert (folder / "model.safetensors").exists()


def runs_an_experiment(names, out, folder):
    assert out == "{} False\n"
    assert (folder / "runs" / "python" / "seed-1" / "result.json").exists()


def is_the_same_in_every_process(names, out, folder):
    assert "hash(" not in code_in(next(page for page in PAGES if page.name == "own_task.md"))[0]


# What a page shows. These run as they stand where they learn something.
SHOWN = {
    "README.md": learns,
    "recipes.md": classifies,
    "distributed.md": shares_out,
    "training.md": trains,
    "reproduce.md": runs_an_experiment,
    "own_task.md": is_the_same_in_every_process,
}
WHOLE = ("README.md", "recipes.md", "distributed.md")


# The loops of own_loop.md need libraries of others, each its own: test_own_loop.py.
@pytest.mark.parametrize(
    "page", [page for page in PAGES if code_in(page) and page.name != "own_loop.md"], ids=lambda page: page.name
)
def test_the_code_of_a_page_runs_in_its_order(page, tmp_path, monkeypatch, capsys):
    require(page)
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    module = types.ModuleType(f"docs_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look their module up
    names = vars(module)
    for code in code_in(page):
        exec(compile(code if page.name in WHOLE else shorter_code(code), page.name, "exec"), names)
    if shown := SHOWN.get(page.name):
        shown(names, capsys.readouterr().out, tmp_path)


def test_what_makes_code_shorter():
    loop = "for update in range(200):\n    pass\nBudget(updates=100)"
    if UPDATES != "all":
        assert shorter_code(loop) == f"for update in range({UPDATES}):\n    pass\nBudget(updates={UPDATES})"

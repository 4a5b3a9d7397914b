import itertools
import json
import re

import numpy as np
import pytest

from hrnn.formats import numbered
from hrnn.report.curves import figure_of
from hrnn.report.figure import style_of
from hrnn.report.series import load
from hrnn.tasks import Copy
from tests.commands.console import complaint, hrnn
from tests.runs import update, write_run
from tests.tiny import TINY, write_text

COPY = ("copy", *TINY, "--start", 1, "--periods", 3, "--window", 10, "--test-sequences", 20, "--learning-rate", 0.03)


@pytest.fixture
def runs(tmp_path, capsys):
    folders = [tmp_path / model for model in ("ours", "gr-hrnn")]
    for folder in folders:
        assert hrnn(capsys, "train", *COPY, "--model", folder.name, "--updates", 60, "--run", folder)[0] == 0
    return folders


def test_curves_of_several_runs(tmp_path, capsys, runs):
    for axis in ("updates", "sequences", "minutes"):
        picture = tmp_path / f"{axis}.svg"
        code, out, _ = hrnn(capsys, "plot", *runs, "--output", picture, "--x", axis)
        assert (code, out) == (0, f"{picture}\n")
        words = re.findall(r"<!-- (.*?) -->", picture.read_text())
        assert {"ours 8/8, seed 0", "gr-hrnn 8/8, seed 0", "length solved (bits)", "local loss (of 1 by guessing)"} <= set(
            words
        )
        assert "bits per recalled character" in words
        assert ("sequences seen" if axis == "sequences" else axis) in words
    assert hrnn(capsys, "plot", runs[0], "--output", tmp_path / "a" / "curves.png")[0] == 0
    assert (tmp_path / "a" / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_runs_give_the_same_picture(tmp_path, capsys, runs):
    for name in ("a.svg", "b.svg"):
        hrnn(capsys, "plot", *runs, "--output", tmp_path / name)
    assert (tmp_path / "a.svg").read_text() == (tmp_path / "b.svg").read_text()


def test_a_run_that_is_still_going_can_be_drawn(tmp_path, capsys, runs):
    journal = runs[0] / "journal.jsonl"
    journal.write_text(journal.read_text() + '{"kind": "update", "upd')
    assert hrnn(capsys, "plot", runs[0], "--output", tmp_path / "a.png")[0] == 0
    assert json.loads(hrnn(capsys, "runs", tmp_path, "--json")[1])[1]["updates"] == 60


def test_runs_that_cannot_be_drawn(tmp_path, capsys, runs):
    options = ("--data", write_text(tmp_path / "text.txt"), "--window", 10, "--updates", 1)
    assert hrnn(capsys, "train", "text", *TINY, *options, "--run", tmp_path / "text")[0] == 0
    assert "different tasks" in complaint(capsys, "plot", runs[0], tmp_path / "text")
    journal = runs[0] / "journal.jsonl"
    journal.write_text("no JSON\n" + journal.read_text())
    assert "journal.jsonl is damaged at line 1" in complaint(capsys, "plot", runs[0])
    (runs[1] / "journal.jsonl").write_text("")
    assert "has recorded nothing yet" in complaint(capsys, "plot", runs[1])
    code, _, err = hrnn(capsys, "plot", *runs, "--output", tmp_path / "b.png")
    assert code == 2
    assert err.splitlines()[-1] == "hrnn: none of these can be drawn"
    assert [line.split(":")[0] for line in err.splitlines()[:-1]] == [f"skipped {run}" for run in runs]


def test_of_a_sweep_mean_and_spread_by_setting(tmp_path, capsys):
    sweep = tmp_path / "sweep"
    for rate, seed in itertools.product((0.01, 0.02), (0, 1, 2)):
        run = {"learning": {"learning_rate": rate}, "upkeep": {"seed": seed}}
        records = [update(number, recalled_bits_per_character=rate * number + seed) for number in (1, 2, 3 + seed)]
        write_run(sweep / f"learning-rate={rate},seed={seed}", records, **run)
    (sweep / "sweep.json").write_text(
        json.dumps(numbered("sweep", {"over": {"learning-rate": ["0.01", "0.02"], "seed": ["0", "1", "2"]}}))
    )
    for name in ("table.json", "lock"):
        (sweep / name).write_text("{}")
    series, skipped = load([sweep])
    assert [(one.label, len(one.runs)) for one in series] == [
        ("learning-rate 0.01 (mean of 3)", 3),
        ("learning-rate 0.02 (mean of 3)", 3),
    ]
    assert not skipped
    panel = figure_of(series).axes[1]
    line = panel.get_lines()[0]
    assert line.get_xdata().tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(line.get_ydata()[:3], [1.01, 1.02, 1.03])
    low, high = panel.collections[0].get_paths()[0].get_extents().get_points()[:, 1]
    assert low < 0.25 < 1.8 < high  # one standard deviation of 0, 1, 2 on both sides of the mean
    code, out, err = hrnn(capsys, "plot", *sorted(sweep.iterdir()), "--output", tmp_path / "curves.pdf")
    assert (code, out) == (0, f"{tmp_path / 'curves.pdf'}\n")
    assert err == "skipped what is not a run: lock, sweep.json, table.json\n"
    assert (tmp_path / "curves.pdf").read_bytes().startswith(b"%PDF")


def test_the_line_of_solved_is_where_the_run_had_it(tmp_path):
    for name, solved in (("a", 0.4), ("b", 0.4), ("c", 0.1)):
        write_run(tmp_path / name, task={"name": "copy", "solved": solved})
    panel = figure_of(load([tmp_path])[0]).axes[1]
    dotted = [line for line in panel.get_lines() if line.get_linestyle() == ":"]
    assert [line.get_ydata()[0] for line in dotted] == [0.1, 0.4, 1]
    assert [text.get_text() for text in panel.texts] == ["solved", "solved", "chance"]
    assert all(text.get_position()[0] > 1 for text in panel.texts)  # beside the panel, where no curve comes


def test_axes_where_nothing_was_solved_or_a_loss_jumped(tmp_path):
    records = [update(number, recalled_bits_per_character=1000.0 if number == 50 else 1.0) for number in range(1, 101)]
    figure = figure_of(load([write_run(tmp_path / "run", records)])[0])
    length, loss, _ = figure.axes
    assert length.get_ylim() == (0, 1)
    assert [text.get_text() for text in length.texts] == ["no length solved yet"]
    assert loss.get_ylim() == (0, 1.5)


@pytest.mark.parametrize("count", [1, 2, 9, 60])
def test_the_legend_fits(tmp_path, count):
    for number in range(count):
        name = f"hidden-sizes={'64-' * 25}{number},learning-rate=0.001,seed={number}"
        write_run(tmp_path / name, [update(1, local_losses=[])], model={"model": "ours", "hidden_sizes": [64] * 26})
    series, _ = load([tmp_path])
    figure = figure_of(series)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    inside, whole = legend.get_window_extent(), figure.bbox
    assert whole.x0 <= inside.x0 < inside.x1 <= whole.x1
    assert whole.y0 <= inside.y0 < inside.y1 <= whole.y1
    for panel in figure.axes:
        assert not panel.get_tightbbox().overlaps(inside)
        assert panel.get_window_extent().height > 0.4 * 3.3 * figure.dpi
    labels = [text.get_text() for text in legend.get_texts()]
    if count == 60:
        assert labels[-1] == f"and {60 - len(labels) + 1} more"
    else:
        assert len(set(labels)) == count


def test_lines_of_many_runs_differ():
    assert len({(style["color"], style["dashes"]) for style in map(style_of, range(49))}) == 49


def test_odd_entries_are_left_out(tmp_path):
    odd = [None, "1", True, float("nan"), 10**400, [1], {}]
    records = [
        update(n, loss=value, update=n, local_losses=value, solved=value, seconds=value) for n, value in enumerate(odd, 1)
    ]
    run = write_run(tmp_path / "run", [*records, update(8, local_losses=[0.5, "x"])])
    for x in ("updates", "minutes"):
        figure = figure_of(load([run])[0], x)
        assert [len(line.get_xdata()) for line in figure.axes[0].get_lines()] == [1]


def test_the_length_that_ended_a_run_is_drawn(tmp_path):
    end = {"kind": "end", "update": 20, "sequences": 200, "longest_solved_length": 15, "seconds": 3.0}
    (series,), _ = load([write_run(tmp_path / "run", [update(10, solved=5), update(20, solved=10), end])])
    x, y = series.runs[0].line("update", Copy().progress, "update")
    assert x.tolist() == [10, 20, 20]
    assert y.tolist() == [5, 10, 15]

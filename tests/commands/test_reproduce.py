"""hrnn reproduce as a user runs it: whole, interrupted, killed, extended, and mistaken."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from hrnn.commands.options import parse
from hrnn.commands.reproduce_options import Reproduce, check
from hrnn.commands.reproduce_runs import without_results
from hrnn.report import committed
from hrnn.report.shown import command_of
from hrnn.studies.catalogue import STUDIES
from hrnn.studies.paper import EXPERIMENTS
from hrnn.studies.plan import Request
from hrnn.studies.searched import SEARCHED
from hrnn.training import folder as folders
from hrnn.training.journal import JOURNAL, read
from hrnn.training.loop import start
from tests.commands.console import complaint, hrnn
from tests.holding import held, holding
from tests.tiny import write_mnist
from tests.waiting import PATIENCE, wait_for

SCALE = 0.02  # 60 updates of the copy task


def copy(folder, *options):
    return ("reproduce", "copy", "--run", "--scale", SCALE, "--models", "ours", "--folder", folder, *options)


def without_times(records):
    """Nor what only says that a process began or resumed a run."""
    kept = [record for record in records if record["kind"] != "engine"]
    return [{key: value for key, value in record.items() if "seconds" not in key} for record in kept]


@contextmanager
def begun(place, *arguments):
    """The command in a process of its own, which does not outlive the test; its runs are held at an update."""
    command = [sys.executable, "-m", "hrnn", *map(str, arguments)]
    environment = os.environ | holding(40, place)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def check_journals(tmp_path, folder, seeds):
    """Those of runs that nobody interrupted."""
    for seed in seeds:
        request = Request(EXPERIMENTS["copy"], folder, scale=SCALE)
        start(request.unit(EXPERIMENTS["copy"].row("ours"), seed).config, tmp_path / f"alone-{seed}")
        journal = [json.loads(line) for line in (folder / f"runs/ours/seed-{seed}.jsonl").read_text().splitlines()]
        assert without_times(journal) == without_times(read(tmp_path / f"alone-{seed}"))


@pytest.mark.long
def test_killed_in_mid_run_and_started_again_it_loses_and_doubles_nothing(tmp_path, capsys):
    folder = tmp_path / "results"
    works = [folder / "work" / "ours" / f"seed-{seed}" for seed in (0, 1)]
    with begun(tmp_path / "held", *copy(folder, "--seeds", 0, 1, "--jobs", 2)) as process:
        children = [held(tmp_path / "held", work.name, over=process.poll) for work in works]
        os.killpg(process.pid, signal.SIGKILL)
        os.kill(children[0], signal.SIGKILL)  # one with its parent, the other has time for a checkpoint
    wait_for(lambda: not any(folders.is_locked(work) for work in works), "a run goes on without its parent")
    assert not (folder / "runs").exists()
    code, _, err = hrnn(capsys, *copy(folder, "--seeds", 0, 1, "--jobs", 2))
    assert code == 0, err
    assert "ours/seed-1 continues: update" in err
    check_journals(tmp_path, folder, (0, 1))


def test_interrupted_and_started_again_it_ends_with_the_table(tmp_path, capsys):
    folder = tmp_path / "results"
    work = folder / "work" / "ours" / "seed-0"
    with begun(tmp_path / "held", *copy(folder, "--seeds", 0)) as process:
        held(tmp_path / "held", work.name, over=process.poll)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "ours/seed-0 stopped" in said
    assert said.endswith(f"interrupted; the same command goes on from here: {folder}\n")
    assert not folders.is_locked(work)
    assert not (work / folders.RESULT).exists()
    so_far = (folder / "table.md").read_text()  # how far it is stands in the table, and nothing was made of it
    assert re.search(
        r"- ours, seed 0, unfinished after [\d,]+ sequences and [\d.]+ core-minutes; length solved \(bits\) so far: \d+\.",
        so_far,
    )
    assert "| - | unfinished |" in so_far
    assert json.loads((folder / "runs/ours/seed-0.json").read_text())["result"] is None
    assert (folder / "runs/ours/seed-0.jsonl").read_bytes() == (work / JOURNAL).read_bytes()
    code, out, err = hrnn(capsys, *copy(folder, "--seeds", 0))
    assert code == 0, err
    assert "ours/seed-0 continues: update" in err
    assert "Copy task: longest length solved" in out
    check_journals(tmp_path, folder, (0,))
    entries = json.loads((folder / "runs/ours/seed-0.json").read_text())
    assert entries["setting"] == {"experiment": "copy", "profile": "desk", "scale": SCALE, "searched": False}
    assert entries["memory"]["paper_count"] == 29
    assert entries["memory"]["measured_bytes"] == 5_000_000
    assert {"date", "torch", "python", "processor", "cores"} <= set(entries["environment"])
    assert "Scaled: budgets are 0.02 times" in (folder / "table.md").read_text()

    # The work is no longer needed: from the results alone the same table is made, and nothing is trained.
    shutil.rmtree(folder / "work")
    before = {name: (folder / name).read_bytes() for name in ("table.md", "table.json", "curves.svg")}
    code, _, err = hrnn(capsys, *copy(folder, "--seeds", 0))
    assert (code, err) == (0, "")
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert not (folder / "work").exists()


def test_a_time_limit_is_no_failure_and_the_same_command_goes_on(tmp_path, capsys):
    folder = tmp_path / "results"
    code, out, err = hrnn(capsys, *copy(folder, "--seeds", 0, 1, "--minutes", 1e-6))
    assert (code, out) == (0, "")  # nothing had begun
    assert err.endswith(f"time limit; the same command goes on from here: {folder}\n")
    code, out, err = hrnn(capsys, *copy(folder, "--seeds", 0, "--minutes", 60))
    assert code == 0, err
    assert "time limit" not in err
    assert "unfinished" not in (folder / "table.md").read_text()


def test_the_list_measures_nothing_and_needs_no_data(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("hrnn.commands.reproduce_runs.seconds_of", lambda config: 1 / 0)
    code, out, err = hrnn(capsys, "reproduce", "--list")
    assert (code, err) == (0, "")
    assert list(_results_listed(out)) == list(STUDIES)
    assert "  8,000 to 200,000  " in out
    assert _results_listed(out)["mnist"] == "desk*"
    assert _results_listed(out)["copy"] == "desk*, paper"
    assert _results_listed(out)["copy-from-20"] == "paper"
    assert hrnn(capsys, "reproduce") == (0, out, "")
    code, out, _ = hrnn(capsys, "reproduce", "--list", "--search")
    assert [line.split()[0] for line in out.splitlines()[1:-2]] == list(SEARCHED)
    assert "desk     5 models x 3 seeds + 24 trials  150,000 " in out
    code, out, _ = hrnn(capsys, "reproduce", "mnist", "--list", "--profile", "paper", "--models", "ours", "--scale", 0.5)
    assert out.splitlines()[1].rstrip().endswith("1 models x 3 seeds  550,000         mnist/  desk*")
    assert "Its rows, for --models: ours gr-hrnn hrnn mr-hrnn unlocked default\n" in out
    _, out, _ = hrnn(capsys, "reproduce", "ptb", "--list", "--profile", "paper")
    assert "12 to 100 epochs" in out
    assert "--measure is for --list" in complaint(capsys, "reproduce", "copy", "--measure")
    monkeypatch.setattr(committed, "FOLDER", tmp_path)
    assert set(_results_listed(hrnn(capsys, "reproduce")[1]).values()) == {"none"}


def _results_listed(out):
    """The last column of the list, by experiment."""
    lines = out[: out.index("hrnn reproduce NAME shows")].splitlines()[1:]
    return {line.split()[0]: line.rstrip().rpartition("  ")[2] for line in lines}


@pytest.mark.parametrize(("seconds", "rate"), [(1 / 104.4, "104"), (1 / 23, "23"), (1 / 4.56, "4.6"), (1 / 0.0123, "0.012")])
def test_rates_are_written_out(capsys, monkeypatch, seconds, rate):
    monkeypatch.setattr("hrnn.commands.reproduce_runs.seconds_of", lambda config: seconds)
    code, out, _ = hrnn(capsys, "reproduce", "copy", "--list", "--measure")
    assert code == 0
    assert out.splitlines()[1].split()[-1] == rate


def test_what_each_would_cost(capsys, tmp_path):
    options = ("--models", "unlocked", "--seeds", 0, 1, "--jobs", 2, "--measure")
    code, out, err = hrnn(capsys, "reproduce", "copy", "--list", *options)
    assert code == 0
    assert "core-minutes" in out
    assert out.splitlines()[1].split()[0] == "copy"
    code, out, err = hrnn(capsys, "reproduce", "mnist", "--list", "--models", "ours", "--measure")
    assert code == 0
    assert "?" in out
    assert "give --data DATA" in err


def test_results_are_shown_at_once_without_training_and_without_torch(tmp_path):
    """In a folder of its own, as a user has it who has no clone."""
    program = (
        "import sys; from hrnn.cli import main; code = main(['reproduce', 'copy']); "
        "print(code, sorted({'torch', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    *shown, last = done.stdout.splitlines()
    assert last == "0 []"
    text = " ".join(" ".join(shown).split())
    assert "HRNN true yes 30.0 ± 0.0 ≥30, ≥30, ≥30 107.7 ± 0.47 60 200 13.8 1.9" in text
    assert "ours is on par with HRNN confirmed confirmed if the means of ours and hrnn differ by at most 10 %" in text
    assert "Trained 2026-11-16, hrnn 0.1.0, torch 2.13.0+cpu, Python 3.11.7, AMD EPYC, 2 cores" in text
    assert "hrnn reproduce copy --output curves.png" in text
    trains = "hrnn reproduce copy --run --models ours gr-hrnn hrnn mr-hrnn mr-hrnn-bytes unlocked"
    assert f"To train it yourself: {trains} (the 22 runs that are here took 27 minutes of one core;" in text
    assert "More results: hrnn reproduce beta-copy (our defaults, four betas)" in text
    assert "hrnn reproduce copy --profile paper (the paper's size)" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", sorted(committed.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_committed_table_is_shown_and_its_curves_are_drawn(path, capsys, tmp_path):
    table = json.loads(path.read_text())["table"]
    words = table["called"].split()
    code, out, err = hrnn(capsys, "reproduce", *words)
    assert (code, err) == (0, "")
    for one in table.get("expectations", ()):
        assert one["sentence"] in " ".join(out.split())
    assert f"To train it yourself: {command_of(table)}\n(the " in out
    check(parse(Reproduce, "reproduce", command_of(table).split()[2:]))  # it can be typed as it stands
    assert hrnn(capsys, "reproduce", *words, "--output", tmp_path / "curves.svg") == (0, f"{tmp_path / 'curves.svg'}\n", "")
    rows = {row["title"] if "title" in row else row["row"] for row in table["rows"]}
    drawn = (tmp_path / "curves.svg").read_text()
    assert all(f"<!-- {row}" in drawn for row in rows)


def test_without_results_a_sentence_says_how_to_train(capsys):
    said = complaint(capsys, "reproduce", "deep-copy", "--profile", "paper")
    assert "no results of deep-copy, profile paper, come with this version" in said
    assert said.endswith("train it: hrnn reproduce deep-copy --profile paper --run")
    said = complaint(capsys, "reproduce", "mnist", "--profile", "paper", "--output", "curves.png")
    assert said.endswith("train it: hrnn reproduce mnist --profile paper --run --data DATA")
    said = str(without_results(Reproduce(name="permuted-mnist-784")))
    assert "profile paper, come with" in said
    assert said.endswith("train it: hrnn reproduce permuted-mnist-784 --run --data DATA")


def test_what_is_for_training_needs_run(capsys, tmp_path):
    for option in (("--seeds", 1), ("--models", "ours"), ("--data", tmp_path), ("--folder", tmp_path), ("--scale", 0.1)):
        assert complaint(capsys, "reproduce", "copy", *option) == (
            f"hrnn: {option[0]} is for training: hrnn reproduce copy --run"
        )
    two = complaint(capsys, "reproduce", "copy", "--jobs", 2, "--seeds", 1)
    assert two == "hrnn: --seeds and --jobs are for training: hrnn reproduce copy --run"
    assert "--engine is for training" in complaint(capsys, "reproduce", "copy", "--engine", "ray")
    assert "give one of them" in complaint(capsys, "reproduce", "copy", "--run", "--list")
    assert "--run writes curves.png" in complaint(capsys, "reproduce", "copy", "--run", "--output", "a.png")
    assert "--list has none; drop it" in complaint(capsys, "reproduce", "copy", "--list", "--output", "a.png")
    assert "ends with .png, .svg or .pdf" in complaint(capsys, "reproduce", "copy", "--output", "a.jpg")
    assert "--seeds is for training: hrnn reproduce NAME --run" in complaint(capsys, "reproduce", "--seeds", 1)


def test_mistakes(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    there = (
        "copy, mnist, permuted-mnist, ptb, deep-copy, needle, needle-long, copy-from-20, mnist-784, permuted-mnist-784, "
        "deep-copy-from-50, beta-copy, beta-mnist, beta-ptb, beta-deep-copy, beta-needle, needle-rarity, needle-replay, "
        "unlocked, frontier"
    )
    assert f"which experiment? There are {there}" in complaint(capsys, "reproduce", "--run")
    assert f"which experiment? There are {there}" in complaint(capsys, "reproduce", "--output", "curves.png")
    assert f"no experiment is called 'cpoy'; there are {there}" in complaint(capsys, "reproduce", "cpoy")
    assert "no experiment is called '../committed/copy'" in complaint(capsys, "reproduce", "../committed/copy")

    def mistake(*options):
        return complaint(capsys, "reproduce", *options, "--run")

    assert "copy has no model 'lstm'; there are ours, gr-hrnn, hrnn, mr-hrnn" in mistake("copy", "--models", "lstm")
    assert "put MNIST's four idx files" in mistake("mnist")
    assert "ptb is not a folder; put Penn TreeBank's" in mistake("ptb", "--data", tmp_path)
    assert "has no paper profile" in mistake("needle", "--profile", "paper")
    assert "has no paper profile" in complaint(capsys, "reproduce", "needle", "--profile", "paper")
    assert "has no desk profile; drop --profile desk" in mistake("copy-from-20", "--profile", "desk")
    assert "copy --search has no paper profile" in mistake("copy", "--search", "--profile", "paper")
    assert "--search chooses settings for the rows of copy, mnist" in mistake("copy-from-20", "--search")
    assert "settings are chosen on seed 100; report others" in mistake("copy", "--search", "--seeds", 100)
    assert "--seeds is (1, 1)" in mistake("copy", "--seeds", 1, 1)
    assert "--scale is 0.0" in mistake("copy", "--scale", 0)
    assert "--jobs is 0" in mistake("copy", "--jobs", 0)
    assert not Path("runs").exists()


def test_damaged_data_are_found_before_anything_is_run(capsys, tmp_path):
    write_mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"no gzip")
    options = ("--data", tmp_path, "--folder", tmp_path / "results")
    assert "train-images-idx3-ubyte" in complaint(capsys, "reproduce", "mnist", "--run", *options)
    assert not (tmp_path / "results" / "work" / "ours").exists()


@pytest.mark.parametrize("name", ["results", "work"])
def test_what_does_not_belong_here_is_refused_and_stays(capsys, tmp_path, name):
    """Results of another recipe, and a run that was begun with one."""
    folder = tmp_path / "results"
    other = Request(EXPERIMENTS["copy"], folder, scale=0.5).unit(EXPERIMENTS["copy"].row("ours"), 0)
    if name == "work":
        folders.create(folder / "work" / other.name, other.config, overwrite=False)
        words = "budget.sequences is 75000 there and 3000 here"
    else:
        (folder / "runs" / "ours").mkdir(parents=True)
        (folder / "runs" / "ours" / "seed-0.json").write_text('{"format": 0}')
        words = "has format 0, as files of hrnn before 0.3.0 have"
    before = {path: path.read_bytes() for path in folder.rglob("*.json")}
    assert words in complaint(capsys, *copy(folder, "--seeds", 0))
    assert {path: path.read_bytes() for path in folder.rglob("*.json")} == before

"""By array, by command and step by step a run says the same of any table, whatever its columns are called and wherever they
stand. Weights are random: nothing is trained."""

import csv
import io
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import hrnn as library
from hrnn.tasks import Series
from hrnn.training.answers import Answers
from tests.commands.console import hrnn
from tests.data.made import write_table
from tests.series.made import untrained

IDS, TIMES, TARGETS = ("unique_id", "id"), ("ds", "time"), ("label", "class")  # the first of each that is there plays the part
NAMES = ("y", "target", "id", "time", "label", "ds", "unique_id", "class", "x", "a", "index", "Y", "0")


@dataclass
class Case:
    """A table, the options of a run on it, and which columns are what: values in the order of the file."""

    random: np.random.Generator
    columns: dict[str, list] = field(default_factory=dict)
    options: dict = field(default_factory=dict)
    model: dict = field(default_factory=dict)

    def __post_init__(self):
        random = self.random
        names = [str(name) for name in random.permutation(NAMES)[: random.integers(2, 9)]]
        names += [] if {"x", "y", "a"} & set(names) else ["y"]
        self.id, self.time, self.target = (self.named(names, usual) for usual in (IDS, TIMES, TARGETS))
        self.values = [name for name in names if name not in (self.id, self.time, self.target)]
        if len(self.values) > 1 and random.random() < 0.2:
            self.values = [str(name) for name in random.permutation(self.values)]
            self.options["values"] = tuple(self.values)
        self.patch = int(random.choice([1, 1, 2, 3]))
        counts = random.integers(12, 25, 12) if self.id else np.array([int(random.integers(150, 200))])
        self.fill(names, counts)
        forecast = self.target is None or random.random() < 0.3
        if forecast:
            self.options = {**self.options, "forecast": int(random.integers(1, 4)), "target_is": None}
        self.options |= {"patch": self.patch, "held_out": 0.25, "normalise": str(random.choice(["channel", "none"]))}
        if self.of_sequences and not forecast:
            self.options["readout"] = str(random.choice(["every", "mean", "last"]))
        self.model = {"output_levels": str(random.choice(["lowest", "all"])), "cell": str(random.choice(["lstm", "gru"]))}
        self.model |= self.edges(int(random.integers(1, 3)))

    def edges(self, below):
        """What levels read, and where contexts enter."""
        random, shape = self.random, {"hidden_sizes": (5, 6, 4)[: below + 1], "periods": (3, 2)[:below]}
        reads = tuple(str(one) for one in random.choice(["summary", "inputs", "both"], below))
        context = tuple(str(one) for one in random.choice(["input", "state"], below))
        reader = (str(random.choice(["linear", "maximum"])) if set(reads) != {"summary"} else "linear",)
        burn_in = int(random.integers(0, 5)) if reads[0] == "inputs" else 0
        return {**shape, "reads": reads, "reader": reader, "context": context, "burn_in": burn_in}

    def named(self, names, usual):
        """The column that plays a part; None: there is none, perhaps because the options say so."""
        found = next((name for name in usual if name in names), None)
        if found is not None and self.random.random() < 0.1:
            self.options[{IDS: "id", TIMES: "time", TARGETS: "target"}[usual]] = "none"
            return None
        return found

    def fill(self, names, counts):
        random, rows = self.random, int(counts.sum())
        of = np.repeat(np.arange(len(counts)), counts)
        step = np.concatenate([np.arange(count) for count in counts])
        self.of_sequences = self.id is not None and random.random() < 0.6
        kinds = {name: str(random.choice(["number", "number", "whole", "category"])) for name in self.values}
        kinds[next(name for name in self.values if name in ("x", "y", "a"))] = "number"
        self.numeric = [name for name in self.values if kinds[name] != "category"]
        lacking = [name for name in self.numeric if random.random() < 0.3]
        irregular = random.random() < 0.5
        for name in names:
            if name == self.id:
                column = [f"s{number}" for number in of] if random.random() < 0.5 else (7 * of + 1).tolist()
            elif name == self.time:
                column = (np.cumsum(random.integers(1, 5, rows)) if irregular else step).tolist()
            elif name == self.target:
                which = of if self.of_sequences else step // self.patch
                numbers = random.random() < 0.3
                column = (which * 1.7).tolist() if numbers else [f"c{number % 2}" for number in which]
                self.options |= {"target_is": "number"} if numbers else {}
            elif kinds[name] == "category":
                column = [f"k{number}" for number in random.integers(0, 4, rows)]
            else:
                column = random.normal(random.normal(), random.uniform(0.5, 2), rows).round(3).tolist()
                column = [round(10 * value) for value in column] if kinds[name] == "whole" else column
                if name in lacking:
                    column = [value if there else None for value, there in zip(column, random.random(rows) > 0.15, strict=True)]
            self.columns[name] = column
        self.rows = [np.flatnonzero(of == number) for number in range(len(counts))]  # of each sequence, in its order
        self.mixed = self.id is not None and random.random() < 0.3
        if self.mixed:  # those of all sequences in turn
            order = np.lexsort((of, step))
            self.columns = {name: [column[row] for row in order] for name, column in self.columns.items()}
            self.rows = [np.flatnonzero(of[order] == number) for number in range(len(counts))]

    @property
    def table(self):
        return pa.table(self.columns)

    @property
    def arrays(self):
        """Sequences without names, where all their values are numbers."""
        values = np.array([self.columns[name] for name in self.values], dtype=float).T  # None is nan
        return [values[rows] for rows in self.rows]

    def __str__(self):
        text = io.BytesIO()
        pyarrow.csv.write_csv(self.table, text)
        return f"{self.options} {self.model}\n{text.getvalue().decode()}"


@pytest.mark.parametrize("seed", [*range(20), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(20, 200))])
def test_all_ways_say_the_same_of_any_table(seed, tmp_path, capsys, monkeypatch):
    case = Case(np.random.default_rng(seed))
    try:
        compare(case, tmp_path, capsys, monkeypatch)
    except BaseException as error:
        error.add_note(f"seed {seed}: {case}")
        raise


def compare(case, folder, capsys, monkeypatch):
    random, table = case.random, case.table
    ending = str(random.choice(["csv", "parquet"] if case.mixed else ["csv", "parquet", "feather"]))  # whose batches are short
    path = write_table(table, folder / f"t.{ending}")
    run = untrained(folder / "runs" / "r", Series(data=(path,), cache=folder / "cache", **case.options), **case.model)
    trained = library.load(run)
    pre, answers = trained.config.task.learned, Answers(trained.config.task)
    assert pre.channels == tuple(case.values)
    assert answers.ahead or answers.of == ("sequence" if case.of_sequences else "step")
    expected = by_command(capsys, run, path, answers, folder)

    other = table.select([str(name) for name in random.permutation(table.column_names)])
    found = by_command(capsys, run, write_table(other, folder / "other.csv"), answers, folder)
    assert len(found) == len(expected) == len(case.rows)
    for some, others in zip(expected, found, strict=True):
        close(some, others)

    if len(case.numeric) == len(case.values) and not pre.interval:
        close([row for some in expected for row in some], by_array(trained, case.arrays, answers))
    rows = table.to_pylist()
    for one, numbers in zip(expected, case.rows, strict=True):
        # The forecast of a stream that is not at the end of an input is over; a file's begins with what is left over.
        for positional in () if answers.ahead and len(numbers) % case.patch else (False, True):
            close(one, by_stream(trained, [rows[row] for row in numbers], case, answers, positional))
    by_lines(capsys, monkeypatch, run, case, expected, answers)


def close(expected, found):
    expected, found = (np.asarray(one, dtype=object) for one in (expected, found))
    assert expected.shape == found.shape
    words = np.vectorize(lambda value: isinstance(value, str), otypes=[bool])(expected)
    assert (expected[words] == found[words]).all()
    numbers, others = (one[~words].astype(float) for one in (expected, found))
    assert np.abs(numbers - others).max(initial=0) <= 1e-6 * max(1, np.abs(numbers).max(initial=0))


def by_command(capsys, run, path, answers, folder):
    """Of each sequence, in order, the rows of its answers."""
    out = folder / "out.parquet"
    code, _, err = hrnn(capsys, "predict", run, path, "-o", out)
    assert code == 0, err
    columns = pyarrow.parquet.read_table(out).to_pydict()
    rows = {}
    values = [columns[name] for name in columns if name not in ("id", "step")]  # a channel may be called step, which has step_
    assert len(values) == len(answers.names)
    for name, *row in zip(columns["id"], *values, strict=True):
        rows.setdefault(name, []).append(row)
    return list(rows.values())


def by_array(trained, arrays, answers):
    found = trained.predict(arrays)
    if answers.ahead:
        return found.reshape(-1, len(answers.names))
    several = answers.of == "step"
    found = np.concatenate(found) if several else found
    if not answers.labels:
        return found[:, None]
    shares = trained.predict_proba(arrays)
    shares = np.concatenate(shares) if several else shares
    return np.concatenate([found[:, None], shares], axis=1, dtype=object)


def by_stream(trained, rows, case, answers, positional):
    stream = trained.stream()
    told = []
    for place, row in enumerate(rows, 1):
        values = [row[name] for name in case.values] if positional else row
        answer = stream.step(values, row.get(case.time))
        told += [answer] if place % case.patch == 0 else []
    told += [stream.end()] if len(rows) % case.patch else []
    if answers.ahead:
        return np.stack([told[-1][name] for name in answers.names], axis=1)
    told = told if answers.of == "step" else told[-1:]
    return [[answer[name] for name in answers.names] for answer in told]


def by_lines(capsys, monkeypatch, run, case, expected, answers):
    """Line by line: what is said of the last one of each sequence, if its inputs are complete."""
    text = io.BytesIO()
    pyarrow.csv.write_csv(case.table, text)
    monkeypatch.setattr("sys.stdin", io.StringIO(text.getvalue().decode()))
    code, out, err = hrnn(capsys, "predict", run, "--follow")
    assert code == 0, err
    followed = list(csv.reader(io.StringIO(out)))[1:]
    assert len(followed) == case.table.num_rows
    for one, numbers in zip(expected, case.rows, strict=True):
        if len(numbers) % case.patch == 0:
            words = np.ravel(np.array(one if answers.ahead else one[-1:], dtype=object))
            told = followed[numbers[-1]][2:]
            close(words, [word if isinstance(value, str) else float(word) for value, word in zip(words, told, strict=True)])

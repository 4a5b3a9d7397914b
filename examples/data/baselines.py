"""What others reach on the same parts: MiniRocket (aeon) for classes, an autoregression of order 64 and
the value one season before for what comes next.

    python baselines.py FOLDER [watch acsf1 speakers seismogram ...] [--json FILE]

It prints a line of JSON for each. The last value (persistence), Markov models and xz are in hrnn's own results; a flat LSTM is
hrnn train series with --model lstm. pip install aeon pyarrow soundfile
"""

import argparse
import csv
import itertools
import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

ORDER, SEASONS = 64, 5000
STRETCH = {"speakers": 8000, "vowels": 29}  # steps that MiniRocket sees at once, where the shortest sequence is too short
MOST = 4  # stretches of a sequence, evenly spaced
SPARE = ("id", "label", "split", "time")
Sequence = tuple[np.ndarray, str, str]  # (channels, steps), class, part


def of_table(path: Path) -> Iterator[Sequence]:
    """The sequences of a long table whose rows stand together."""
    table = pq.read_table(path)
    ids = table["id"].combine_chunks().dictionary_encode().indices.to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(ids)) + 1), len(ids)]
    values = np.stack([table[name].to_numpy() for name in table.column_names if name not in SPARE])
    for start, stop in itertools.pairwise(edges):
        yield values[:, start:stop], table["label"][start].as_py(), table["split"][start].as_py()


def of_folder(path: Path) -> Iterator[Sequence]:
    """Recordings, each with mean 0 and scale 1."""
    import soundfile

    with open(path / "labels.csv", newline="") as file:
        for row in csv.DictReader(file):
            samples = soundfile.read(path / row["file"], dtype="float32")[0]
            yield ((samples - samples.mean()) / (samples.std() + 1e-9))[None], row["label"], row["split"]


def stretches(values: np.ndarray, steps: int) -> list[np.ndarray]:
    """Up to `MOST` stretches of equal length; what is shorter is filled up with zeros."""
    if values.shape[1] < steps:
        return [np.pad(values, ((0, 0), (0, steps - values.shape[1])))]
    count = min(MOST, values.shape[1] // steps + (values.shape[1] > steps))
    starts = np.linspace(0, values.shape[1] - steps, count).astype(int)
    return [values[:, start : start + steps] for start in starts]


def minirocket(name: str, sequences: list[Sequence], seed: int) -> float:
    """Accuracy on the test part: features of stretches, ridge regression, the sum of the scores of a sequence's stretches.
    It learns from training and validation, which it has no other use for."""
    from aeon.transformations.collection.convolution_based import MiniRocket
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    steps = STRETCH.get(name) or min(values.shape[1] for values, _, _ in sequences)
    known, labels, asked, owners, true = [], [], [], [], []
    for values, label, part in sequences:
        cut = stretches(values.astype(np.float32), steps)
        if part == "test":
            owners += [len(true)] * len(cut)
            asked += cut
            true.append(label)
        else:
            known += cut
            labels += [label] * len(cut)
    rocket = MiniRocket(random_state=seed, n_jobs=1)
    ridge = make_pipeline(StandardScaler(with_mean=False), RidgeClassifierCV(alphas=np.logspace(-3, 3, 10)))
    ridge.fit(np.asarray(rocket.fit_transform(np.stack(known))), labels)
    scores = ridge.decision_function(np.asarray(rocket.transform(np.stack(asked))))
    if scores.ndim == 1:  # of two classes
        scores = np.stack([-scores, scores], 1)
    total = np.zeros((len(true), scores.shape[1]))
    np.add.at(total, owners, scores)
    return float((ridge.classes_[total.argmax(1)] == np.array(true)).mean())


def autoregression(values: np.ndarray) -> dict[str, float]:
    """Errors of the next value on the last tenth, beside those of the last value; learned on the first eight tenths."""
    values = values.astype(np.float64)
    first, second = int(np.ceil(0.8 * len(values))), int(np.ceil(0.9 * len(values)))

    def lagged(start: int, stop: int) -> np.ndarray:
        lags = np.lib.stride_tricks.sliding_window_view(values[start - ORDER : stop - 1], ORDER)
        return np.concatenate([lags, np.ones((len(lags), 1))], 1)

    square, product = np.zeros((ORDER + 1, ORDER + 1)), np.zeros(ORDER + 1)
    for start in range(ORDER, first, 1 << 16):
        stop = min(start + (1 << 16), first)
        lags = lagged(start, stop)
        square += lags.T @ lags
        product += lags.T @ values[start:stop]
    weights = np.linalg.solve(square, product)
    missed, moved = lagged(second + 1, len(values)) @ weights - values[second + 1 :], np.diff(values[second:])
    errors = {"mae": np.abs(missed).mean(), "naive_mae": np.abs(moved).mean()}
    return {name: float(value) for name, value in errors.items()} | {
        "of_naive": float(errors["mae"] / errors["naive_mae"]),
        "squares_of_naive": float((missed**2).mean() / (moved**2).mean()),
    }


def seasonal(values: np.ndarray) -> dict[str, float]:
    """The same of what was one season before; of 2 to `SEASONS` steps the season with the least error on the first eight
    tenths, of which every seventh step is asked."""
    values = values.astype(np.float64)
    first, second = int(np.ceil(0.8 * len(values))), int(np.ceil(0.9 * len(values)))
    season = min(range(2, SEASONS + 1), key=lambda one: np.abs(values[one:first:7] - values[: first - one : 7]).mean())
    missed, moved = values[second + 1 :] - values[second + 1 - season : -season], np.diff(values[second:])
    return {
        "season": season,
        "of_naive": float(np.abs(missed).mean() / np.abs(moved).mean()),
        "squares_of_naive": float((missed**2).mean() / (moved**2).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=["watch", "acsf1", "speakers", "seismogram"])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    rows = []
    for name in chosen.names:
        path, begun = chosen.folder / f"{name}.parquet", time.process_time()
        if path.exists() and "id" not in pq.read_schema(path).names:
            values = pq.read_table(path).column(0).to_numpy()
            found = [
                {"data": name, "method": f"AR({ORDER})", **autoregression(values)},
                {"data": name, "method": "seasonal naive", **seasonal(values)},
            ]
        else:
            sequences = list(of_table(path) if path.exists() else of_folder(chosen.folder / name))
            scores = [minirocket(name, sequences, seed) for seed in chosen.seeds]
            found = [{"data": name, "method": "MiniRocket", "accuracy": scores}]
        for row in found:
            row["core_minutes"] = (time.process_time() - begun) / 60
            row["peak_mb_so_far"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000  # of the whole process
            print(json.dumps(row), flush=True)
        rows += found
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

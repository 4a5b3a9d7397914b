"""acsf1.parquet, vowels.parquet, leaf.parquet: sets of the UCR and UEA archives inside aeon's wheel, in the archives' own
parts (pip install "aeon<1.7" pyarrow). Validation is split off the training part by hrnn.

ACSF1: power that 10 kinds of household appliances take, 200 series of 1,460 steps. JapaneseVowels: 9 speakers, 640 series of
7 to 29 steps, 12 channels. OSULeaf: outlines of leaves of 6 trees, 442 series of 427 steps.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from aeon.datasets import load_acsf1, load_japanese_vowels, load_osuleaf

LOADERS = {"acsf1": load_acsf1, "vowels": load_japanese_vowels, "leaf": load_osuleaf}


def main(folder: Path) -> None:
    """Write the tables; a row is a step."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, load in LOADERS.items():
        tables = []
        for part in ("train", "test"):
            series, labels = load(split=part)  # each (channels, steps)
            lengths = [one.shape[1] for one in series]
            values = np.concatenate(list(series), axis=1).astype(np.float32)
            columns = {
                "id": np.repeat([f"{part}{number}" for number in range(len(lengths))], lengths),
                "label": np.repeat([f"class{label}" for label in labels], lengths),
                "split": np.repeat(part, sum(lengths)),
            }
            columns |= {f"value{channel}": row for channel, row in enumerate(values)}
            tables.append(pa.table(columns))
        pq.write_table(pa.concat_tables(tables), folder / f"{name}.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))

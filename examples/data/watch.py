"""watch.parquet: shoulder exercises by smartwatch, from seglearn (pip install seglearn pyarrow).

140 recordings of 6 channels at 50 Hz, 7 exercises, 10 persons. The last three persons are the test part, the one before them
validation: nobody is in two parts.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from seglearn.datasets import load_watch

TEST, VALIDATION = 3, 1  # persons


def main(folder: Path) -> None:
    """Write the table; a row is a step."""
    watch = load_watch()
    persons = sorted(set(watch["subject"].tolist()))
    parts = ["train"] * (len(persons) - TEST - VALIDATION) + ["validation"] * VALIDATION + ["test"] * TEST
    part_of = dict(zip(persons, parts, strict=True))
    lengths = [len(one) for one in watch["X"]]
    facts = {
        "id": range(len(lengths)),
        "label": [watch["y_labels"][code] for code in watch["y"].tolist()],
        "split": [part_of[person] for person in watch["subject"].tolist()],
    }
    columns = {name: np.repeat(np.array(values), lengths) for name, values in facts.items()}
    values = np.concatenate(watch["X"]).astype(np.float32)
    columns |= {name: values[:, channel] for channel, name in enumerate(watch["X_labels"])}
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / "watch.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))

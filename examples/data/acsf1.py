"""acsf1.parquet: power consumption of household appliances, from aeon (pip install "aeon<1.7" pyarrow).

ACSF1 of the UCR archive, inside the wheel: 200 series of 1,460 steps, 10 appliances, in the archive's own parts. Validation is
split off the training part by hrnn.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from aeon.datasets import load_acsf1


def main(folder: Path) -> None:
    """Write the table; a row is a step."""
    tables = []
    for part in ("train", "test"):
        series, labels = load_acsf1(split=part)  # (series, 1, steps)
        count, _, steps = series.shape
        columns = {
            "id": np.repeat([f"{part}{number}" for number in range(count)], steps),
            "label": np.repeat([f"appliance{label}" for label in labels], steps),
            "split": np.repeat(part, count * steps),
            "power": series.astype(np.float32).ravel(),
        }
        tables.append(pa.table(columns))
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.concat_tables(tables), folder / "acsf1.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))

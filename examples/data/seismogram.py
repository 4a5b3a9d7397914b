"""seismogram.parquet: ground motion at one station for two and a half hours, from obspy (pip install obspy pyarrow).

One series of 936,001 samples at 100 Hz (BW.KW1, 31 March 2011), inside the wheel among the data of obspy's tests; these read
it as text, and so does this script.
"""

import gzip
import sys
from pathlib import Path

import numpy as np
import obspy
import pyarrow as pa
import pyarrow.parquet as pq

NAME = "signal/tests/data/BW.KW1._.EHZ.D.2011.090_downsampled.asc.gz"


def main(folder: Path) -> None:
    """Write the table; a row is a sample."""
    with gzip.open(Path(obspy.__file__).parent / NAME) as file:
        counts = np.loadtxt(file, dtype=np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"counts": counts}), folder / "seismogram.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))

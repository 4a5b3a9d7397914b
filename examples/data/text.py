"""jargon.txt: the Jargon File 4.4.7, a dictionary of hackers' words, public domain (Debian: apt-get install jargon-text)."""

import gzip
import sys
from pathlib import Path

INSTALLED = Path("/usr/share/doc/jargon-text/jargon.txt.gz")


def main(folder: Path, installed: Path = INSTALLED) -> None:
    """Write the text as it is, in bytes."""
    if not installed.exists():
        raise SystemExit(f"there is no {installed}; install the package, or name the file where it is")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "jargon.txt").write_bytes(gzip.decompress(installed.read_bytes()))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."), *map(Path, sys.argv[2:3]))

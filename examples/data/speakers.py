"""A folder of recordings, three speakers, from the prompts of a telephone exchange (Debian: apt-get install
asterisk-core-sounds-en-wav asterisk-core-sounds-fr-wav asterisk-core-sounds-it-wav; pip install soundfile).

Each language is one voice, so what is told apart may be the speaker, the language or the studio: we call it the speaker. All
versions of a prompt are in the same part: a seventh of the prompts is for the test, a tenth for validation, by a hash of their
names. What two packages share (silence, tones) has no speaker and is left out.
"""

import csv
import hashlib
import sys
from collections import Counter
from pathlib import Path

import soundfile

INSTALLED = Path("/usr/share/asterisk/sounds")
SPEAKERS = {"en_US_f_Allison": "allison", "fr_CA_f_June": "june", "it_IT_m_Carlo": "carlo"}


def part_of(prompt: str) -> str:
    """By the prompt's name alone."""
    share = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:8], "big") / 2**64
    return "test" if share < 1 / 7 else "validation" if share < 1 / 7 + 1 / 10 else "train"


def main(folder: Path, installed: Path = INSTALLED) -> None:
    """Write speakers/ with a wav file for each prompt of each speaker, and labels.csv: file, label, split."""
    found = {}  # by speaker and prompt
    for language, speaker in SPEAKERS.items():
        for path in sorted((installed / language).rglob("*.wav")):
            prompt = path.relative_to(installed / language)
            if prompt.parts[0] != "silence":
                found[speaker, prompt] = path
    if not found:
        raise SystemExit(f"{installed} has no prompts; install the three packages, or name the folder sounds of where they are")
    seen = Counter(path.read_bytes() for path in found.values())
    rows = []
    for (speaker, prompt), path in found.items():
        if seen[path.read_bytes()] > 1:
            continue
        samples, rate = soundfile.read(path, dtype="int16")
        name = f"{speaker}/{'-'.join(prompt.parts)}"
        (folder / "speakers" / speaker).mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / "speakers" / name, samples, rate, subtype="PCM_16")
        rows.append((name, speaker, part_of(prompt.as_posix())))
    with open(folder / "speakers" / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows([("file", "label", "split"), *rows])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."), *map(Path, sys.argv[2:3]))

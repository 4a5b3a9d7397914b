"""Journals as they are read: whole, thinned for a picture, and from the end."""

import json
import random

import pytest

from hrnn.errors import UserError
from hrnn.training import journal
from hrnn.training.journal import newest, read, thinned
from tests.runs import update, write_run


def long_journal(count):
    """Updates, a validation after every hundredth, and an end."""
    for number in range(1, count + 1):
        yield update(number, **({"rare": number} if number % 10 == 0 else {}))
        if number % 100 == 0:
            yield {"kind": "validation", "update": number, "accuracy": 0.5}
    yield {"kind": "end", "update": count}


@pytest.fixture(params=[1 << 20, 700])
def block(request, monkeypatch):
    """Blocks of one journal and blocks of two lines."""
    monkeypatch.setattr(journal, "BLOCK", request.param)


def test_few_of_many_updates_and_everything_else(tmp_path, block):
    written = list(long_journal(5000))
    run = write_run(tmp_path / "run", written)
    found = thinned(run, points=100)
    assert found == thinned(run, points=100)
    assert all(record in written for record in found[::20])
    places = [record["update"] for record in found if record["kind"] == "update"]
    assert 100 <= len(places) <= 201
    assert places == sorted(set(places))
    assert places[-1] == 5000
    gaps = [b - a for a, b in zip([0, *places], places, strict=False)]
    assert max(gaps) <= 4 * 5000 / len(places)
    assert [r["update"] for r in found if r["kind"] == "validation"] == list(range(100, 5001, 100))
    assert found[-1] == written[-1]
    assert 0.05 < sum("rare" in record for record in found) / len(places) < 0.2  # one in ten, as in the journal


def test_a_short_journal_is_read_whole(tmp_path, block):
    written = list(long_journal(150))
    run = write_run(tmp_path / "run", written)
    assert thinned(run, points=100) == list(read(run)) == written


def test_the_last_of_each_kind(tmp_path, block):
    written = [{"kind": "length", "update": 0}, *long_journal(250)]
    run = write_run(tmp_path / "run", written)
    found = newest(run, "update", "validation", "length", "test")
    assert {kind: record["update"] for kind, record in found.items()} == {"update": 250, "validation": 200, "length": 0}
    assert set(newest(run, "update", "length", within=2000)) == {"update"}
    with open(run / "journal.jsonl", "a") as file:
        file.write('{"kind": "update", "update": 999' + " " * 2000)  # still being written
    assert newest(run, "update")["update"]["update"] == 250
    assert len(list(read(run))) == len(written)
    (run / "journal.jsonl").unlink()
    assert (newest(run, "update"), thinned(run), list(read(run))) == ({}, [], [])


@pytest.mark.parametrize(
    "line", [b"null", b"5", b'{"kind": "update", "upd', b"\xff\x00\xfe", b"", b"[]", b'{"kind": 5}', b"[" * 9999]
)
def test_damaged_lines(tmp_path, line, block):
    run = write_run(tmp_path / "run")
    journal = run / "journal.jsonl"
    first, rest = journal.read_bytes().split(b"\n", 1)
    journal.write_bytes(first + b"\n" + line + b"\n" + rest)
    for reader in (read, thinned):
        with pytest.raises(UserError, match=r"journal\.jsonl is damaged at line 2"):
            list(reader(run))
    assert newest(run, "update")["update"]["update"] == 20
    journal.write_bytes(first + b"\n" + line + b"\n")
    with pytest.raises(UserError, match=r"journal\.jsonl is damaged at its end"):
        newest(run, "update")


def test_whatever_a_journal_holds_it_is_records_or_a_sentence(tmp_path, block):
    run = write_run(tmp_path / "run")
    content, draw = (run / "journal.jsonl").read_bytes(), random.Random(0)
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(draw.choice([1, 5])):
            place = draw.randrange(len(damaged))
            damaged[place : place + draw.choice([0, 1, 40])] = draw.randbytes(draw.choice([0, 1, 9]))
        (run / "journal.jsonl").write_bytes(damaged)
        for reader in (lambda: list(read(run)), lambda: thinned(run), lambda: list(newest(run, "update", "test").values())):
            try:
                found = reader()
            except UserError:
                continue
            assert all(isinstance(record["kind"], str) for record in found)
            json.dumps(found)


def test_a_line_without_end_is_no_reason_to_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "LONGEST", 1 << 20)
    run = write_run(tmp_path / "run")
    (run / "journal.jsonl").write_bytes(b'{"kind": "update"}\n' + b"x" * (5 << 20))
    with pytest.raises(UserError, match="a line has more than"):
        thinned(run)

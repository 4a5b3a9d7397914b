"""Sizes in words."""

from hrnn.room import in_words, memory_of_machine


def test_bytes_in_words():
    assert [in_words(n) for n in (5, 3200, 25_300_000_000, 3.2e12, 10**40)] == [
        "5 bytes",
        "3.2 kB",
        "25.3 GB",
        "3.2 TB",
        "1e+22 EB",
    ]
    assert 1e8 < memory_of_machine() < 1e15

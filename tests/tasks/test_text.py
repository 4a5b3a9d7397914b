import gzip
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hrnn.errors import UserError
from hrnn.tasks import Reading, Text, corpus
from hrnn.tasks.text import lay_out
from tests.tiny import SENTENCE, real_data, write_text

READING = Reading(seed=0, batch=4, window=10)


@pytest.fixture
def task(tmp_path):
    return Text(data=(write_text(tmp_path / "text.txt"),)).settled()


def words_of(task, x):
    return "".join(task.vocabulary[code] for code in x.tolist())


def test_rows_are_continuous_streams_over_windows_and_targets_are_the_next_characters(task):
    count = task.batches_per_epoch(READING)
    batches = [task.batch(index, READING) for index in range(count)]
    assert [batch.fresh for batch in batches] == [True] + [False] * (count - 1)
    x = torch.cat([batch.windows[0].x for batch in batches])
    y = torch.cat([batch.windows[0].y for batch in batches])
    assert torch.equal(x[1:], y[:-1])
    training = (SENTENCE * 60)[: 60 * len(SENTENCE) - 2 * int(0.05 * 60 * len(SENTENCE))]
    steps = (len(training) - 1) // 4
    assert "".join(words_of(task, x[:, row]) for row in range(4)) == training[: 4 * steps]
    assert task.batch(count, READING).fresh  # the next epoch


def test_a_word_begins_after_a_space_or_a_newline(task):
    window = task.batch(1, READING).windows[0]
    assert window.boundaries.shape == (11, 4)
    text = words_of(task, window.x[:, 0])
    assert [bool(b) for b in window.boundaries[1:, 0]] == [character in " \n" for character in text]


def test_boundaries_go_on_over_windows(task):
    first, second = (task.batch(index, READING).windows[0].boundaries for index in (0, 1))
    assert torch.equal(first[-1], second[0])


def test_a_third_level_ticks_with_lines_and_every_line_begins_a_word(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("ab cd\nef. gh\n" * 50)
    task = Text(data=(path,), boundaries=("word", "line")).settled()
    assert task.reaches == (20, 20)
    boundaries = task.batch(0, replace(READING, batch=1, rows=range(1), window=13)).windows[0].boundaries
    assert boundaries.shape == (14, 1, 2)
    assert boundaries[:, 0, 0].nonzero()[:, 0].tolist() == [3, 6, 10, 13]
    assert boundaries[:, 0, 1].nonzero()[:, 0].tolist() == [6, 13]


@given(st.text(alphabet="ab. \n", max_size=60), st.sampled_from([r"\s+", r"[.]", r"\b", "b(?=a)"]))
def test_levels_are_nested_whatever_the_expressions(text, expression):
    starts = corpus.boundaries_of(text, corpus.compiled(("word", expression)))
    assert starts.shape == (len(text) + 1, 2)
    assert not (starts[:, 1] & ~starts[:, 0]).any()
    assert set(np.flatnonzero(starts[:, 1])) == {match.end() for match in re.finditer(expression, text)}


@given(st.integers(2, 60), st.integers(1, 7))
def test_evaluation_counts_every_character_once(characters, rows):
    codes = np.arange(characters, dtype=np.int32)
    streams = lay_out(codes, np.zeros((characters + 1, 1), bool), rows, whole=True)
    mask = np.ones(streams.y.shape, bool) if streams.mask is None else streams.mask
    assert sorted(streams.y[mask].tolist()) == list(range(1, characters))
    assert (streams.y[mask] == streams.x[mask] + 1).all()


def test_rows_of_a_process_are_those_of_the_whole_batch(task):
    whole, part = (task.batch(2, reading).windows[0] for reading in (READING, replace(READING, rows=range(1, 3))))
    assert torch.equal(whole.x[:, 1:3], part.x)
    assert torch.equal(whole.boundaries[:, 1:3], part.boundaries)


def test_bytes_and_characters(tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(("naïve café\n" * 50).encode()))
    characters, raw = (Text(data=(path,), symbols=symbols).settled() for symbols in ("characters", "bytes"))
    assert characters.vocabulary == "".join(sorted(set("naïve café\n")))
    assert raw.vocabulary == "".join(sorted({chr(byte) for byte in "naïve café\n".encode()}))
    path.write_bytes(b"\xff\xfe bad" * 100)
    with pytest.raises(UserError, match=r"not UTF-8 .*--symbols bytes"):
        Text(data=(path,)).settled()


def test_parts_are_given_or_split_off(tmp_path):
    text = "".join(chr(97 + i % 26) for i in range(1000))
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt").write_text("abcxyz")
    task = Text(data=(tmp_path / "a.txt",), held_out=0.1).settled()
    assert [task._text(part) for part in ("training", "validation", "test")] == [text[:800], text[800:900], text[900:]]
    task = replace(task, validation=tmp_path / "b.txt")
    assert [task._text(part) for part in ("training", "validation", "test")] == [text[:900], "abcxyz", text[900:]]
    assert task.elsewhere(tmp_path / "b.txt")._text("test") == "abcxyz"


def test_characters_that_training_never_had_are_named(tmp_path):
    (tmp_path / "a.txt").write_text("abc " * 100)
    (tmp_path / "b.txt").write_text("abc ö d ö " * 10)
    task = Text(data=(tmp_path / "a.txt",), validation=tmp_path / "b.txt").settled()
    with pytest.raises(UserError, match=r"validation text holds 2 character\(s\) .* \('d', 'ö'\), 30 times"):
        next(task.evaluation("validation", READING))


@pytest.mark.parametrize(
    ("content", "options", "complaint"),
    [
        ("", {}, "is empty"),
        ("short", {}, "fewer than one window of 10 for each of 4 rows"),
        ("word " * 100, {"boundaries": ("(",)}, "no regular expression"),
        ("word " * 100, {"held_out": 0.5}, "--held-out is 0.5"),
        ("word " * 100, {"reach": 0}, "--reach is 0"),
        ("word " * 100, {"data": ()}, "no text to train on"),
    ],
)
def test_bad_texts_and_options_are_refused(tmp_path, content, options, complaint):
    path = tmp_path / "text.txt"
    path.write_text(content)
    with pytest.raises(UserError, match=re.escape(complaint)):
        Text(**{"data": (path,), **options}).settled().batch(0, READING)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(UserError, match=r"gone\.txt does not exist"):
        Text(data=(tmp_path / "gone.txt",)).settled()
    with pytest.raises(UserError, match=r"does not hold ptb\.train\.txt"):
        Text(data=(tmp_path,)).settled()


def test_penn_treebank_has_50_symbols_and_its_own_parts():
    task = Text(data=(real_data("ptb"),)).settled()
    assert len(task.vocabulary) == task.outputs == 50
    assert [len(task._text(part)) for part in ("training", "validation", "test")] == [5_101_618, 399_782, 449_945]
    assert task.batches_per_epoch(Reading(0, 100, 50)) == 1021

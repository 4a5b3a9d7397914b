import gzip
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hrnn.errors import UserError
from hrnn.tasks import Reading, Text, corpus, text
from hrnn.tasks.streams import Part
from hrnn.tasks.text import EVERY_BYTE
from hrnn.training.config import Budget, Config, Learning, Model
from hrnn.training.loop import start
from tests.tiny import SENTENCE, literal_boundaries, real_data, write_text

READING = Reading(seed=0, batch=4, window=10)


@pytest.fixture
def task(tmp_path):
    return Text(data=(write_text(tmp_path / "text.txt"),)).resolved()


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
    task = Text(data=(path,), boundaries=("word", "line")).resolved()
    assert task.reaches == (20, 20)
    boundaries = task.batch(0, replace(READING, batch=1, rows=range(1), window=13)).windows[0].boundaries
    assert boundaries.shape == (14, 1, 2)
    assert boundaries[:, 0, 0].nonzero()[:, 0].tolist() == [3, 6, 10, 13]
    assert boundaries[:, 0, 1].nonzero()[:, 0].tolist() == [6, 13]


def literal_windows(text, vocabulary, names, rows, window, *, whole):
    """The windows of a text laid out as rows, from whole arrays: x, y, mask, boundaries."""
    codes = np.array([vocabulary.index(character) for character in text])
    targets = len(codes) - 1
    steps = -(-targets // rows) if whole else targets // rows
    padding = max(0, steps * rows + 1 - len(codes))
    codes = np.pad(codes, (0, padding))
    starts = np.pad(literal_boundaries(text, names), ((0, padding), (0, 0)))
    place = np.arange(steps)[:, None] + np.arange(rows) * steps
    starts = starts[np.vstack([place, place[-1:] + 1])]
    mask = place < targets if padding else None
    for first in range(0, steps, window):
        now = slice(first, min(first + window, steps))
        boundaries = starts[now.start : now.stop + 1]
        boundaries = None if not names else boundaries[..., 0] if len(names) == 1 else boundaries
        yield codes[place[now]], codes[place[now] + 1], None if mask is None else mask[now], boundaries


EXPRESSIONS = [
    "word",
    "line",
    "sentence",
    r"\s+",
    r"\b",
    "b(?=a)",
    "(?<=a)b",
    r"\s",
    "[.!?]",
    "[^a-z]",
    r"[\]a]",
    "[]a]",
    "a",
    "^a",
    "$",
]
TEXTS = st.text(alphabet="ab.! \n\x1c\x85\xa0]é“\u2003😀", min_size=1, max_size=90)


@given(TEXTS, st.lists(st.sampled_from(EXPRESSIONS), max_size=2), st.sampled_from(["characters", "bytes"]), st.booleans())
def test_a_text_in_blocks_is_the_text_as_a_whole(tmp_path_factory, text, names, symbols, packed):
    """Whatever the sizes of blocks, pieces, rows and windows, and whatever matches across their borders."""
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    text = text if symbols == "characters" else text.encode().decode("latin-1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "BLOCK", 5)
        patch.setattr(corpus, "PIECE", 12)
        task = Text((path,), held_out=0.2, symbols=symbols, boundaries=tuple(names), unknown=False).resolved()
        held_out = int(0.2 * len(text))
        training, test = text[: len(text) - 2 * held_out], text[len(text) - held_out :]
        vocabulary = "".join(sorted(set(training))) if symbols == "characters" else EVERY_BYTE
        assert task.vocabulary == vocabulary
        for rows, window in ((1, 100), (3, 4)):
            reading = Reading(0, rows, window)
            if len(training) - 1 >= rows * window:
                expected = list(literal_windows(training, vocabulary, names, rows, window, whole=False))
                assert task.batches_per_epoch(reading) == len(expected)
                same([task.batch(index, reading) for index in range(len(expected))], expected)
            if len(test) > 1 and set(test) <= set(vocabulary):
                rows = max(1, min(rows, (len(test) - 1) // window))
                expected = literal_windows(test, vocabulary, names, rows, window, whole=True)
                same(task.evaluation("test", reading), list(expected))


def same(batches, expected):
    for batch, values in zip(batches, expected, strict=True):
        (window,) = batch.windows
        for got, value in zip((window.x, window.y, window.mask, window.boundaries), values, strict=True):
            assert (got is None) == (value is None)
            assert value is None or (got.shape == value.shape and (got.numpy() == value).all())
            assert value is None or got.dtype == (torch.bool if value.dtype == bool else torch.int64)


@pytest.mark.parametrize("kinds", [100, 300, 70_000])
def test_codes_are_as_narrow_as_the_vocabulary_allows(tmp_path, kinds):
    content = "".join(map(chr, [*range(32, 0xD000), *range(0xE000, 0x1E000)][:kinds])) * 2
    (tmp_path / "a.txt").write_text(content, newline="")
    task = Text((tmp_path / "a.txt",), validation=tmp_path / "a.txt", test=tmp_path / "a.txt").resolved()
    assert len(task.vocabulary) == kinds
    (window,) = task.batch(0, Reading(0, 1, 2 * kinds - 1)).windows
    assert "".join(task.vocabulary[code] for code in window.x[:, 0]) == content[:-1]
    assert task._part("training").codes.itemsize == {100: 1, 300: 2, 70_000: 4}[kinds]
    assert Text((tmp_path / "a.txt",), symbols="bytes").resolved()._part("training").codes.itemsize == 1


def test_a_text_is_read_once_for_a_run(tmp_path, monkeypatch):
    read, texts = [], text.read_characters
    monkeypatch.setattr(text, "read_characters", lambda *arguments: read.append(1) or texts(*arguments))
    for symbols in ("characters", "bytes"):
        task = Text((write_text(tmp_path / f"{symbols}.txt"),), symbols=symbols)
        model = Model(hidden_sizes=(4, 4), window=10)
        start(Config(task, model, Learning(batch=4), Budget(updates=1)), tmp_path / symbols)
    assert len(read) == 2


@given(st.integers(2, 60), st.integers(1, 7))
def test_evaluation_counts_every_character_once(characters, rows):
    streams = Part(np.arange(characters, dtype=np.uint8), [], {}).rows(rows, whole=True)
    window = streams.window(0, streams.steps)
    mask = torch.ones(window.y.shape, dtype=torch.bool) if window.mask is None else window.mask
    assert sorted(window.y[mask].tolist()) == list(range(1, characters))
    assert (window.y[mask] == window.x[mask] + 1).all()


def test_rows_of_a_process_are_those_of_the_whole_batch(task):
    whole, part = (task.batch(2, reading).windows[0] for reading in (READING, replace(READING, rows=range(1, 3))))
    assert torch.equal(whole.x[:, 1:3], part.x)
    assert torch.equal(whole.boundaries[:, 1:3], part.boundaries)


def test_bytes_and_characters(tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(("naïve café\n" * 50).encode()))
    characters, raw = (Text(data=(path,), symbols=symbols).resolved() for symbols in ("characters", "bytes"))
    assert characters.vocabulary == "".join(sorted(set("naïve café\n")))
    assert raw.vocabulary == "".join(map(chr, range(256)))  # whatever the training text has
    assert (raw.outputs, raw.inputs.count, characters.outputs) == (256, 256, len(characters.vocabulary) + 1)
    path.write_bytes(b"\xff\xfe bad" * 100)
    with pytest.raises(UserError, match=r"not UTF-8 .*--symbols bytes"):
        Text(data=(path,)).resolved()


def test_a_fault_in_utf8_is_named_by_its_place_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "BLOCK", 4)
    for content, place in ((b"abcdefg\xc3\xa9\xc3(", 9), (b"abc\xe2\x82", 3), (b"abc\xe2\x82(fg", 3), (b"\xff", 0)):
        (tmp_path / "a.txt").write_bytes(content)
        with pytest.raises(UserError, match=rf"is not UTF-8 \(byte {place}\)"):
            Text((tmp_path / "a.txt",)).resolved()


def text_of(task, part):
    return "".join(task.vocabulary[code] for code in task._part(part).codes)


def test_parts_are_given_or_split_off(tmp_path):
    text = "".join(chr(97 + i % 26) for i in range(1000))
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt").write_text("abcxyz")
    task = Text(data=(tmp_path / "a.txt",), held_out=0.1).resolved()
    assert [text_of(task, part) for part in ("training", "validation", "test")] == [text[:800], text[800:900], text[900:]]
    task = replace(task, validation=tmp_path / "b.txt")
    assert [text_of(task, part) for part in ("training", "validation", "test")] == [text[:900], "abcxyz", text[900:]]
    task = task.with_test_data(tmp_path / "b.txt")  # the same file for two parts
    assert [text_of(task, part) for part in ("training", "validation", "test")] == [text, "abcxyz", "abcxyz"]


def test_runs_of_a_process_share_a_text_until_it_changes(tmp_path):
    path = write_text(tmp_path / "a.txt")
    first, second, other = Text((path,)).resolved(), Text((path,), reach=5).resolved(), Text((path,), boundaries=()).resolved()
    assert first._part("training") is second._part("training")
    assert first._part("training") is not other._part("training")
    path.write_text(SENTENCE.upper() * 50)
    assert Text((path,)).resolved().vocabulary != first.vocabulary


def test_characters_that_training_never_had_are_unknown_symbols(tmp_path):
    (tmp_path / "a.txt").write_text("abc " * 100)
    (tmp_path / "b.txt").write_text("abc ö d\n")
    task = Text(data=(tmp_path / "a.txt",), validation=tmp_path / "b.txt", boundaries=("line",)).resolved()
    assert (task.vocabulary, task.outputs) == (" abc", 5)
    (batch,) = task.evaluation("validation", READING)
    (window,) = batch.windows
    assert window.y[:, 0].tolist() == [2, 3, 0, 4, 0, 4, 4]
    assert window.boundaries[:, 0].nonzero()[:, 0].tolist() == []  # the last character's is beyond the last step
    values, metrics = task.loss(torch.zeros(7, 1, 5), window.y)
    assert metrics["unknown"].sum() == 3
    assert task.report({"loss": float(values.sum()), "unknown": 3.0}, 7) == {
        "bits_per_character": pytest.approx(np.log2(5)),
        "unknown": 3,
    }
    assert "unknown" not in task.report({"loss": 1.0, "unknown": 0.0}, 7)
    assert task.encode("c?a", "the prompt") == [3, 4, 1]


def test_without_the_unknown_symbol_characters_that_training_never_had_are_named(tmp_path):
    (tmp_path / "a.txt").write_text("abc " * 100)
    (tmp_path / "b.txt").write_text("abc ö d ö " * 10)
    task = Text(data=(tmp_path / "a.txt",), validation=tmp_path / "b.txt", unknown=False).resolved()
    assert task.outputs == 4
    with pytest.raises(UserError, match=r"validation text holds 2 character\(s\) .* \('d', 'ö'\), 30 times"):
        next(task.evaluation("validation", READING))
    with pytest.raises(UserError, match=r"the prompt holds 1 character\(s\)"):
        task.encode("ab??", "the prompt")


@pytest.mark.parametrize(
    ("boundary", "said"),
    [("wrod", "level 2 never ticks; did you mean word?"), ("[0-9]", "never ticks"), ("word", None), ("dog", None)],
)
def test_a_boundary_that_is_nowhere_is_said(tmp_path, boundary, said):
    task = Text(data=(write_text(tmp_path / "text.txt"),), boundaries=("word", boundary)).resolved()
    assert [warning.endswith(said or "?") for warning in task.warnings(Reading(0, 1, 1))] == ([True] if said else [])


@pytest.mark.parametrize(
    ("content", "options", "complaint"),
    [
        ("", {}, "is empty"),
        ("short", {}, "fewer than one window of 10 for each of 4 rows"),
        ("word " * 100, {"boundaries": ("(",)}, "not a regular expression"),
        ("word " * 100, {"held_out": 0.5}, "--held-out is 0.5"),
        ("word " * 100, {"reach": 0}, "--reach is 0"),
        ("word " * 100, {"data": ()}, "no text to train on"),
    ],
)
def test_bad_texts_and_options_are_refused(tmp_path, content, options, complaint):
    path = tmp_path / "text.txt"
    path.write_text(content)
    with pytest.raises(UserError, match=re.escape(complaint)):
        Text(**{"data": (path,), **options}).resolved().batch(0, READING)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(UserError, match=r"gone\.txt does not exist"):
        Text(data=(tmp_path / "gone.txt",)).resolved()
    with pytest.raises(UserError, match=r"does not hold ptb\.train\.txt"):
        Text(data=(tmp_path,)).resolved()


def test_penn_treebank_has_50_symbols_and_its_own_parts():
    task = Text(data=(real_data("ptb"),)).resolved()
    assert (len(task.vocabulary), task.outputs) == (50, 51)
    assert [len(task._part(part).codes) for part in ("training", "validation", "test")] == [5_101_618, 399_782, 449_945]
    assert task.batches_per_epoch(Reading(0, 100, 50)) == 1021

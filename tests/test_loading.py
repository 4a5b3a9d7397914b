"""Windows of a part for a DataLoader, and rows side by side."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import hrnn
from hrnn.data import Part, arrays, cache, chunks, learn, whole
from hrnn.loading import Windows, padded
from tests.helpers import squares


def part(*lengths):
    series = cache(arrays([np.arange(100.0 * n, 100.0 * n + length)[:, None] for n, length in enumerate(lengths)]))
    spans = {"training": whole(series)}
    return Part(series, learn(series, spans, normalise="none"), spans["training"])


def labelled():
    series = cache(arrays([np.arange(5.0), np.arange(3.0)], ["a", "b"]))
    return Part(series, learn(series, {"training": whole(series)}))


def test_windows_of_rows_in_order_with_their_targets():
    windows = Windows(part(7, 3, 8), steps=4, target="next")
    found = [window["x"][:, 0].tolist() for window in windows]
    assert found == [[0, 1, 2, 3], [4, 5, 6], [100, 101, 102], [200, 201, 202, 203], [204, 205, 206, 207]]
    assert len(windows) == 5
    last = windows[-1]
    assert last["mask"].tolist() == [True, True, True, False]
    assert last["y"].flatten()[:3].tolist() == [205, 206, 207]


def test_strides_and_whole_rows():
    rows = part(7, 3)
    assert [window["x"][:, 0].tolist() for window in Windows(rows, steps=4, stride=2)] == [
        [0, 1, 2, 3],
        [2, 3, 4, 5],
        [4, 5, 6],
        [100, 101, 102],
    ]
    assert [window["x"][:, 0].tolist() for window in Windows(part(5, 9, 11), steps=2, stride=10)] == [
        [0, 1],
        [100, 101],
        [200, 201],
        [210],
    ]
    assert [len(window["x"]) for window in Windows(rows)] == [7, 3]
    assert set(Windows(rows)[0]) == {"x"}


def test_a_loader_gives_what_the_model_takes():
    loader = DataLoader(Windows(part(7, 3, 8), steps=4, target="next"), batch_size=3, collate_fn=padded)
    batch = next(iter(loader))
    assert batch["x"].shape == (4, 3, 1)
    assert batch["lengths"].tolist() == [4, 3, 3]
    assert batch["mask"].tolist()[3] == [True, False, False]
    assert batch["x"][3, 1:].eq(0).all()
    model = hrnn.HRNN(1, [5, 5], [2], decoder_units=8)
    head = torch.nn.Linear(5, 1)
    result = hrnn.Restricted().backward(
        model,
        batch["x"] / 100,
        batch["y"].reshape(4, 3, 1) / 100,
        mask=batch["mask"],
        lengths=batch["lengths"],
        loss=lambda output, target: squares(head(output), target),
        betas=[1.0],
    )
    assert result.targets == int(batch["mask"].sum())
    assert torch.isfinite(result.loss)


def test_workers_read_the_same(tmp_path):
    windows = Windows(part(9, 9, 9), steps=4)
    alone, several = (list(DataLoader(windows, batch_size=2, collate_fn=padded, num_workers=n)) for n in (0, 1))
    assert all(torch.equal(a["x"], b["x"]) for a, b in zip(alone, several, strict=True))


def test_tokens_stay_whole_numbers():
    batch = padded([{"x": torch.tensor([1, 2, 3])}, {"x": torch.tensor([4])}])
    assert batch["x"].tolist() == [[1, 4], [2, 0], [3, 0]]
    assert batch["x"].dtype == torch.int64


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: Windows([1, 2]), TypeError, "part is .*; give an hrnn.data.Part"),
        (lambda: Windows(part(5), stride=2), ValueError, "stride is 2 and steps is None"),
        (lambda: Windows(part(5), steps=0), ValueError, "steps is 0"),
        (lambda: Windows(part(5), 4, target="foo"), ValueError, "target is 'foo'; give one of 'sequence', 'step', 'next', or"),
        (lambda: Windows(part(5), 4, target="step"), ValueError, "target is 'step' and the part has no targets; give 'next'"),
        (lambda: Windows(labelled(), 4, target="step"), ValueError, "the part has one for each sequence; give 'sequence'"),
        (lambda: next(chunks(part(5), [0], 4, target="sequence")), ValueError, "the part has no targets; give 'next', or None"),
        (lambda: Windows(part(5), steps=2)[3], IndexError, "window 3 of 3; give 0 to 2"),
        (lambda: padded([]), TypeError, "give dicts of tensors"),
        (lambda: padded([torch.zeros(3)]), TypeError, "give dicts of tensors"),
        (lambda: padded([{"x": torch.zeros(3), "y": torch.zeros(2)}]), ValueError, "item 0 has .*as many steps as x"),
        (lambda: padded([{"x": torch.zeros(3), "y": torch.zeros(3)}, {"x": torch.zeros(3)}]), ValueError, "item 1 has"),
        (lambda: padded([{"x": torch.tensor(3.0)}]), ValueError, "item 0 has"),
        (lambda: padded([{"x": torch.zeros(3), "label": 1}]), TypeError, "give dicts of tensors"),
        (
            lambda: padded([{"x": torch.zeros(3), "lengths": torch.zeros(3)}]),
            ValueError,
            "entry lengths, which is what padded adds",
        ),
    ],
)
def test_mistakes(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()

"""Metrics as scikit-learn has them; forecasts beside naive ones; symbols beside Markov models and xz."""

import numpy as np
import pytest
import torch
from sklearn import metrics

from hrnn.data import Part, arrays, cache, learn, split
from hrnn.tasks.series.baselines import _markov, of_forecasts, of_symbols
from hrnn.tasks.series.judging import Classes, Forecasts, Readout
from hrnn.tasks.windows import Window
from tests.commands.console import hrnn
from tests.series.made import train, write


@pytest.mark.parametrize("classes", [2, 4])
def test_metrics_of_classes(classes):
    generator = torch.Generator().manual_seed(0)
    true = torch.randint(classes, (40, 25), generator=generator)
    logits = torch.randn(40, 25, classes, generator=generator) + 1.0 * torch.nn.functional.one_hot(true, classes)
    judge = Classes([str(name) for name in range(classes)], None)
    judge.add(Window(torch.zeros(20, 25), true[:20]), logits[:20], True)
    judge.add(Window(torch.zeros(20, 25), true[20:]), logits[20:], False)
    report = judge.report()
    y, answers, shares = true.flatten().numpy(), logits.argmax(-1).flatten().numpy(), logits.softmax(-1).flatten(0, 1).numpy()
    assert report["accuracy"] == pytest.approx(metrics.accuracy_score(y, answers))
    assert report["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(y, answers))
    assert report["macro_f1"] == pytest.approx(metrics.f1_score(y, answers, average="macro"))
    areas = [metrics.roc_auc_score(y == one, shares[:, one]) for one in range(classes)]
    assert report["auroc"] == pytest.approx(np.mean(areas), abs=1e-3)
    assert judge.details()["confusion"] == metrics.confusion_matrix(y, answers).tolist()


def test_the_mean_of_the_logits_of_a_sequence_over_windows():
    logits = torch.randn(10, 3, 2, generator=torch.Generator().manual_seed(0))
    lengths, readout, found = [10, 7, 4], Readout(last=False), {}
    for start, stop, rows in ((0, 6, 3), (6, 10, 2)):
        counts = torch.tensor([min(length, stop) - start for length in lengths[:rows]])
        ends = torch.zeros(stop - start, rows, dtype=torch.bool)
        for row, length in enumerate(lengths[:rows]):
            if start < length <= stop:
                ends[length - 1 - start, row] = True
        window = Window(torch.zeros(stop - start, rows), torch.zeros(stop - start, rows), lengths=counts, ends=ends)
        answers, ended = readout.add(window, logits[start:stop, :rows], start == 0)
        found |= dict(zip(ended.tolist(), answers, strict=True))
    for row, length in enumerate(lengths):
        assert torch.allclose(found[row], logits[:length, row].double().mean(0))


def test_errors_of_forecasts():
    random, scale, changes = np.random.default_rng(0), np.array([3.0, 0.5]), (2.0, 0.25)
    targets, answers = random.normal(size=(2, 30, 4, 1, 2))  # changes since the last value, as the network reads them
    judge = Forecasts((1.5, 0.2), changes, scale)
    for start in (0, 17):
        rows = slice(start, start + 17)
        window = Window(torch.zeros(len(targets[rows]), 4), torch.from_numpy(targets[rows]))
        judge.add(window, torch.from_numpy(answers[rows]), start == 0)
    report, units = judge.report(), scale * changes
    missed, moved = ((some * units).reshape(-1, 2) for some in (answers - targets, targets))
    assert report["mae"] == pytest.approx(np.abs(missed).mean())
    assert report["naive_mae"] == pytest.approx(np.abs(moved).mean())
    assert report["rmse"] == pytest.approx(np.sqrt((missed**2).mean(0)).mean())
    assert report["naive_rmse"] == pytest.approx(np.sqrt((moved**2).mean(0)).mean())


def test_forecasts_of_a_season():
    wave = np.tile([0.0, 1, 5, 2], 200)[:, None]
    sequences = cache(arrays([wave]))
    part = Part(sequences, learn(sequences, split(sequences)))
    assert of_forecasts(part, (1.0,), 4, 3)["seasonal_naive_mase"] == 0
    assert of_forecasts(part, (1.0,), 3, 1)["seasonal_naive_mase"] > 0.5


def test_symbols_beside_a_markov_model():
    random = np.random.default_rng(0)
    text = np.array([int(one) for one in random.integers(0, 2, 4000)])
    text[1::2] = text[::2]  # every other symbol is a copy: half a bit
    sequences = cache(arrays([text], tokens=True))
    parts = split(sequences, "time")
    pre = learn(sequences, parts)
    training, test = (Part(sequences, pre, parts[name]) for name in ("training", "test"))
    found = of_symbols(training, test)
    assert 0.5 < found["markov_bits"] < 1.02
    assert found["xz_bits"] > 0


@pytest.mark.parametrize("order", [0, 1, 3])
def test_a_markov_model_by_the_book(order):
    """Every symbol by itself: the counts of what followed its context, and as much of the order below as there are kinds."""
    random = np.random.default_rng(order)
    known, asked = [random.integers(0, 3, 200), random.integers(0, 3, 50)], [random.integers(0, 3, 40)]
    bits = 0.0
    for place in range(40):
        share = 1 / 3
        for k in range(min(order, place) + 1):
            context = list(asked[0][place - k : place])
            followed = [one[at] for one in known for at in range(k, len(one)) if list(one[at - k : at]) == context]
            if followed:
                kinds = len(set(followed))
                share = (followed.count(asked[0][place]) + kinds * share) / (len(followed) + kinds)
        bits -= np.log2(share)
    assert _markov(known, asked, order, 3)[-1] == pytest.approx(bits / 40, abs=1e-12)


def test_bytes_have_models_of_high_order():
    """A text that only the last four bytes tell is known by them."""
    random, words = np.random.default_rng(0), [np.arange(97, 101), np.arange(98, 102), np.arange(99, 103)]
    text = np.concatenate([words[one] for one in random.integers(0, 3, 3000)])
    sequences = cache(arrays([text], tokens=True))
    parts = split(sequences, "time")
    pre = learn(sequences, parts)
    found = of_symbols(*(Part(sequences, pre, parts[name]) for name in ("training", "test")))
    assert found["markov_order"] >= 2
    assert found["markov_bits"] < 0.6


def test_a_report_has_what_people_ask_for(tmp_path, capsys):
    kinds = write(tmp_path)
    expected = {
        "class": {"accuracy", "balanced_accuracy", "macro_f1", "auroc"},
        "amount": {"mae", "rmse", "mae_of_mean"},
        "series": {"mase", "naive_mase", "mae", "naive_mae", "rmse", "naive_rmse", "seasonal_naive_mase"},
        "text": {"bits_per_symbol", "markov_bits", "xz_bits"},
    }
    import json

    for kind, names in expected.items():
        run = train(capsys, tmp_path / "runs" / kind, kinds[kind], 1)
        code, out, err = hrnn(capsys, "evaluate", run, "--json")
        assert code == 0, err
        assert names <= json.loads(out).keys(), kind
        assert names <= json.loads((run / "result.json").read_text())["test"].keys()

"""Arrays (sequences, channels, time), as aeon has them, are read as (sequences, time, channels); a sentence says so."""

import warnings

import numpy as np
import pytest

import hrnn as library
from hrnn import Forecaster, SequenceClassifier, SequenceRegressor
from hrnn.errors import UserError
from tests.commands.console import hrnn
from tests.estimators.made import QUICK

pd = pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")

RANDOM = np.random.default_rng(0)
TWO, ONE = RANDOM.normal(size=(12, 2, 40)), RANDOM.normal(size=(12, 1, 40))
TARGETS = {SequenceClassifier: ["slow", "fast"] * 6, SequenceRegressor: np.arange(12.0)}
SAID = "the longest array has {} step(s) and 40 channels, as arrays are (time, channels); if these are (channels, time), as "
SAID += "aeon has them, give X.transpose(0, 2, 1), or [x.T for x in X]"
RIGHT = {
    "turned round": TWO.transpose(0, 2, 1),
    "as many": RANDOM.normal(size=(12, 5, 5)),
    "a table": RANDOM.normal(size=(12, 40)),
    "some are short": [RANDOM.normal(size=(2 + 3 * (number % 2), 4)) for number in range(12)],
    "with names": [pd.DataFrame(one).add_prefix("band ") for one in TWO],
}


def said_by(kind, X):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        kind(**QUICK).fit(X, TARGETS.get(kind))
    return [str(one.message) for one in found if "aeon" in str(one.message)]


@pytest.mark.parametrize("kind", [SequenceClassifier, SequenceRegressor, Forecaster])
def test_estimators_say_so(kind):
    assert said_by(kind, TWO) == [SAID.format(2)]
    assert said_by(kind, list(TWO)) == [SAID.format(2)]
    if kind is not Forecaster:
        assert said_by(kind, ONE) == [SAID.format(1)]
        return
    with pytest.raises(UserError, match=r"has one step .*give longer ones, as arrays \(time, channels\)"):
        said_by(kind, ONE)


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said_of_others(name):
    assert said_by(SequenceClassifier, RIGHT[name]) == []


def test_lengths_that_differ_are_no_channels():
    turned = [RANDOM.normal(size=(2, 30 + number)) for number in range(12)]
    said = r"has 31 channels, the first 30; give equally many, as arrays \(time, channels\)"
    with pytest.raises(UserError, match=said):
        said_by(SequenceClassifier, turned)
    with pytest.raises(UserError, match=said.replace(", the first", " and the first has")):
        library.data.cache(library.data.arrays(turned))


def test_the_command_line_says_so_of_files(tmp_path, capsys):
    np.savez(tmp_path / "turned.npz", x=TWO, y=TARGETS[SequenceClassifier])
    np.savez(tmp_path / "right.npz", x=RIGHT["turned round"], y=TARGETS[SequenceClassifier])
    (tmp_path / "waves.ts").write_text(
        "@classLabel true\n@data\n"
        + "\n".join(":".join(f"{one:.3f}" for one in x[0]) + f":c{n % 2}" for n, x in enumerate(ONE))
    )
    small = ("--hidden-sizes", 4, 4, "--periods", 1, "--updates", 1, "--no-tensorboard")
    for name, count in (("turned.npz", 1), ("right.npz", 0), ("waves.ts", 0)):
        code, out, err = hrnn(capsys, "inspect", tmp_path / name)
        assert (code, out.count(SAID.format(2))) == (0, count), err
        words = ("train", "series", tmp_path / name, *small, "--run", tmp_path / "runs" / name)
        code, _, err = hrnn(capsys, *words)
        assert (code, err.count("aeon")) == (0, count), err

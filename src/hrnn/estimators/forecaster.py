"""Forecaster: what comes next, in the data's units."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hrnn.arguments import shown
from hrnn.data.columns import roles
from hrnn.data.source import paths_in
from hrnn.errors import UserError
from hrnn.estimators.fitting import DATA, Estimator
from hrnn.estimators.given import Values, is_frame, is_pandas, sequences_in, write
from hrnn.tasks import Series
from hrnn.tasks.series.opened import NONE
from hrnn.training.predicting import beside, columns_for, predictions

Floats = NDArray[np.float64]


@dataclass(eq=False, repr=False, kw_only=True)
class Forecaster(Estimator):
    """The next values of series, in their units: `fit`, `predict`, `score`.

    horizon: steps ahead
    Other arguments are those of `SequenceClassifier` without readout and class_weights. What is held out is the end of every
    series; whole series, where these are too short for that.

    forecast_: what follows the series that it was fitted to
    trained_, chosen_, result_: as `SequenceClassifier` has them
    """

    own = ("horizon",)
    horizon: int = field(default=1, kw_only=False)

    def fit(self, X: Any, y: Any = None) -> Forecaster:
        """X: one series (time,), an array or a Series of pandas; several: a list of (time,) or (time, channels) arrays, an
        array (series, time) or (series, time, channels); a table of pandas, Polars or pyarrow with a row for each time, and an
        id where it holds several series; or paths that `hrnn train series` reads. nan is a missing value.

        y: not used
        """
        if not isinstance(self.horizon, int | np.integer) or self.horizon < 1:
            raise UserError(f"horizon is {shown(self.horizon)}; give a whole number of at least 1")
        inputs = -(-int(self.horizon) // (self.patch or 1))  # that reach so far
        self.table_ = bool(paths_in(X)) or is_frame(X)
        if self.table_:
            self._fit(self._from_source(X, None, forecast=inputs))
        else:
            sequences = self._series(X, reset=True)
            if max(len(one) for one in sequences) < 2:
                raise UserError(
                    "every series of X has one step (n_features=1), and nothing follows it; give longer ones, as arrays (time, "
                    "channels)"
                )

            def make(folder: Path) -> Series:
                values, own = write(folder / DATA, X, sequences, {})
                data = (folder / DATA,)
                return Series(data, id=own["id"], time=NONE, values=values, target=NONE, split=NONE, forecast=inputs)

            self._fit(make)
        self.forecast_ = self.predict(X)
        return self

    def _series(self, X: Any, reset: bool) -> Values:
        if _is_one(X):
            X = [np.asarray(X)]
        return sequences_in(self, X, reset)

    def predict(self, X: Any = None) -> Any:
        """What follows series like those of `fit`; by default those themselves.

        Returns (horizon,) for one series (time,), (series, horizon) for an array (series, time), otherwise (series, horizon,
        channels); for a table of pandas one with a row for each step ahead: the id, the step's number, and the values.
        """
        if X is None:
            return self.forecast_
        data = self._series(X, reset=False) if _is_one(X) else self._given(X)
        with self._answering() as trained:
            if is_pandas(X) and is_frame(X):
                return self._frame(data)
            found: Floats = trained.predict(data)[:, : self.horizon]
        if _is_one(X):
            return found[0, :, 0]
        return found[..., 0] if getattr(X, "ndim", 0) == 2 else found

    def _frame(self, data: Any) -> Any:
        import pandas

        task = self.trained_.config.task
        name = roles(data.column_names, columns_for(task, data.column_names, "X"), "X").id
        rows: dict[str, list[Any]] = {"step": []} if name is None else {name: [], "step": []}
        columns = beside((task.learned.channels[place] for place in task.learned.numeric), rows)
        for one in predictions(self.trained_.network, task, data):
            if name is not None:
                rows[name] += [one.id] * self.horizon
            rows["step"] += one.steps[: self.horizon].tolist()
            for channel, values in one.columns.items():
                rows.setdefault(columns[channel], []).extend(values[: self.horizon].tolist())
        return pandas.DataFrame(rows)

    def score(self, X: Any, y: Any = None) -> float:
        """How much better than to repeat the last value: 1 minus the ratio of mean absolute errors over the last `horizon`
        values of each series, which are predicted from those before. 1 is perfect, 0 no better. X: arrays; y: not used"""
        if paths_in(X) or is_frame(X):
            raise UserError("score takes arrays: a list of (time, channels), or one series (time,)")
        sequences, ahead = self._series(X, reset=False), int(self.horizon)
        if (short := min(len(one) for one in sequences)) <= ahead:
            raise UserError(f"a series of X has {short} steps, and horizon is {ahead}; give longer ones")
        before = [one[:-ahead] for one in sequences]
        true = np.stack([one[-ahead:] for one in sequences]).astype(np.float64)
        with self._answering() as trained:
            errors = np.abs(trained.predict(before)[:, :ahead] - true)
        naive = np.abs(np.stack([one[-1:] for one in before]) - true)
        known = np.isfinite(errors) & np.isfinite(naive)
        ours, others = float(errors[known].sum()), float(naive[known].sum())
        return 1 - ours / others if others else float("-inf" if ours else 1.0)


def _is_one(X: Any) -> bool:
    """One series, (time,)?"""
    if isinstance(X, np.ndarray) and X.dtype == object:
        return False
    return getattr(X, "ndim", 0) == 1 or (isinstance(X, list | tuple) and bool(X) and all(np.ndim(one) == 0 for one in X))

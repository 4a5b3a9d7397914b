"""SequenceClassifier and SequenceRegressor: one class, or one number, for each sequence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import assert_all_finite, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from hrnn.arguments import shown
from hrnn.data import cache
from hrnn.data.source import paths_in
from hrnn.data.tables import Table
from hrnn.errors import UserError
from hrnn.estimators.fitting import DATA, Estimator, in_python
from hrnn.estimators.given import as_arrow, is_frame, parts_of, sequences_in, write
from hrnn.tasks import Series
from hrnn.tasks.series.opened import NONE, source_of
from hrnn.training.predicting import source_for

LABEL = "label"  # the column of targets in tables that are written here


def has_targets(X: Any, y: Any) -> bool:
    """Are these a long table or files, with their targets in a column or in the names of folders?"""
    return bool(paths_in(X)) or (is_frame(X) and (y is None or isinstance(y, str)))


class OfSequences(Estimator, ABC):
    """One target for each sequence."""

    kind: Literal["class", "number"]
    _names: list[str] | None  # of targets that are texts, in a table

    def _learn(self, X: Any, y: Any) -> None:
        self.table_ = has_targets(X, y)
        if self.table_:
            return self._fit(self._from_source(X, y, target_is=self.kind))
        if y is None or isinstance(y, str):
            raise UserError(
                f"{type(self).__name__} requires y to be passed, but the target y is {y}; give one for each sequence"
            )
        if is_frame(X) and len(X) != len(y):
            raise UserError(
                f"X has {len(X)} rows and y {len(y)} entries; give one for each row where a row is a sequence, and the name of "
                "the column where a row is a step, as in fit(table, 'label')"
            )
        sequences = sequences_in(self, X, reset=True)
        y = column_or_1d(y, warn=True)
        check_consistent_length(sequences, y)
        targets, kinds = self._targets(y)

        def make(folder: Path) -> Series:
            parts = parts_of(kinds, self.held_out, check_random_state(self.random_state))
            values, own = write(folder / DATA, X, sequences, {LABEL: targets, "split": parts})
            return Series(
                data=(folder / DATA,), id=own["id"], time=NONE, values=values, target=own[LABEL], targets="sequence",
                target_is=self.kind, split=own["split"],
            )  # fmt: skip

        self._fit(make)

    @abstractmethod
    def _targets(self, y: NDArray[Any]) -> tuple[list[Any], NDArray[Any]]:
        """Targets as they are written, and of each what kind it is of which training needs one at least."""

    def _look_at(self, task: Series) -> None:
        sequences = task.opened.sequences
        if sequences.layout.target != "sequence":
            raise UserError("the data have no target for each sequence; name the column that is, as in fit(table, 'label')")
        self._names = sequences.labels["target"]

    def _true(self, X: Any, y: Any) -> Any:
        """Targets to compare predictions with."""
        if not has_targets(X, y):
            return y
        task = self.trained_.config.task
        target = y or task.target
        with in_python():
            paths = paths_in(X)
            source = source_of({"training": paths}, task.kind, {"target": target}) if paths else None
            if source is None or isinstance(source, Table):
                source = source_for(task, paths or as_arrow(X), target)
            sequences = cache(source)
            codes = sequences.fact("target")
            if codes is None or not np.isfinite(codes).all():
                raise UserError(f"y is {shown(y)}, and the data have no target for each sequence; name the column that is")
            names = sequences.labels["target"]
            return codes if names is None else np.array([names[int(code)] for code in codes])


@dataclass(eq=False, repr=False, kw_only=True)
class SequenceClassifier(ClassifierMixin, OfSequences):  # type: ignore[misc]
    """A class for each sequence, as scikit-learn has it: `fit`, `predict`, `predict_proba`, `score`.

    hidden_sizes, periods, window, batch, learning_rate, epochs, updates, normalise, patch: as `hrnn train series` has them;
                   what is None is chosen from the data, and in `chosen_` afterwards
    reads, reader, context, output_levels, burn_in, segments: what levels read, as `hrnn train series` has it; one value for all
                   levels, or a list
    readout:       "every": every step learns the class, and the mean of the logits is the prediction; "last": the last alone;
                   "mean": the mean of the logits itself learns it
    class_weights: "equal", or "balanced": classes count for the inverse of their frequency
    memory:        bytes that learning may take, as in "500MB": what is not given is chosen to fit
    held_out:      share of the sequences that is not learned from but says which weights are kept; 0: the last ones are
    options:       any other option of `hrnn train series` by name, as in {"cell": "gru"}; of tables, {"id": "walk"}
    run:           a new folder to keep the run in, for `hrnn evaluate`, `predict` or `report`; None: nothing is left
    random_state:  of weights, of the order of sequences and of which are held out
    verbose:       lines on standard error: what was chosen, how far it is

    classes_:      classes in the order of `predict_proba`
    trained_:      what `hrnn.load` gives: network, preprocessing, `stream()`
    chosen_, result_: options of the run, and how it ended
    """

    kind = "class"
    readout: str = "every"
    class_weights: str = "equal"

    def fit(self, X: Any, y: Any = None) -> SequenceClassifier:
        """X: a list of (time, channels) or (time,) arrays of any lengths; an array (sequences, time, channels), or (sequences,
        time); a long table (pandas, Polars, pyarrow); or paths that `hrnn train series` reads. nan is a missing value.

        y: a label for each sequence; for tables the name of the column, for paths that or None
        """
        self._learn(X, y)
        if self.table_:
            names = self.trained_.classes
            self.classes_: NDArray[Any] = np.array(names if self._names is not None else [float(name) for name in names])
            if self._names is None and (self.classes_ == np.round(self.classes_)).all():
                self.classes_ = self.classes_.astype(np.int64)
            self._places = list(range(len(names)))
        else:
            self._places = [self.trained_.classes.index(name) for name in names_of(self.classes_)]
        return self

    def _targets(self, y: NDArray[Any]) -> tuple[list[Any], NDArray[Any]]:
        try:
            with np.errstate(invalid="ignore"):  # a missing label is an error, not a warning as well
                check_classification_targets(y)
            self.classes_, codes = np.unique(y, return_inverse=True)
        except TypeError:
            raise UserError("y has labels of several types, or lacks some; give texts or numbers, one for each") from None
        if len(self.classes_) < 2:
            raise UserError(f"y has one class only ({self.classes_.tolist()[0]!r}); give at least two")
        names = names_of(self.classes_)
        return [names[code] for code in codes], codes

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(sequences, classes) in the order of `classes_`; sequences of a table in the order in which they first appear."""
        data = self._given(X)
        with self._answering() as trained:
            shares: NDArray[np.float64] = trained.predict_proba(data)[:, self._places]
        return shares

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each sequence."""
        shares = self.predict_proba(X)
        found: NDArray[Any] = self.classes_[shares.argmax(1)]
        return found

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The accuracy. y: as in `fit`"""
        return float(super().score(X, self._true(X, y), sample_weight))


def names_of(classes: NDArray[Any]) -> list[str]:
    return [str(one) for one in classes.tolist()]


@dataclass(eq=False, repr=False, kw_only=True)
class SequenceRegressor(RegressorMixin, OfSequences):  # type: ignore[misc]
    """A number for each sequence, as scikit-learn has it: `fit`, `predict`, `score` (the coefficient of determination).

    Arguments are those of `SequenceClassifier` without class_weights; so are X and y, with numbers.
    """

    kind = "number"
    readout: str = "every"

    def fit(self, X: Any, y: Any = None) -> SequenceRegressor:
        """X: as `SequenceClassifier.fit` has it. y: a number for each sequence; for tables the name of the column"""
        self._learn(X, y)
        return self

    def _targets(self, y: NDArray[Any]) -> tuple[list[Any], NDArray[Any]]:
        try:
            numbers = np.asarray(y, np.float64)
        except (TypeError, ValueError):
            raise UserError(f"y is {shown(y)}; give a number for each sequence") from None
        assert_all_finite(numbers, input_name="y")
        return numbers.tolist(), np.zeros(len(numbers), np.int64)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """(sequences,) in the units of y; sequences of a table in the order in which they first appear."""
        data = self._given(X)
        with self._answering() as trained:
            numbers: NDArray[np.float64] = np.asarray(trained.predict(data), np.float64)
        return numbers

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The coefficient of determination. y: as in `fit`"""
        return float(super().score(X, self._true(X, y), sample_weight))

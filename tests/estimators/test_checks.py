"""scikit-learn's own checks of estimators."""

from __future__ import annotations

import warnings
from unittest import SkipTest

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import hrnn

TINY = {"updates": 2, "hidden_sizes": (4, 4)}
LEARNS = {"updates": 300, "hidden_sizes": (16, 16), "learning_rate": 1e-2, "readout": "last"}
ESTIMATORS = (hrnn.SequenceClassifier, hrnn.SequenceRegressor, hrnn.Forecaster)
TRAINED = ("check_classifiers_train", "check_regressors_train")  # these ask for a good score
DOES_NOT_APPLY = {
    ("Forecaster", "check_fit1d"): "an array (time,) is one series, not a mistake",
    ("Forecaster", "check_fit2d_predict1d"): "an array (time,) is one series, not a mistake",
}
QUICK = {
    "check_classifiers_one_label", "check_complex_data", "check_estimator_cloneable", "check_estimators_empty_data_messages",
    "check_estimators_pickle", "check_estimators_unfitted", "check_fit2d_1feature", "check_fit2d_1sample",
    "check_get_params_invariance", "check_n_features_in_after_fitting", "check_no_attributes_set_in_init",
    "check_parameters_default_constructible", "check_requires_y_none", "check_set_params", "check_supervised_y_no_nan",
}  # fmt: skip


def checks():
    """Every check that scikit-learn has for each estimator, as parameters of tests; all but the quick ones are long."""
    for kind in ESTIMATORS:
        for options in (TINY,) if kind is hrnn.Forecaster else (TINY, LEARNS):
            numbers = {}
            for estimator, check in estimator_checks_generator(kind(**options)):
                name = check.func.__name__
                if (options is LEARNS) == (name in TRAINED):
                    numbers[name] = numbers.get(name, 0) + 1
                    marks = [] if name in QUICK and numbers[name] == 1 else [pytest.mark.long]
                    if reason := DOES_NOT_APPLY.get((kind.__name__, name)):
                        marks.append(pytest.mark.xfail(reason=reason, strict=True))
                    yield pytest.param(estimator, check, marks=marks, id=f"{kind.__name__}-{name}-{numbers[name]}")


@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_what_scikit_learn_asks_for(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # sequences of two steps are shorter than anyone would have them
        try:
            check(estimator)
        except SkipTest as reason:
            pytest.skip(str(reason))


def test_what_does_not_apply_is_a_check():
    """A list of exemptions that scikit-learn no longer knows would go unnoticed."""
    known = {(kind.__name__, check.func.__name__) for kind in ESTIMATORS for _, check in estimator_checks_generator(kind())}
    assert set(DOES_NOT_APPLY) <= known
    assert {name for _, name in known} >= QUICK

"""Sequences of one's own as scikit-learn has it: estimators with fit, predict, score and get_params, over runs on series.

    model = hrnn.SequenceClassifier(memory="500MB").fit(walks, gaits)  # a list of (time, channels) arrays, a label for each
    model.predict_proba(others)

docs/estimators.md shows the rest.
"""

from hrnn.errors import require_extra

require_extra("data", "hrnn.estimators")

from hrnn.estimators.forecaster import Forecaster  # noqa: E402  scikit-learn may be missing
from hrnn.estimators.sequences import SequenceClassifier, SequenceRegressor  # noqa: E402

__all__ = ["Forecaster", "SequenceClassifier", "SequenceRegressor"]

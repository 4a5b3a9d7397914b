"""What estimators are given: arrays as lists of sequences, tables as Arrow has them, paths; and a table on disk from these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from hrnn.arguments import shown
from hrnn.data.array_sources import columns_of, unmasked, unnamed, with_columns
from hrnn.errors import UserError, shortened, words_of
from hrnn.files import make_folder, replacing, writing
from hrnn.training.predicting import beside

Values = list[NDArray[Any]]  # (time, channels) of each sequence
ROWS = 1 << 20  # of a table that are written at a time


def is_frame(X: Any) -> bool:
    """A table in memory: of pandas, Polars or pyarrow."""
    return hasattr(X, "columns") and (hasattr(X, "__arrow_c_stream__") or hasattr(X, "index"))


def is_pandas(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "pandas"


def as_arrow(X: Any) -> Any:
    """A table in memory as one of pyarrow. An index of pandas that says more than the number of a row becomes columns: times
    are called time, several levels keep their names."""
    import pyarrow as pa

    try:
        return _as_arrow(X, pa)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise UserError(f"X cannot be read as a table ({words_of(error)}); give each column one type and one name") from None


def _as_arrow(X: Any, pa: Any) -> Any:
    if not is_pandas(X):
        return pa.table(X)
    index = type(X.index).__name__
    if index == "MultiIndex":
        X = X.reset_index()
    elif index in ("DatetimeIndex", "PeriodIndex") and "time" not in X.columns:
        X = (X.to_timestamp() if index == "PeriodIndex" else X).rename_axis("time").reset_index()
    return pa.Table.from_pandas(X, preserve_index=False)


def sequences_in(estimator: Any, X: Any, reset: bool) -> Values:
    """A list of arrays, (sequences, time, channels), or (sequences, time), as scikit-learn's tables are; checked.

    reset: whether the estimator is being fitted and keeps the columns of such a table; later ones must be alike
    """
    columns, X = columns_of(X, "X"), unmasked(X)
    if _are_several(X) or getattr(X, "ndim", 0) == 3:
        for name in ("n_features_in_", "feature_names_in_") if reset else ():
            vars(estimator).pop(name, None)
        if columns is not None:
            X = _by_name(estimator, X, columns, reset)
        if _are_several(X):
            return _alike([_sequence(one, place) for place, one in enumerate(X)])
        return list(check_array(X, allow_nd=True, ensure_all_finite="allow-nan", input_name="X"))
    table = validate_data(estimator, X, reset=reset, ensure_all_finite="allow-nan")
    return list(table[:, :, None])


def _by_name(estimator: Any, X: Any, columns: list[str], reset: bool) -> Any:
    """Sequences that are tables, with their columns in the order of `fit`."""
    if reset:
        estimator.feature_names_in_ = np.array(columns, dtype=object)
    known = getattr(estimator, "feature_names_in_", np.array(columns, dtype=object)).tolist()
    if sorted(columns) != sorted(known):
        said = [shortened(", ".join(names), 200) for names in (columns, known)]
        raise UserError(f"sequences of X have the columns {said[0]}, and those of fit had {said[1]}; give each by its name")
    return X if columns == known else [with_columns(one, known) for one in X]


def _are_several(X: Any) -> bool:
    """Sequences one by one? A list of equally long lists of numbers is a table."""
    if isinstance(X, np.ndarray):
        return X.dtype == object and X.ndim == 1 and any(np.ndim(one) for one in X)
    if not isinstance(X, list | tuple):
        return False
    if any(hasattr(one, "shape") and np.ndim(one) for one in X):
        return True
    lists = [one for one in X if isinstance(one, list | tuple)]
    return len({len(one) for one in lists}) > 1 or any(isinstance(one[0], list | tuple) for one in lists if one)


def _sequence(one: Any, place: int) -> NDArray[Any]:
    try:
        array = np.asarray(one.detach().cpu() if hasattr(one, "detach") else unmasked(one))
        array = array.astype(np.float64) if array.dtype == object else array
    except (ValueError, TypeError):
        raise UserError(f"sequence {place} of X is no array of numbers; give arrays (time, channels) or (time,)") from None
    if array.ndim not in (1, 2) or array.dtype.kind not in "fiub":
        raise UserError(f"sequence {place} of X is {shown(array)}; give arrays of numbers, (time, channels) or (time,)")
    return array[:, None] if array.ndim == 1 else array


def _alike(sequences: Values) -> Values:
    for place, one in enumerate(sequences):
        if not one.size:
            raise UserError(f"sequence {place} of X is empty; leave it out")
        if one.shape[1] != sequences[0].shape[1]:
            raise UserError(
                f"sequence {place} of X has {one.shape[1]} channels, the first {sequences[0].shape[1]}; give equally many, as "
                "arrays (time, channels)"
            )
        if np.isinf(one).any():
            raise UserError(f"sequence {place} of X has infinite values; clean them, or put nan for what is missing")
    return sequences


def write(path: Path, X: Any, sequences: Values, facts: Mapping[str, Sequence[Any]]) -> tuple[tuple[str, ...], dict[str, str]]:
    """A long table, a row a step: id, channels and facts, of which there is one for each sequence. Channels are called as the
    columns of X where that is a list of tables.

    Returns the channels' columns, and those of the id and the facts, which are called otherwise where a channel has their name.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    names = tuple(columns_of(X, "X") or unnamed(sequences[0].shape[1]))
    own = beside(("id", *facts), names)
    kind = np.result_type(np.float32, *{one.dtype for one in sequences})
    schema = {own["id"]: pa.int64(), **dict.fromkeys(names, pa.from_numpy_dtype(kind))}
    schema |= {own[name]: pa.array(values).type for name, values in facts.items()}
    make_folder(path.parent)
    with writing(path), replacing(path) as whole, parquet.ParquetWriter(whole, pa.schema(schema)) as file:
        for first, last in _together([len(one) for one in sequences]):
            lengths = [len(one) for one in sequences[first:last]]
            values = np.concatenate(sequences[first:last]).astype(kind)
            numbers = np.repeat(np.arange(first, last), lengths)
            columns = [numbers, *values.T, *(pa.array(some).take(pa.array(numbers)) for some in facts.values())]
            file.write_table(pa.table(dict(zip(schema, columns, strict=True)), schema=pa.schema(schema)))
    return names, own


def _together(lengths: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of sequences that make some ROWS together."""
    first, rows = 0, 0
    for place, length in enumerate(lengths, 1):
        rows += length
        if rows >= ROWS or place == len(lengths):
            yield first, place
            first, rows = place, 0


def write_table(path: Path, table: Any) -> None:
    import pyarrow.parquet as parquet

    make_folder(path.parent)
    with writing(path), replacing(path) as file:
        parquet.write_table(table, file)


def parts_of(kinds: NDArray[Any], share: float, random: np.random.RandomState) -> list[str]:
    """For each sequence whether it is for training or validation: every kind alike, and one of each kind at least for training.
    Of kinds that are too small for their share some have one for validation; with a share of 0 none has."""
    chosen: list[int] = []
    found, counts = np.unique(kinds, return_counts=True)
    for kind in found:
        some = random.permutation(np.flatnonzero(kinds == kind))
        chosen += some[: min(int(share * len(some) + 0.5), len(some) - 1)].tolist()
    if not chosen and share:
        if counts.max() < 2:
            raise UserError(
                f"X has n_samples={len(kinds)}, one of each kind, and one more is needed to validate on; give more "
                "sequences, or held_out=0 to learn from all"
            )
        some = random.permutation(found[counts > 1])[: max(1, int(share * len(kinds) + 0.5))]
        chosen = [int(random.choice(np.flatnonzero(kinds == kind))) for kind in some]
    parts = ["training"] * len(kinds)
    for place in chosen:
        parts[place] = "validation"
    return parts

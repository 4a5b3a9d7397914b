"""Which runs a sweep is made of, what they are called, and what fits into a folder that holds some already."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hrnn.errors import UserError
from hrnn.launching.grid import Axis, common, fitted, options_of, points, rows, sampled, write_common
from hrnn.launching.units import prepare
from hrnn.tasks import Needle
from hrnn.training.config import Budget, Config, Learning, Model, Runtime

KNOWN = options_of(Needle)


def base(**budget):
    return Config(
        Needle(steps=12, test_sequences=5),
        Model(hidden_sizes=(8, 8), periods=(3,), window=12),
        Learning(batch=4),
        Budget(**({"updates": 3} | budget)),
        Runtime(tensorboard=False),
    )


def axes(**values):
    return [Axis(name, KNOWN[name], several) for name, several in ((k.replace("_", "-"), v) for k, v in values.items())]


def names(found):
    return [point.unit.name for point in found]


def test_the_grid_is_every_combination_with_readable_names():
    found = points(base(), axes(hidden_sizes=[(8, 8), (16, 8)], seed=[0, 1], learning_rate=[1e-3, 0.02]))
    assert len(found) == 8
    assert names(found)[:3] == [
        "hidden-sizes=8-8,seed=0,learning-rate=0.001",
        "hidden-sizes=8-8,seed=1,learning-rate=0.001",
        "hidden-sizes=8-8,seed=0,learning-rate=0.02",
    ]
    last = found[-1].unit.config
    assert (last.hidden_sizes, last.upkeep.seed, last.learning.learning_rate) == ((16, 8), 1, 0.02)
    assert last.betas == (1.0,)  # resolved
    settings = rows(found)
    assert [len(group) for group in settings] == [2, 2, 2, 2]
    assert settings[1][0].setting == {"hidden-sizes": (8, 8), "learning-rate": 0.02}


def test_a_sample_takes_settings_and_keeps_all_their_seeds():
    over = axes(learning_rate=[1e-3, 2e-3, 4e-3, 8e-3], batch=[2, 4, 8], seed=[0, 1])
    found = points(base(), over, 5, seed=1)
    assert len(set(names(found))) == 10
    assert [len(group) for group in rows(found)] == [2] * 5
    assert set(names(found)) <= set(names(points(base(), over)))
    assert names(points(base(), over, 5, seed=1)) == names(found)
    assert names(points(base(), over, 5, seed=2)) != names(found)
    for wrong in (0, 13):
        with pytest.raises(UserError, match=f"--random is {wrong} and the grid has 12 settings; give 1 to 12"):
            points(base(), over, wrong)


@given(st.integers(1, 60), st.data(), st.integers(0, 5))
def test_a_larger_sample_begins_with_the_smaller(total, data, seed):
    count = data.draw(st.integers(1, total))
    found = sampled(total, total, seed)
    assert sorted(found) == list(range(total))
    assert sampled(total, count, seed) == found[:count]


def test_a_value_that_comes_to_the_same_run_and_one_that_cannot_be():
    deep = Config(Needle(steps=12), Model(hidden_sizes=(8, 8, 8), periods=(2, 2), window=12), budget=Budget(updates=1))
    with pytest.raises(UserError, match=r"betas=0.1 and betas=0.1-0.1 are the same run; drop one of the values"):
        points(deep, axes(betas=[(0.1,), (0.1, 0.1)]))
    with pytest.raises(UserError, match=r"^model=gr-hrnn,betas=0.1: --model gr-hrnn has no local loss"):
        points(base(), axes(model=["ours", "gr-hrnn"], betas=[(0.1,)]))
    with pytest.raises(UserError, match="two runs would be called cell=a-b"):
        points(base(), axes(cell=["a:b", "a/:b"]))


def fit(folder, config, over):
    found, here = points(config, over), common(config, over)
    found = fitted(folder, found, here, config)
    prepare(folder, [point.unit for point in found])
    write_common(folder, here)
    return names(found)


def test_another_grid_finds_the_runs_that_it_shares_and_a_contradiction_is_refused(tmp_path):
    first = fit(tmp_path, base(), axes(learning_rate=[1e-3, 2e-3], seed=[0, 1]))
    assert fit(tmp_path, base(), axes(seed=[1, 0], learning_rate=[2e-3, 1e-3])) == [first[3], first[2], first[1], first[0]]
    wider = fit(tmp_path, base(), axes(learning_rate=[1e-3, 4e-3], betas=[(1.0,), (0.1,)], seed=[0]))
    assert wider[0] == first[0]  # betas are 1 where nothing is said
    assert wider[1:] == [
        "learning-rate=0.001,betas=0.1,seed=0",
        "learning-rate=0.004,betas=1.0,seed=0",
        "learning-rate=0.004,betas=0.1,seed=0",
    ]
    with pytest.raises(UserError, match=r"other options \(budget.updates is 3 there and 5 here\); give another --folder"):
        fit(tmp_path, base(updates=5), axes(learning_rate=[1e-3], seed=[7]))
    assert len(list(tmp_path.glob("*/config.json"))) == 7


def test_a_folder_of_other_runs_is_refused(tmp_path):
    prepare(tmp_path, [point.unit for point in points(base(), axes(batch=[2]))])
    with pytest.raises(UserError, match=r"holds runs of something else, such as .*batch=2; give another --folder"):
        fit(tmp_path, base(), axes(learning_rate=[1e-3, 2e-3]))
    assert fit(tmp_path, base(), axes(batch=[2, 3])) == ["batch=2", "batch=3"]  # killed before it wrote sweep.json
    (tmp_path / "sweep.json").write_text("{")
    with pytest.raises(UserError, match=r"sweep.json cannot be read"):
        fit(tmp_path, base(), axes(batch=[2]))

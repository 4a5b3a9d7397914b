"""Two processes with half the batch each give the gradients, moves and states of one process with the whole batch."""

import json
import weakref

import pytest
import torch

from hrnn.parallel import ALONE, Group, join
from hrnn.torchrun import GroupError
from tests.docs.documented import code_in
from tests.torchrun import ROOT, two_processes


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each of two processes found, by its rank: one launch for all tests."""
    place = tmp_path_factory.mktemp("gradients") / "found"
    two_processes(ROOT / "tests" / "parallel" / "gradients_of_two.py", place)
    return [json.loads(place.with_suffix(f".{rank}").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("method", ["full", "restricted", "unlocked"])
def test_half_the_batch_each_is_the_whole_batch(found, method):
    cases = [name for name in found[0] if name.startswith(method)]
    assert len(cases) >= 4
    for name in cases:
        for rank in (0, 1):
            case = found[rank][name]
            assert case["numbers"] <= 1e-10 * max(case["scale"], 1e-3), name
            assert case["state"] <= 1e-10, name
            assert case["exact"], f"{name}: gradients that are None, or the number of moves, differ"
            assert case["moves"] == found[0][name]["moves"]


def test_a_process_that_has_nothing_to_add_moves_with_the_others(found):
    # Segments and rounds of two windows; a level without a loss anywhere does not move.
    assert found[1]["unlocked, fixed, plain"]["moves"] == [12, 2]
    assert 0 < found[1]["unlocked, fixed, targets in one"]["moves"][0] <= 12
    waited, plain = (found[0][f"unlocked, given, {data}"]["moves"][0] for data in ("long segment in one", "plain"))
    assert waited < plain  # both wait for the segment that only the second process has


def test_what_the_group_collects_is_the_same_everywhere(found):
    for rank in (0, 1):
        verbs = found[rank]["verbs"]
        assert verbs["numbers"] == {"a": 1.5, "b": 1.0, "c": 2.0}
        assert verbs["again"] == {"a": 2.0}
        assert verbs["any"] == [True, False]
        assert verbs["same"] == [True, False]
        assert verbs["text"] == ["", "x"]
        assert verbs["broadcast"] == "of the first"
        assert verbs["nan"] == [True, False, False]
        assert verbs["mixed"] == [[1.0, 1.0], [1.0, 1.0, 1.0], None]
    assert found[0]["verbs"]["parts"] == [[0], 0]
    assert found[1]["verbs"]["parts"] == [[1, 2], 1]


def test_the_documented_loop_is_the_same_with_two_processes(found, capsys):
    example: dict = {}
    exec(code_in(ROOT / "docs" / "distributed.md")[0], example)
    assert found[0]["example"] == found[1]["example"] == pytest.approx(example["losses"], rel=1e-4)
    assert example["losses"][-1] < example["losses"][0]


def test_what_threads_of_gloo_may_still_hold_is_kept(monkeypatch):
    """Who lets go of a tensor last needs the interpreter, which waits for these threads where the group is destroyed."""
    lent = []
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda tensor, *_: lent.append(weakref.ref(tensor)))
    group = Group(1, 2)
    group.barrier()
    assert lent.pop()() is not None
    group.all_reduce_numbers({})
    assert lent.pop()() is not None
    group.all_reduce_gradients([torch.nn.Parameter(torch.zeros(3))])
    assert lent.pop()() is not None


def test_alone_nothing_changes(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with join() as group:
        assert (group.rank, group.size, group.first) == (0, 1, True)
        parameter = torch.nn.Parameter(torch.zeros(2))
        group.all_reduce_gradients([parameter])
        assert parameter.grad is None
        assert group.all_reduce_numbers({"a": 1.0}) == {"a": 1.0}
        assert group.all_gather({"a": torch.ones(1)}) == [{"a": torch.ones(1)}]
        assert group.fails_first()
    assert ALONE.rows(7) == range(7)


def test_bad_input():
    with pytest.raises(GroupError, match=r"a batch of 10 rows cannot be shared out evenly among 4 processes; .* such as 12"):
        Group(rank=1, size=4).rows(10)
    with pytest.raises(ValueError, match="timeout is 0"), join(timeout=0):
        pass

"""Methods that cut the window or run steps again, against the literal oracle, over everything that can be combined."""

import pytest
from hypothesis import assume, given, settings

import hrnn
from tests.gradients.test_equivalence import cases, run_case
from tests.helpers import PROPERTY

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize(
    ("method", "restricted"),
    [
        (hrnn.Checkpointed(), False),
        (hrnn.Checkpointed(every=3), False),
        (hrnn.Truncated(14), False),  # as long as any window
        (hrnn.Restricted(top="checkpointed"), True),
    ],
    ids=["checkpointed", "every 3", "truncated", "top"],
)
def test_it_equals_the_oracle(method, restricted):
    compared = 0

    @given(case=cases())
    @settings(PROPERTY, max_examples=40)
    def run(case):
        nonlocal compared
        found = run_case(case, "restricted" if restricted else "full", method)
        assume(found)
        compared += found["windows"]

    run()
    assert compared >= 40

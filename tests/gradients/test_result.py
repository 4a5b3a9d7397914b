"""What a window's result counts, whatever the weights are."""

import pytest
import torch

import hrnn
from tests.helpers import METHODS, assert_close, seeded, squares, steady


@pytest.mark.parametrize("name", METHODS)
def test_sums_and_counts_do_not_depend_on_the_weights(name):
    torch.manual_seed(0)
    model = steady(hrnn.HRNN(2, [3, 4, 3], [2, 2], decoder_units=4).double())
    x, y = torch.randn(9, 3, 2).double(), torch.randn(9, 3, 3).double()
    mask, lengths = torch.rand(9, 3) < 0.6, [9, 4, 7]
    options = {"loss": squares, "betas": [0.5, 0.0], "mask": mask, "lengths": lengths}
    mean = METHODS[name]().backward(model, x, y, **options, generator=seeded())
    weighted = METHODS[name]().backward(model, x, y, **options, weight=0.25, local_weight=3.0, generator=seeded())
    counted = mask & (torch.arange(9)[:, None] < torch.tensor(lengths))
    output, _ = model(x, lengths=lengths)
    for result in (mean, weighted):
        assert (result.targets, result.steps) == (int(counted.sum()), 20)
        assert_close(result.loss_sum, squares(output, y)[counted].sum())
        assert_close(result.local_sums[0], mean.local_sums[0])
        assert result.local_sums[1].isnan()
    assert_close(mean.loss * mean.targets, mean.loss_sum)
    assert_close(mean.local_losses[0] * mean.steps, mean.local_sums[0])
    assert_close(weighted.loss, 0.25 * mean.loss_sum)
    assert_close(weighted.local_losses[0], 3 * mean.local_sums[0])

"""What a run needs, counted before it starts."""

from dataclasses import replace

from hrnn.tasks import Copy, Needle, Pixels
from hrnn.training.config import Budget, Config, Learning, Model, resolved
from hrnn.training.network import build
from hrnn.training.sizes import bytes_needed, segments_of_group, ticks_kept, weights


def test_a_count_of_weights_is_that_of_the_network():
    for config in (
        Config(Copy(), Model(hidden_sizes=(6, 7, 8), periods=(3, 2), cell="gru", decoder_layers=3, decoder_units=5)),
        Config(Needle(), Model(model="lstm", hidden_sizes=(9,))),
        Config(Pixels(), Model(hidden_sizes=(4, 4), periods=(5,), cell="rnn", decoder_layers=1)),
    ):
        config = resolved(replace(config, budget=Budget(updates=1)))
        there = sum(parameter.numel() for parameter in build(config).parameters())
        assert weights(config) <= there <= weights(config) + sum(config.hidden_sizes)  # a GRU's second bias is left out
        assert bytes_needed(config)["weights"] > bytes_needed(config, learning=False)["weights"] == 4 * weights(config)


def test_segments_that_are_differentiated_together_are_kept_together():
    def config(at_once, periods=(5,), update="batch", **learning):
        model = Model(hidden_sizes=(6, *[8] * len(periods)), periods=periods, window=100, segments_at_once=at_once)
        return resolved(Config(Needle(steps=100), model, Learning(update=update, **learning), Budget(updates=1)))

    assert ticks_kept(config(4), 100) - ticks_kept(config(1), 100) == 3 * 5 * 4 * 6
    assert bytes_needed(config(4))["windows"] > bytes_needed(config(1))["windows"]
    assert [segments_of_group(config(8), window) for window in (100, 59, 20, 4)] == [7, 6, 4, 1]  # groups are about equal
    assert segments_of_group(config(8, periods=(5, 3)), 100) == 3
    assert segments_of_group(config(8, update="segment", update_every=(2, 1)), 100) == 2

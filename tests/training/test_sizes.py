"""What a run needs, counted before it starts."""

from dataclasses import replace

from hrnn.tasks import Copy, Needle, Pixels
from hrnn.training.config import Budget, Config, Model, resolved
from hrnn.training.network import build
from hrnn.training.sizes import bytes_needed, weights


def test_a_count_of_weights_is_that_of_the_network():
    for config in (
        Config(Copy(), Model(hidden_sizes=(6, 7, 8), periods=(3, 2), cell="gru", decoder_layers=3, decoder_units=5)),
        Config(Needle(), Model(model="lstm", hidden_sizes=(9,))),
        Config(
            Needle(steps=30),
            Model(
                hidden_sizes=(6, 7, 8),
                periods=(3, 2),
                reads=("both", "inputs"),
                reader=("maximum", "linear"),
                context=("state",),
            ),
        ),
        Config(Pixels(), Model(hidden_sizes=(4, 4), periods=(5,), cell="rnn", decoder_layers=1)),
    ):
        config = resolved(replace(config, budget=Budget(updates=1)))
        there = sum(parameter.numel() for parameter in build(config).parameters())
        assert weights(config) <= there <= weights(config) + sum(config.hidden_sizes)  # a GRU's second bias is left out
        assert bytes_needed(config)["weights"] > bytes_needed(config, learning=False)["weights"] == 4 * weights(config)

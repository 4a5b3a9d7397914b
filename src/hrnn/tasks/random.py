"""Random numbers by address, where tasks look for them."""

from hrnn.data.random import below, permutation, random_words

__all__ = ["below", "permutation", "random_words"]

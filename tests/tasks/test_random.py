import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hrnn.tasks.random import below, permutation, random_words


@given(st.integers(0, 2**40), st.integers(0, 10**6), st.integers(0, 20), st.integers(1, 20))
def test_a_row_holds_the_same_however_the_rows_are_shared_out(seed, index, first, count):
    whole = random_words(seed, "name", index, range(40), 7)
    part = random_words(seed, "name", index, range(first, first + count), 7)
    assert np.array_equal(whole[:, first : first + count], part)


def test_a_shorter_draw_is_the_beginning_of_a_longer_one():
    assert np.array_equal(random_words(1, "a", 2, range(3), 50)[:20], random_words(1, "a", 2, range(3), 20))


def test_every_part_of_the_address_matters():
    words = [random_words(0, "a", 0, range(1), 4), random_words(1, "a", 0, range(1), 4), random_words(0, "b", 0, range(1), 4)]
    words += [random_words(0, "a", 1, range(1), 4), random_words(0, "a", 0, range(1, 2), 4)]
    assert len({word.tobytes() for word in words}) == 5


def test_numbers_are_even_and_unrelated_between_places_and_rows():
    numbers = below(random_words(0, "a", 0, range(200), 500), 8)
    assert numbers.min() == 0
    assert numbers.max() == 7
    counts = np.bincount(numbers.ravel(), minlength=8) / numbers.size
    assert np.abs(counts - 1 / 8).max() < 0.005
    bits = (random_words(3, "a", 0, range(200), 500) >> 63).astype(float) - 0.5
    assert abs((bits[1:] * bits[:-1]).mean()) < 0.004
    assert abs((bits[:, 1:] * bits[:, :-1]).mean()) < 0.004


def test_a_permutation_is_one_and_depends_on_its_index():
    orders = [permutation(0, "order", index, 1000) for index in range(2)]
    assert all(sorted(order.tolist()) == list(range(1000)) for order in orders)
    assert not np.array_equal(*orders)

"""NEURON's random streams: Philox's words in sequence, and the draws of blocks."""

import numpy as np
import pytest

from clhines.simulator.mechanisms.emit import random123
from clhines.simulator.mechanisms.emit.noise import philox

pytestmark = pytest.mark.core
STREAM = np.array([1, 2, 3, 4], np.uint32)  # three ids, and the global index


def test_words_are_those_of_philox_in_turn():
    """Each counter gives four words, of (counter, third, first, second) and the key (index, 0)."""
    for number in range(12):
        turn = [int(x) for x in philox([number // 4, 3, 1, 2], (4, 0))]
        assert random123.words(STREAM, np.array(number)) == turn[number % 4]


def test_numbers_go_on_or_begin_again():
    def uniform(drawn, keep, at):
        return random123.number("random_uniform", STREAM, drawn, keep, at)

    word = int(random123.words(STREAM, np.array(9)))
    assert uniform(7, 1.0, 2.0) == uniform(0, 0.0, 9.0) == (word + 1) / (2**32 + 1)
    assert random123.number("random_negexp", STREAM, 7, 1.0, 2.0) == -np.log(uniform(7, 1.0, 2.0))
    assert random123.number("random_pick", STREAM, 7, 1.0, 2.0) == word
    assert random123.count(7, [0.0, 1.0], 2.0).tolist() == [2, 9]
    assert random123.count(2**34 - 2, 1.0, 3.0) == 1  # a position with 34 bits


def test_normal_numbers_by_the_polar_method():
    for begin in range(0, 60, 3):
        used = 0
        while True:
            pair = [int(random123.words(STREAM, np.array(begin + used + k))) for k in (0, 1)]
            x, y = (2 * (word + 1) / (2**32 + 1) - 1 for word in pair)
            used += 2
            if x * x + y * y <= 1:
                break
        square = x * x + y * y
        expected = x * np.sqrt(-2 * np.log(square) / square)
        result = random123.number("random_normal", STREAM, begin, 1.0, 0.0)
        assert result == pytest.approx(expected, rel=1e-14)
        assert random123.number("random_used", STREAM, begin, 1.0, 0.0) == used

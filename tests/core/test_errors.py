"""Errors that pass between processes."""

import inspect
import multiprocessing
import pickle

import pytest
from systems import bad_pivot

from clhines import PivotError
from clhines.core import errors


def every_error():
    """Return an instance of each class in `errors` with all documented attributes."""
    more = {
        "PivotError": (3, 14),
        "SpikeOverflowError": (7,),
        "RankError": (1,),
        "SimulationError": (2, 5, 0.125, {"rows": 3}),
    }
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass)]
    public = [c for c in classes if c.__module__ == errors.__name__ and issubclass(c, Exception)]
    return [c("what was got", *more.get(c.__name__, ())) for c in public]


@pytest.mark.core
@pytest.mark.parametrize("error", every_error(), ids=lambda e: type(e).__name__)
def test_errors_can_be_pickled(error):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(error, protocol))
        assert type(again) is type(error)
        assert str(again) == str(error) == "what was got"
        assert vars(again).keys() == vars(error).keys()
        for name, value in vars(error).items():
            other = getattr(again, name)
            assert other == value


def test_errors_come_back_from_a_pool():
    """An error that does not pickle would let ``Pool.get()`` wait forever."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        with pytest.raises(PivotError, match="cell 3: a pivot") as caught:
            pool.apply_async(bad_pivot, (0,)).get(timeout=60)
    assert (caught.value.cell, caught.value.node) == (3, 14)


def test_only_long_names_are_cut():
    choices = ", ".join(f"name{k}" for k in range(100))
    hint = f"x has 'nmae1'; expected {choices}; did you mean 'name1'?"
    assert str(errors.InputError(hint)) == hint
    message = str(errors.InputError(f"'{'a b' * 300}' is not NEURON's {'y' * 1000}; expected z"))
    assert message.startswith("'a ba b") and "...' is not NEURON's yyy" in message
    assert message.endswith("...; expected z") and len(message) < 200

"""A single process as ranks: the interface `Ranks` without a communicator."""

import inspect

import numpy as np
import pytest

from clhines import InputError
from clhines.simulator.ranks.mpi import ONE_PROCESS, Ranks


def test_collectives_of_one_process_return_their_argument():
    assert (ONE_PROCESS.rank, ONE_PROCESS.size) == (0, 1)
    np.testing.assert_array_equal(ONE_PROCESS.gather_numbers([3, True]), [[3, 1]])
    assert ONE_PROCESS.gather("a") == ["a"]
    assert ONE_PROCESS.of_first("a") == "a"
    assert [ONE_PROCESS.any(x) for x in (False, True)] == [False, True]
    assert [ONE_PROCESS.all(x) for x in (False, True)] == [False, True]
    words = np.arange(3, dtype=np.uint32)
    assert ONE_PROCESS.exchange(words) == [words]
    assert ONE_PROCESS.exchanges == 0
    ONE_PROCESS.meet("run()")
    ONE_PROCESS.check_alone("replicate()")


def test_one_process_raises_its_own_errors():
    error = InputError("wrong")
    ONE_PROCESS.agree(None)
    for fails in (ONE_PROCESS.agree, lambda e: ONE_PROCESS.exchange(np.zeros(0), e)):
        with pytest.raises(InputError) as caught:
            fails(error)
        assert caught.value is error
    with pytest.raises(InputError, match="wrong"), ONE_PROCESS.agreed():
        raise error


def test_one_process_does_not_work_out_values_to_compare():
    ONE_PROCESS.same(lambda: pytest.fail("was worked out"))


def test_no_collective_of_one_process_needs_a_communicator():
    """`OneProcess` overrides every collective but `all`, which calls an overridden one."""
    names = {k for k, f in vars(Ranks).items() if inspect.isfunction(f) and k[0] != "_"}
    assert names - set(vars(type(ONE_PROCESS))) == {"all"}

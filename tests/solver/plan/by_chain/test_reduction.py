"""Plans of cyclic reduction."""

import numpy as np
import pytest
from plans import local_places

from bench.made import chain, star
from clhines import METHODS, Forest, InputError, make_plan
from clhines.solver.plan.by_chain.reduction import SPARE_BYTES
from clhines.solver.plan.plan import Limits

ROWS = [name for name, row in METHODS.items() if row.chains_only]


def test_the_rows():
    assert set(ROWS) == {"cr", "pcr", "cr_pcr"}
    chains = Forest.from_parents([chain(100), chain(7)])
    switch = {m: make_plan(chains, m).parts[0].spec.switch for m in ROWS}
    capacity = make_plan(chains, "pcr").parts[0].spec.capacity
    assert switch == {"cr": 1, "pcr": capacity, "cr_pcr": capacity}  # shorter than the switch
    assert make_plan(chains, "cr_pcr", switch=9).parts[0].spec.switch == 9
    assert make_plan(Forest(chain(900)), "cr_pcr").parts[0].spec.switch == 256


@pytest.mark.parametrize("method", ROWS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("local_bytes", [600, 5000, 48 << 10, 1 << 20])
@pytest.mark.parametrize("options", [{}, {"switch": 3}], ids=str)
def test_local_memory_is_never_exceeded(method, dtype, local_bytes, options):
    if not set(options) <= set(METHODS[method].options):
        return
    limits = Limits(local_bytes=local_bytes)
    cells = [chain(n) for n in (1, 33, 700, 1500, 3001, 70_000)]
    plan = make_plan(Forest.from_parents(cells), method, dtype, limits, **options)
    for part in plan.parts:
        spec = part.spec
        assert 4 * local_places(spec) * np.dtype(dtype).itemsize + SPARE_BYTES <= local_bytes
        assert 1 <= spec.switch <= spec.capacity
        assert 0 <= part.statistics["idle_lanes"] < 1
    assert np.array_equal(np.sort(plan.gather), np.arange(plan.forest.num_nodes))


def test_statistics_of_a_chain_of_eight():
    forest = Forest(chain(8))
    cr = make_plan(forest, "cr", work_group=4).parts[0].statistics
    assert cr["rounds"] == cr["dependent_steps"] == 3 + 1 + 3
    assert cr["idle_lanes"] == 1 - (2 * (4 + 2 + 1) + 1) / (7 * 4)
    pcr = make_plan(forest, "pcr", work_group=4).parts[0].statistics
    assert (pcr["rounds"], pcr["dependent_steps"], pcr["idle_lanes"]) == (3 + 1, 8, 0)
    both = make_plan(forest, "cr_pcr", work_group=4, switch=4).parts[0].statistics
    assert (both["rounds"], both["idle_lanes"]) == (1 + 2 + 1 + 1, 0)


@pytest.mark.parametrize("method", ROWS)
def test_branches_are_refused(method):
    root_inside = np.array([1, 2, -1, 2])  # a chain, but its root has two children
    for cells, words in (
        ([chain(4), chain(1), star(4), star(5)], r"cell 2 branches: node 5 \(number 0 of its cell"),
        ([chain(4), root_inside], r"cell 1 branches: node 6 \(number 2 of its cell\) has 2 child"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            make_plan(Forest.from_parents(cells), method)
        assert f"method {method!r} solves chains only" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_bad_options():
    forest = Forest(chain(5000))
    for options, words in (
        ({"switch": 0}, r"switch=0 is not valid; expected a whole number of at least 1"),
        ({"switch": 2.5}, r"switch=2.5 is not valid"),
        ({"switch": 745}, r"switch=745 is above the limit of 744 unknowns that PCR can hold"),
        ({"work_group": 257}, r"work_group=257 is above the device's limit of 256 work-items"),
        ({"max_cells": 4}, r"option 'max_cells' is not one of method 'cr_pcr'"),
    ):
        with pytest.raises(InputError, match=words):
            make_plan(forest, "cr_pcr", **options)
    assert make_plan(forest, "cr_pcr", switch=744).parts[0].spec.switch == 744
    with pytest.raises(InputError, match="'switch' is not one of method 'cr'"):
        make_plan(forest, "cr", switch=3)
    with pytest.raises(InputError, match="needs more local memory than 64 B"):
        make_plan(forest, "cr", limits=Limits(local_bytes=64))

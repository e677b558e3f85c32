"""Decisions about the whole network hold for each of its parts."""

import numpy as np
import pytest
from networks import CABLES, DT

from clhines import Network
from clhines.simulator.engines.reference import Reference
from clhines.simulator.model import compile
from clhines.simulator.ranks.partition import Share
from clhines.simulator.state.decisions import MAX_EPOCH, Decisions


def two_cells(weights=(0.5, 0.25)):
    """Return two cells; the first has a synapse (3 and 7 steps), the second active dendrites."""
    net = Network(CABLES[:1], 2)
    net.insert("hh", "soma")
    last = net.forest.cell_offsets[1]
    dendrites = np.setdiff1d(np.flatnonzero(net.area > 0), net.soma)
    net.insert("hh", dendrites[dendrites >= last])
    syn = net.add("expsyn", at=net.soma[:1])
    net.connect([0, 1], syn, 0, weights, [3 * DT, 7 * DT])
    return compile(net, DT)


def test_epoch_is_the_smallest_delay_and_slots_hold_the_largest():
    whole = two_cells()
    between, during = (Decisions.of(whole, True, overlap) for overlap in (False, True))
    assert (between.epoch, during.epoch) == (3, 2)
    assert between.slots == during.slots == 7 + 2
    empty = Decisions.of(compile(Network(CABLES[:1], 2), DT))
    assert (empty.epoch, empty.slots) == (MAX_EPOCH, MAX_EPOCH + 1)


@pytest.mark.parametrize("weights", [(0.5, 0.25), (3.0, -6.0), (1e-9, 1e-12)])
def test_scale_is_the_finest_power_of_two_whose_sums_fit_int64(weights):
    scale, total = Decisions.of(two_cells(weights)).scale, np.abs(weights).sum()
    assert np.frexp(scale)[0] == 0.5
    assert 2.0**62 <= total / scale < 2.0**63


def test_a_part_decides_nothing():
    """Each part alone would choose another epoch, other slots, other factors."""
    whole = two_cells()
    decisions = Decisions.of(whole, split=True)
    assert not decisions.constant_factors
    for first, names in ((0, ("constant_factors",)), (1, ("epoch", "slots", "scale"))):
        part = Share(whole, first, first + 1).model()
        alone = Decisions.of(part)
        assert all(getattr(alone, name) != getattr(decisions, name) for name in names)
        run = Reference(part, decisions=decisions)
        grid = run.variables.grid
        assert (run.max_steps, grid.slots, grid.scale) == (3, 9, decisions.scale)

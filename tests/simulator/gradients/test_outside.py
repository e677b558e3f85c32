"""Checks of the values that PyTorch and JAX set in a simulation, without these libraries."""

import numpy as np
import pytest
import small_networks

from clhines import InputError, Simulation
from clhines.simulator.gradients.outside import check_settable

NUMBER = 1e-4


def test_quantities_that_cannot_be_set_are_refused():
    net = small_networks.with_synapse()
    [hh] = [group for group in net.groups if group.mechanism.name == "hh"]
    with Simulation(net, small_networks.DT, engine="reference") as sim:
        good = [(hh, "gl"), "v_init", "weight"]
        check_settable(sim, good, [NUMBER, np.full(2, -65.0), np.full(1, 0.01)])
        for of, values, message in (
            ("weight", [NUMBER], "of is 'weight'; expected a list"),
            ([], [], "of is .*; expected a list"),
            (None, [NUMBER], "of is None; expected a list"),
            (good, [NUMBER], "got 1 values; expected one for each of 3"),
            (["cm"], [NUMBER], "of has 'cm', which no simulation sets"),
            ([("hh", "gl")], [NUMBER], "of has .*, which no simulation sets"),
            ([(hh, "m")], [NUMBER], "hh has no parameter 'm'; expected one of gnabar"),
            ([(hh, "gl"), (hh, "gl")], [NUMBER, NUMBER], "of has .* twice; expected it once"),
            ([(hh, "gl")], [np.full(2, NUMBER)], r"gl has shape \(2,\); expected \(\) or \(1,\)"),
            (["v_init"], [np.full(1, -65.0)], r"v_init has shape \(1,\); expected \(\) or \(2,\)"),
            (["weight"], [np.ones((1, 1))], r"weight has shape \(1, 1\); expected \(\) or \(1,\)"),
        ):
            with pytest.raises(InputError, match=message):
                check_settable(sim, of, values)

"""FUNCTION_TABLE: values between knots, with one argument and with two."""

import mod_files
import numpy as np
import pytest

from clhines import Network, Simulation
from clhines.core.errors import InputError
from clhines.simulator.mechanisms import Mechanism


def test_function_table_without_neuron():
    x, y = np.array([-80.0, -60.0, -20.0, 10.0]), np.array([0.1, 0.4, 0.2, 0.9])
    first, second = np.array([-70.0, -30.0]), np.array([0.0, 0.3, 0.5])
    z = np.arange(1.0, 7.0).reshape(2, 3)
    tables = {"inf": (x, y), "tau": (first, second, z), "scale": 2}
    net = Network.from_arrays([-1, 0], [0, 2], [400.0, 300.0], [0.0, 0.01], [4e-6, 3e-6])
    channel = Mechanism.from_nmodl(mod_files.FOLDER / "ext_functab.mod", function_tables=tables)
    group = net.insert(channel, at=np.arange(2))
    net.add("iclamp", [0], delay=1.0, dur=6.0, amp=0.02)
    sim = Simulation(net, 0.1, engine="reference", v_init=-75.0)
    v = sim.record("v", [0, 1])
    minf, mtau = sim.record("minf", group), sim.record("mtau", group)
    result = sim.run(10.0)
    moved = result[v][1:]
    assert np.ptp(moved) > 20
    expected = np.interp(moved, x, y)
    np.testing.assert_allclose(result[minf][1:], expected, rtol=1e-12)
    inner = [np.interp(expected, second, row) for row in z]
    share = np.clip((moved + 70) / 40, 0, 1)
    tau = (1 - share) * inner[0] + share * inner[1]
    np.testing.assert_allclose(result[mtau][1:], tau, rtol=1e-12)


def test_tables_that_are_made_of_function_tables():
    """A TABLE with rows at the knots interpolates like the FUNCTION_TABLE itself."""
    text = """
    NEURON {{ SUFFIX made NONSPECIFIC_CURRENT i RANGE m, minf }}
    ASSIGNED {{ v i minf mtau }}
    STATE {{ m }}
    FUNCTION_TABLE inf(v)
    INITIAL {{ rates(v) m = minf }}
    BREAKPOINT {{ SOLVE s METHOD cnexp  i = 1e-3*m*(v + 77) }}
    DERIVATIVE s {{ rates(v)  m' = (minf - m)/mtau }}
    PROCEDURE rates(v) {{ {} minf = inf(v)  mtau = 2 + minf }}
    """
    knots = np.linspace(-100, 0, 11)
    tables = {"inf": (knots, np.random.default_rng(5).uniform(0, 1, 11))}
    results = []
    for table in ("TABLE minf, mtau FROM -100 TO 0 WITH 10", ""):
        net = Network.from_arrays([-1, 0], [0, 2], [400.0, 300.0], [0.0, 0.01], [4e-6, 3e-6])
        net.insert(Mechanism.from_nmodl(text.format(table), function_tables=tables), [0, 1])
        net.add("iclamp", [0], delay=1.0, dur=6.0, amp=0.02)
        sim = Simulation(net, 0.1, engine="reference", v_init=-75.0)
        v = sim.record("v", [0, 1])
        results.append(sim.run(10.0)[v])
    assert np.ptp(results[0]) > 10
    np.testing.assert_allclose(*results, rtol=1e-12)


WRONG_TABLES = {
    "shapes": (([0.0, 1.0], [1.0]), "values of shape (1,); expected (2,)"),
    "descending": (([1.0, 0.0], [1.0, 2.0]), "knots that do not ascend"),
    "infinite": (([0.0, 1.0], [1.0, np.inf]), "a number that is not finite"),
    "four": (([0.0], [0.0], [0.0], [[[1.0]]]), "4 arrays; expected knots of 1 or 2"),
    "large": ((np.arange(9000.0), np.ones(9000)), "9000 values; expected 1 to 8000"),
}


@pytest.mark.parametrize("which", WRONG_TABLES)
def test_wrong_function_tables(which):
    table, message = WRONG_TABLES[which]
    with pytest.raises(InputError) as caught:
        Mechanism.from_nmodl(mod_files.FOLDER / "ext_functab.mod", function_tables={"inf": table})
    assert message in str(caught.value) and "function_tables['inf']" in str(caught.value)

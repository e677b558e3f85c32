"""The discretisation and the step against NEURON, built from the same sections.

Currents are such that cells are depolarised by some mV to some ten mV. Voltages are compared
relative to the largest deflection from the initial voltage in the cell, which is stricter than
relative to the voltage: errors are at most 1e-9 of it, 1e-13 to 1e-11 are usual.
"""

import numpy as np
import pytest
from neuron_cells import d_lambda_nseg, h, neuron_sections, set_segments
from real_cells import FOLDER, names

from clhines import Forest, Solver
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.swc import read_swc
from clhines.simulator.cells.synthetic import sample_cells

pytestmark = pytest.mark.neuron

DT, V_INIT, G_PAS, E_PAS, RA, CM, STEPS = 0.025, -70.0, 1e-4, -65.0, 120.0, 0.9, 400


def our_voltages(cable, amplitude, queue):
    """Return (2, n) float64 voltages [mV], solved on the device, after 1 and after STEPS steps."""
    system = cable.system(DT, g_pas=G_PAS, e_pas=E_PAS)
    solver = Solver(Forest(cable.parent), queue=queue)
    into = np.zeros(cable.num_nodes)
    into[cable.soma] = amplitude
    v = np.full(cable.num_nodes, V_INIT)
    kept = []
    for step in range(1, STEPS + 1):
        v = solver.solve(system.d, system.u, system.rhs(v, into))
        if step in (1, STEPS):
            kept.append(v)
    return np.array(kept)


def neuron_voltages(segments, at, amplitude):
    clamp = h.IClamp(at)
    clamp.delay, clamp.dur, clamp.amp = 0, 1e9, amplitude
    h.cvode.active(0)
    h.secondorder = 0
    h.dt = DT
    h.finitialize(V_INIT)
    kept = []
    for step in range(1, STEPS + 1):
        h.fadvance()
        if step in (1, STEPS):
            kept.append([segment.v for segment in segments])
    return np.array(kept)


def compare(cable, queue):
    sections = neuron_sections(cable)
    np.testing.assert_array_equal([s.L for s in sections], cable.sections.length)
    segments = set_segments(sections, cable.nseg, g=G_PAS, e=E_PAS)
    counts = np.cumsum(cable.nseg) - cable.nseg
    first, section = cable.first_node, np.repeat(np.arange(len(cable.nseg)), cable.nseg)
    node = (first - counts)[section] + np.arange(len(section))

    np.testing.assert_allclose(cable.area[node], [s.area() for s in segments], rtol=1e-12)
    joined = cable.parent[node] >= 0
    resistance = np.array([s.ri() for s in segments])
    np.testing.assert_allclose(1 / cable.g_axial[node[joined]], resistance[joined], rtol=1e-12)

    amplitude = 2e-5 * cable.area.sum() ** 0.9  # nA
    at = segments[int(np.flatnonzero(node == cable.soma)[0])]
    theirs = neuron_voltages(segments, at, amplitude)
    ours = our_voltages(cable, amplitude, queue)[:, node]
    for mine, neurons in zip(ours, theirs, strict=True):
        error = np.abs(mine - neurons).max() / np.abs(neurons - V_INIT).max()
        assert error < 1e-9
        assert (np.abs(mine - neurons) <= 1e-9 * np.abs(neurons)).all()
    return sections


@pytest.mark.parametrize("name", names())
def test_real_cell(fast_queue, name):
    cable = discretise(read_swc(FOLDER / "good" / name), Ra=RA, cm=CM)
    sections = compare(cable, fast_queue)
    assert cable.nseg.tolist() == [d_lambda_nseg(section) for section in sections]


@pytest.mark.parametrize("max_length", [None, 300.0, 7.0])
@pytest.mark.parametrize("k", [0, 3])
def test_sample_cell(fast_queue, k, max_length):
    compare(discretise(sample_cells()[k], max_length=max_length, Ra=RA, cm=CM), fast_queue)


def test_the_step_of_the_current_is_not_lost(fast_queue):
    """The comparison detects a current that differs by 1e-8."""
    cable = discretise(sample_cells()[1], Ra=RA, cm=CM)
    one, other = (our_voltages(cable, i, fast_queue) for i in (0.1, 0.1 * (1 - 1e-8)))
    assert np.abs(one - other).max() / np.abs(one - V_INIT).max() > 1e-9

"""Differentiable solves fit a passive cell to NEURON's voltages."""

import numpy as np
import pytest

import clhines
from clhines import Forest, Solver, discretise, sample_cells

torch = pytest.importorskip("torch")


@pytest.mark.neuron
def test_a_cell_is_found_again_from_a_recording_made_by_neuron(double_queue):
    """Find Ra, cm and g_pas of NEURON's simulation again from voltages at two places.

    Both take the same backward-Euler steps; the loss is flat to some 1e-9 of the parameters.
    """
    from neuron_cells import h, neuron_sections

    truth = np.array([140.0, 0.9, 8e-5])
    made = discretise(sample_cells()[1], max_length=100, Ra=truth[0], cm=truth[1])
    sections = neuron_sections(made)
    for section, count in zip(sections, made.nseg.tolist(), strict=True):
        section.nseg = count
        for segment in section:
            segment.pas.g, segment.pas.e = truth[2], 0.0
    clamp = h.IClamp(sections[0](0.5))
    clamp.delay, clamp.dur, clamp.amp = 0, 1e9, 0.1
    last = len(sections) - 1
    at = [sections[0](0.5), sections[last](0.5)]
    h.secondorder, h.dt, steps = 0, 1.0, 40
    h.finitialize(0.0)
    recorded = []
    for _ in range(steps):
        h.fadvance()
        recorded.append([segment.v for segment in at])
    recorded = torch.tensor(recorded, dtype=torch.float64)

    cable = discretise(sample_cells()[1], nseg=made.nseg, Ra=1.0, cm=1.0)
    solver = Solver(Forest(cable.parent), queue=double_queue)
    arrays = cable.area, cable.g_axial, cable.g_total
    area, g_axial, g_total = (torch.from_numpy(a.copy()) for a in arrays)
    current = torch.zeros_like(area)
    current[cable.soma] = 0.1
    places = [cable.soma, cable.node(last, 0.5)]

    def loss(log):
        resistivity, cm, g_pas = log.exp()
        c = 1e-5 * cm * area
        d = c + 1e-2 * g_pas * area + g_total / resistivity
        factors = clhines.torch.factor(solver, d, -g_axial / resistivity)
        v, kept = torch.zeros_like(area), []
        for _ in range(steps):
            v = factors.solve(c * v + current)
            kept.append(v[places])
        return ((torch.stack(kept) - recorded) ** 2).mean()

    exact = torch.log(torch.from_numpy(truth))
    scale = float((recorded**2).mean())
    assert float(loss(exact)) <= (1e-9) ** 2 * scale  # the two agree as elsewhere
    log = torch.log(torch.tensor([80.0, 1.3, 2e-4], dtype=torch.float64)).requires_grad_()
    optimiser = torch.optim.LBFGS([log], max_iter=80, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        value = loss(log)
        value.backward()
        return value

    optimiser.step(closure)
    np.testing.assert_allclose(log.exp().detach().numpy(), truth, rtol=1e-3)

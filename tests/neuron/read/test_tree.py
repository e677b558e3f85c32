"""Compare trees with extreme axial resistances, which round, with NEURON."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from neuron_scripts import by_both, make_section, with_values

import clhines

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron


def exact(sections, joints, steps):
    """Return voltages after backward Euler steps in 50 digits: sections, then joints.

    Each joint is a section, its end and the number of the junction.
    """
    size = len(sections) + 1 + max(number for *_, number in joints)
    v, dt = [Decimal(-65)] * size, Decimal(h.dt)
    for _ in range(steps):
        a, b = [[Decimal(0)] * size for _ in v], [Decimal(0)] * size
        for i, section in enumerate(sections):
            area, g = Decimal(section(0.5).area()) / 100, Decimal(section.g_pas)
            a[i][i] = area * (Decimal(section.cm) / 1000 / dt + g)
            b[i] = area * g * (Decimal(section.e_pas) - v[i])
        for i, end, number in joints:
            k, g = len(sections) + number, 1 / Decimal(sections[i](end or 0.5).ri())
            for one, other in ((i, k), (k, i)):
                a[one][one] += g
                a[one][other] -= g
                b[one] += g * (v[other] - v[one])
        for i in range(size):
            for j in range(i + 1, size):
                factor = a[j][i] / a[i][i]
                a[j] = [x - factor * y for x, y in zip(a[j], a[i], strict=True)]
                b[j] -= factor * b[i]
        for i in reversed(range(size)):
            b[i] = (b[i] - sum(a[i][k] * b[k] for k in range(i + 1, size))) / a[i][i]
        v = [x + y for x, y in zip(v, b, strict=True)]
    return v


def test_resistances_next_to_nothing_round_as_in_neuron():
    """Compare large sections with tiny resistances, joined by thin ones, as in ModelDB 64229.

    A matrix row rounds C/dt by eps times the axial conductance. Changes of v have that relative
    error, in NEURON and here: 1e-10 mV in the first step, which this network amplifies to 0.01 mV.
    """
    sections = [h.Section(name=f"near{k}") for k in range(5)]
    for section, share in zip(sections, (0.0136, 0.308, 0.6784, 0, 0), strict=True):
        section.L, section.diam, section.Ra = (50, 53 * share, 2e-6) if share else (1, 1, 5e5)
        section.insert("pas")
        section.g_pas, section.e_pas = 8e-6, -65
    sections[0].g_pas, sections[0].e_pas = 1e-3, -90
    sections[3].connect(sections[0](0), 0)
    sections[1].connect(sections[3](1), 0)
    sections[4].connect(sections[0](1), 0)
    sections[2].connect(sections[4](1), 0)
    ends = [(0, 0), (3, 0), (3, 1), (1, 0), (0, 1), (4, 0), (4, 1), (2, 0)]
    joints = [(*end, k // 2) for k, end in enumerate(ends)]
    h.load_file("stdrun.hoc")
    ratio = max(1e5 * h.dt / (s(0.5).ri() * s(0.5).area()) for s in sections)
    with localcontext() as context:
        context.prec = 50
        truth, errors = exact(sections, joints, 200), []
        for run in (h.continuerun, clhines.neuron.run):
            h.finitialize(-65)
            run(200 * h.dt)
            here = [Decimal(s(0.5).v) for s in sections]
            errors.append(max(abs(float(x - y)) for x, y in zip(here, truth, strict=False)))
    change = max(abs(float(x) + 65) for x in truth)
    assert change > 1
    assert ratio > 1e8
    assert max(errors) < 2.2e-16 * ratio * change
    for section in sections:
        h.delete_section(sec=section)


def test_resistances_that_neuron_rounds_below_0():
    """The last 3-D point has no diameter, so the resistance to the end is about -1e16 MOhm."""
    rng, cell = np.random.default_rng(0), make_section("tapered", "hh", nseg=3)
    for _ in range(1000):
        h.pt3dclear(sec=cell)
        for x, d in zip(np.cumsum(rng.uniform(1, 20, 5)), [*rng.uniform(1, 3, 4), 0], strict=True):
            h.pt3dadd(x, 0, 0, d, sec=cell)
        h.define_shape()
        if cell(1).ri() < 0:
            break
    assert cell(1).ri() < -1e12
    beyond = make_section("beyond", L=20, diam=2)
    beyond.connect(cell(1))
    beyond.insert("pas")
    _clamp = with_values(h.IClamp(cell(0.5)), delay=0.5, dur=1, amp=0.2)
    vectors = [h.Vector().record(s(0.5)._ref_v) for s in (cell, beyond)]
    h.load_file("stdrun.hoc")
    results = by_both(lambda: np.array(vectors), 3)
    assert np.ptp(results[0][0]) > 20
    # eps of 65 mV in each of 120 steps, amplified by the upstroke by about e^5
    assert np.abs(results[0] - results[1]).max() < 120 * 65 * 2.2e-16 * 148
    for section in (beyond, cell):
        h.delete_section(sec=section)

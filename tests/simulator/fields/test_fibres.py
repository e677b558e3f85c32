"""Axons of the literature: the double cable against NEURON and against published results."""

import numpy as np
import pytest

from clhines import HostMemoryError, InputError, Network, Simulation
from clhines.simulator.fields import fibres, point_potential

DT, STOP = 0.005, 2.0  # ms
PULSE = ([0.0, 0.1, 0.1, 0.2, 0.2, 9.0], [0.0, 0.0, -1.0, -1.0, 0.0, 0.0])
DIAMETER, NODES, CURRENT = 10.0, 11, 800.0  # µm, µA
# Rows of NEURON's matrix have 1e10 S/cm² beside 1e-6 of the myelin: see ROUNDED in
# tests/neuron/extracellular/outside_program.py; and the potential outside is off by the membrane's
# current over 1e9 S/cm².
CLOSE = 1e-9  # mV


def in_neuron(potential):
    """Return (steps, compartments) voltages of a double cable with `hh` at the nodes."""
    from neuron import h

    h.load_file("stdrun.hoc")
    row = fibres.TABLE[fibres.TABLE[:, 0] == DIAMETER][0]
    fibre, axon, node, apart, flut, lamellae = row.tolist()
    t, kept, sections = h.Vector(PULSE[0]), [], []
    for k, kind in enumerate(("N" + fibres.INTERNODE) * (NODES - 1) + "N"):
        section = h.Section(name=f"{kind}{k}")
        inner = {"N": node, "M": node}.get(kind, axon)
        outer = node if kind == "N" else fibre
        stin = (apart - 1 - 6 - 2 * flut) / 6
        section.L = {"N": 1.0, "M": 3.0, "F": flut, "S": stin}[kind]
        section.diam, section.Ra = outer, 70.0 * (outer / inner) ** 2
        section.cm = 2.0 * inner / outer
        width = 0.002 if kind in "NM" else 0.004
        section.insert("extracellular")
        section(0.5).xraxial[0] = 0.7e4 / (np.pi * ((inner / 2 + width) ** 2 - (inner / 2) ** 2))
        if kind == "N":
            section.insert("hh")
            section(0.5).xg[0], section(0.5).xc[0] = 1e10, 0.0
        else:
            section.insert("pas")
            leak = {"M": 1e-3}.get(kind, 1e-4)
            section(0.5).pas.g, section(0.5).pas.e = leak * inner / outer, -65.0
            section(0.5).xg[0], section(0.5).xc[0] = 1e-3 / (2 * lamellae), 0.1 / (2 * lamellae)
        if sections:
            section.connect(sections[-1](1), 0)
        kept.append(h.Vector(PULSE[1]).mul(CURRENT * float(potential[k])))
        kept[-1].play(section(0.5)._ref_e_extracellular, t, True)
        sections.append(section)
    h.cvode.active(0)
    h.usetable_hh, h.secondorder, h.celsius, h.dt = 0, 0, 18.5, DT
    h.finitialize(-65)
    rows = []
    for _ in range(round(STOP / DT)):
        h.fadvance()
        rows.append([section(0.5).v for section in sections])
    return np.array(rows)


@pytest.mark.neuron
@pytest.mark.parametrize("engine", ["reference", "steps"])
def test_the_double_cable_in_a_field_is_neurons(double_queue, engine):
    made = fibres.myelinated([DIAMETER], NODES)
    net = Network.from_arrays(**made.arrays)
    (_, nodes, _), (_, myelin, leak) = made.inserted
    net.celsius = 18.5
    net.insert("hh", at=nodes)
    net.insert("pas", at=myelin, g=leak["g"], e=-65.0)
    potential = point_potential(made.geometry, [100.0, 0.0, 1000.0])
    net.field(CURRENT * potential, PULSE)
    sim = Simulation(net, DT, queue=double_queue, engine=engine, v_init=-65.0)
    each = len(potential) // 3
    number = sim.record("v", np.arange(each))
    ours, theirs = sim.run(STOP)[number][1:], in_neuron(potential)
    assert theirs.max() > 10 and np.ptp(theirs[30]) > 5
    assert np.abs(ours - theirs).max() < CLOSE


@pytest.mark.core
@pytest.mark.parametrize("kind", ["myelinated", "senn", "unmyelinated"])
def test_refusals(kind):
    def make(nodes=3, length=900.0):
        options = {"length": length} if kind == "unmyelinated" else {}
        return getattr(fibres, kind)([10.0], nodes=nodes, **options)

    assert make().ranvier.shape == (1, 3)
    with pytest.raises(HostMemoryError, match="fibres of 10000000000 nodes take .* of the host"):
        make(10**10)
    if kind == "unmyelinated":
        with pytest.raises(InputError, match=r"length is \[1.0, 2.0\]; expected a finite number"):
            make(length=[1.0, 2.0])

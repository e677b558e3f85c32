"""Compare myelinated axons with NEURON; print the differences: ``axon_program.py CASE ENGINE``.

The structure is that of McIntyre, Richardson and Grill (J Neurophysiol 87:995-1006, 2002): nodes of
Ranvier, with MYSA, FLUT and STIN between them. Their layers are the periaxonal space (vext[0], with
xraxial along the axon) under the myelin (xc and xg), and the outside. The numbers are different.
"""

import json
import sys

import numpy as np
from neuron import h
from support.neuron_scripts import go_on, with_values

h.load_file("stdrun.hoc")
h("func outer() { return vext[1](0.5) }")
DT = 0.005
RATIO = 1e4  # axial conductance at a node over its membrane's conductance and C/dt
ROUNDED = 500 * 2.0**-53 * RATIO  # see outside_program.py
PARTS = {  # name -> length and diameter, µm, cm and layers of myelin, and MOhm/cm along the axon
    "node": (1.0, 3.2, 2.0, 0, 2e5),
    "mysa": (3.0, 3.2, 0.7, 110, 4e5),
    "flut": (40.0, 6.5, 1.4, 110, 3e4),
    "stin": (110.0, 6.5, 1.4, 110, 5e4),
}
INTERNODE = "mysa", "flut", "stin", "stin", "stin", "stin", "flut", "mysa"


def part(name, number, factor=1.0):
    length, diam, cm, *_ = PARTS[name]
    section = h.Section(name=f"{name}{number}")
    section.L, section.diam, section.cm, section.Ra, section.nseg = length, diam, cm, 80, 1
    section.insert("extracellular")
    layers(section, factor)
    if name == "node":
        section.insert("hh")
        for variable, times in (("gnabar", 20), ("gkbar", 4), ("gl", 10)):
            value = getattr(section(0.5).hh, variable)
            setattr(section(0.5).hh, variable, times * value)
    else:
        section.insert("pas")
        section(0.5).pas.g, section(0.5).pas.e = 1e-4 if name != "mysa" else 1e-3, -65
    return section


def layers(section, factor=1.0):
    name = section.name().rstrip("0123456789_")
    *_, myelin, along = PARTS[name]
    for segment in section:
        segment.xraxial[0], segment.xraxial[1] = along / factor, 1e9
        segment.xg[0] = factor * 1e-3 / (2 * myelin) if myelin else 1e10
        segment.xc[0] = factor * 0.1 / (2 * myelin) if myelin else 0
        segment.xg[1] = 1e9


def axon(nodes, number=0):
    names = ["node", *[*INTERNODE, "node"] * (nodes - 1)]
    made = [part(name, f"{number}_{k}") for k, name in enumerate(names)]
    for before, after in zip(made[:-1], made[1:]):
        after.connect(before(1))
    return made


def clamped(made):
    """A pulse inside the first node."""
    clamp = with_values(h.IClamp(made[0](0.5)), delay=0.1, dur=0.1, amp=1.5)
    return [clamp]


def stimulated(made):
    """A pulse from an electrode outside, 1 mm beside a node in the middle of the axon."""
    times, kept, x = h.Vector([0, 0.1, 0.1, 0.2, 0.2, 10]), [], 0.0
    middle = sum(s.L for s in made) / 2 - (0 if len(made) % 2 else 1)
    for section in made:
        distance = np.hypot(x + section.L / 2 - middle, 1000.0) * 1e-4  # cm
        size = -1.0 * 300 / (4 * np.pi * distance)  # mV for 1 mA in 300 Ohm cm
        values = h.Vector([0, 0, size, size, 0, 0])
        values.play(section(0.5)._ref_e_extracellular, times, 1)
        kept.append(values)
        x += section.L
    return [times, *kept]


CASES = {"inside": clamped, "outside": stimulated}


def outer(sections):
    results = []
    for section in sections:
        section.push()
        results.append(h.outer())
        h.pop_section()
    return results


def compared(case, engine):
    nodes, stop = (11, 1.3) if engine == "reference" else (15, 2.5)  # ms; NumPy is slow
    made = axon(nodes)
    kept = CASES[case](made)
    h.dt, h.celsius, h.steps_per_ms = DT, 15, 1 / DT
    names = ["v", "vext", "i_membrane"]
    if case == "inside":  # so that ends are model nodes, too
        h.CVode().use_fast_imem(1)
        names.append("i_membrane_")
    groups = [
        [h.Vector().record(getattr(s(0.5), f"_ref_{n}") if n != "vext" else s(0.5)._ref_vext[0])
         for s in made]
        for n in names
    ]  # fmt: skip
    results = []
    for way in ("neuron", "ours", "rounded"):
        for section in made:
            layers(section, 1 + ROUNDED if way == "rounded" else 1.0)
        h.finitialize(-65)
        for until in (0.15, 1.0, stop):  # in pieces, the first of them in the pulse
            go_on(until, engine if way == "ours" else None)
        rows = [np.array([v.as_numpy().copy() for v in group]) for group in groups]
        results.append([*rows, np.array(outer(made)), np.array([s(1).vext[0] for s in made])])
    assert kept
    neuron, ours, rounded = results
    off = [[float(np.abs(a - b).max()) for a, b in zip(neuron, other, strict=True)]
           for other in (ours, rounded)]  # fmt: skip
    at = [k for k, s in enumerate(made) if s.name().startswith("node")]
    crossed = [[int(np.argmax(row > 0)) for row in rows[0][at]] for rows in (neuron, ours)]
    apart = sum(s.L for s in made[: at[1]]) * 1e-3  # mm
    return {
        "steps": crossed,
        "peaks": [float(row.max()) for row in neuron[0][at]],
        "apart": apart,
        "off": dict(zip([*names, "outer", "ends"], off[0], strict=True)),
        "rounded": dict(zip([*names, "outer", "ends"], off[1], strict=True)),
        "outside": float(np.abs(neuron[1]).max()),
        "outer": float(np.abs(neuron[-2]).max()),
    }


if __name__ == "__main__":
    print(json.dumps(compared(*sys.argv[1:3])))

"""Models with LinearMechanisms, run by NEURON and by this package; prints how far they agree:
``linear_program.py CASE ENGINE``, a process of its own for each case."""

import json
import sys

import numpy as np
from neuron import h

import clhines
import clhines.neuron

h.load_file("stdrun.hoc")
KEPT = []


def section(name, nseg=3, mechanism="hh", diam=10):
    made = h.Section(name=name)
    made.nseg, made.L, made.diam = nseg, 40, diam
    made.insert(mechanism)
    KEPT.append(made)
    return made


def cells():
    """Soma and dendrite of two cells; the first gets a current."""
    found = []
    for k in range(2):
        soma, dendrite = section(f"soma{k}", diam=20 - 4 * k), section(f"dend{k}", 5, "pas", 2)
        dendrite.connect(soma(1))
        found += [soma, dendrite]
    clamp = h.IClamp(found[0](0.5))
    clamp.delay, clamp.dur, clamp.amp = 0.5, 100, 0.5
    KEPT.append(clamp)
    return found


def matrix(rows, sparse=False):
    made = h.Matrix(len(rows), len(rows), *([2] if sparse else []))
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            if value or not sparse:
                made.setval(i, j, value)
    return made


def linear(c, g, b, segments, y0=None, layers=None):
    """Make one of values; everything in it is kept, and returned by name."""
    made = {"c": matrix(c, sparse=True), "g": matrix(g), "y": h.Vector(len(b)), "b": h.Vector(b)}
    more = [] if y0 is None else [h.Vector(y0)]
    nodes = [h.SectionList([s.sec for s in segments]), h.Vector([s.x for s in segments])]
    if not segments:
        nodes = []
    nodes += [] if layers is None else [layers]
    own = h.LinearMechanism(made["c"], made["g"], made["y"], *more, made["b"], *nodes)
    KEPT.append((made, more, nodes, own))
    return made


def zeros(n):
    return np.zeros((n, n)).tolist()


def gap(here, there, g):
    """Join two segments by a conductance, µS, in S/cm² of each."""
    a, b = (100 / s.area() if s.area() else 1.0 for s in (here, there))
    return linear(zeros(2), [[g * a, -g * a], [-g * b, g * b]], [0, 0], [here, there])


def gaps():
    a, x, _b, y = cells()
    gap(x(0.1), y(0.9), 0.01)
    gap(a(0.5), y(0.5), 0.002)
    gap(a(0.5), a(1), 0.5)  # the same cell, and a node of one before
    return []


def circuit():
    """Unknowns with and without capacitances, at an end, with values of their own at the start."""
    a, _x, _b, y = cells()
    c = [[0, 0, 0, 0], [0, 1e-6, -1e-6, 0], [0, -2e-3, 2e-3, 0], [0, 0, 0, 0]]
    g = [[2e-4, 0, -2e-4, 0], [0, 2e-3, 0, 1e-3], [-2.0, 0, 2.5, 0.2], [0, -1.0, 0.3, 4.0]]
    layers = h.Vector(2)
    made = linear(c, g, [0.001, 0.05, -3.0, 1.0], [a(0.5), y(1)], [0, 0, -20, 3], layers)
    layers.fill(1)  # which NEURON does not read again
    alone = linear([[1.0, 0], [0, 0]], [[0.1, 0.2], [-1, 1]], [1, 0.5], [], [3, 0])
    made["more"] = alone["y"]
    return [made["y"]._ref_x[k] for k in range(4)] + [alone["y"]._ref_x[0]]


def clamp():
    """Two voltages that are given, by the currents that this takes: rows with a diagonal of 0."""
    a, _x, _b, y = cells()
    g = [[0, 0, 100 / a(0.5).area(), 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]
    made = linear(zeros(4), g, [0, 0, -40, -60], [a(0.5), y(1)])
    return [made["y"]._ref_x[2], made["y"]._ref_x[3]]


def late():
    """Elements that were 0 when NEURON laid its matrix out, which it then takes explicitly."""
    _a, x, _b, y = cells()
    made = linear(zeros(2), zeros(2), [0, 0], [x(0.5), y(0.5)])
    h.finitialize(-65)
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        made["g"].setval(i, j, 1e-3 if i == j else -1e-3)
    return []


def changed():
    """Values that change between pieces of a run, and within one by code of an event."""
    _a, x, _b, y = cells()
    made = linear(zeros(2), [[1e-3, -1e-3], [-1e-3, 1e-3]], [0, 0], [x(0.5), y(0.5)])

    def change():
        made["b"].x[1] = 0.01
        made["g"].setval(0, 0, 2e-3)

    def back():
        made["b"].fill(0)
        made["g"].setval(0, 0, 1e-3)

    KEPT.append(h.FInitializeHandler(back))
    KEPT.append(h.FInitializeHandler(lambda: h.CVode().event(2.3, change)))
    KEPT.append(lambda: made["b"].fill(0.02))
    return []


def branches():
    _a, x, _b, y = cells()
    x.rallbranch, y.rallbranch = 3, 2
    g = [[1e-3, -1e-3, 0], [-1e-3, 1e-3, 0.01], [0, -0.5, 1]]
    linear(zeros(3), g, [0.01, 0, 2], [x(0.5), y(1)])
    return []


def several():
    """One by a segment, one with a node twice, and the same nodes in both."""
    a, _x, _b, y = cells()
    parts = h.Matrix(1, 1), h.Matrix(1, 1), h.Vector(1), h.Vector([0.01])
    parts[0].setval(0, 0, 1e-4)
    parts[1].setval(0, 0, 2e-4)
    KEPT.append((parts, h.LinearMechanism(*parts, 0.5, sec=a)))
    g = [[3e-4, -1e-4, 0], [-1e-4, 2e-4, 1e-4], [0, 1e-4, 1e-3]]
    linear(zeros(3), g, [0, 0.2, 0], [a(0.5), y(0.5), a(0.5)])
    return []


def outside(count=2):
    """Nodes inside, in each layer around them, at ends, and of a section without layers."""
    h.nlayer_extracellular(count)
    a, x, b, y = cells()
    random = np.random.default_rng(4)
    for section in (a, x, b):
        section.insert("extracellular")
        for segment, layer in ((s, k) for s in section for k in range(count)):
            segment.xg[layer] = 10 ** random.uniform(-4, -1)
            segment.xraxial[layer] = 10 ** random.uniform(1, 4)
            segment.xc[layer] = random.uniform(0, 1)
    segments = [a(0.5), b(0.5), x(0.1), b(1), y(0.5), a(0.9), b(0.1), a(0), x(0.5)]
    layers = h.Vector([1, 1, 0, 1, 0, count, count, 1, count - 1])
    size = len(segments) + 1  # with an unknown, without a capacitance
    m = random.normal(size=(size, size))
    c = np.diag(np.r_[1e-4 * random.uniform(0, 1, size - 1), 0])
    made = linear(c, 2e-3 * m @ m.T, 0.02 * random.normal(size=size), segments, [0] * size, layers)
    return [made["y"]._ref_x[k] for k in (0, 1, size - 1)] + [
        s._ref_vext[k] for section in (a, x, b) for s in section for k in range(count)
    ]


def outside_three():
    return outside(3)


def floating():
    """Layers that the equations alone hold, as a bath: next to nothing else leads to ground."""
    a, x, b, y = cells()
    for section in (a, x, b, y):
        section.insert("extracellular")
        for segment, layer in ((s, k) for s in section for k in range(2)):
            segment.xg[layer], segment.xraxial[layer] = 1e-12, 10.0 ** (3 + 5 * layer)
    segments = [s for section in (a, x, b, y) for s in section]
    n = len(segments)
    g = 1e-3 * np.eye(n)
    for k in range(n // 2):  # and joins both cells
        g[k, k] += 1
        g[k, k + n // 2] -= 1
        g[k + n // 2, k] -= 0.5
        g[k + n // 2, k + n // 2] += 0.5
    linear(zeros(n), g, [0] * n, segments, None, h.Vector(n).fill(1))
    return [s._ref_vext[0] for s in segments]


class Plain:
    """Parts of an equation of the middle of a section; others in their place make it refused."""

    def __init__(self, soma, **others):
        y, b, x = h.Vector(1), h.Vector([0.01]), h.Vector([0.5])
        self.parts = {"c": matrix([[0]], True), "g": matrix([[1e-4]]), "y": y, "b": b}
        self.parts |= {"where": h.SectionList([soma]), "x": x} | others
        if "called" in others:
            self.parts = {"called": self.parts.pop("called"), **self.parts}
        self.made = h.LinearMechanism(*self.parts.values())


def refused(engine):
    """Print what is said of each case; nothing of one that runs."""
    soma, found = section("soma"), {}

    def said(case, kept=None, **options):
        h.finitialize(-65)
        found[case] = "; ".join(str(r) for r in clhines.neuron.check())
        if found[case]:
            return
        try:
            clhines.neuron.run(0.2, **{"engine": engine} | options)
        except clhines.InputError as error:
            found[case] = str(error)

    def recorder(y):
        y.record(soma(0.5)._ref_v)
        return y

    said("none", Plain(soma))
    said("epochs", Plain(soma), engine="epochs")
    said("callback", Plain(soma, called=print))
    said("none there", Plain(soma, layers=h.Vector([1])))
    said("records", Plain(soma, y=recorder(h.Vector(1))))
    plain = Plain(soma)
    h.finitialize(-65)
    plain.parts["b"].resize(2)
    found["sizes"] = "; ".join(str(r) for r in clhines.neuron.check())
    plain.parts["b"].resize(1)
    del plain.parts["c"]
    found["gone"] = "; ".join(str(r) for r in clhines.neuron.check())
    del plain
    plain, times, values = Plain(soma), h.Vector([0, 1]), h.Vector([0, 1])
    values.play(plain.parts["b"]._ref_x[0], times, 1)
    said("played")
    values.play_remove()
    h("objref own")
    h.own = plain.parts["b"]
    h("proc advance() { fadvance() own.x[0] = t }")
    said("advance")
    h("proc advance() { fadvance() }")
    h.CVode().use_fast_imem(True)
    current = h.Vector().record(soma(0.5)._ref_i_membrane_)
    said("membrane", current)
    del current
    h.CVode().use_fast_imem(False)
    h.finitialize(-65)
    h.secondorder = 2
    found["second"] = "; ".join(str(r) for r in clhines.neuron.check())
    h.secondorder = 0
    soma.insert("extracellular")
    said("outside")
    del plain
    soma(0.5).xg[0] = 0.01
    plain = Plain(soma, layers=h.Vector([1]))
    said("in a layer", plain)
    del plain
    plain = Plain(soma)
    inside = h.Vector().record(plain.parts["y"]._ref_x[0])
    said("inside", inside)
    del inside
    print(json.dumps(found))


def run(case, engine):
    references = globals()[case]()
    h.dt, h.celsius = 0.025, 6.3
    segments = [s for k in KEPT if hasattr(k, "nseg") for s in k.allseg()]
    vectors = [h.Vector().record(r) for r in (*(s._ref_v for s in segments), *references)]
    solved = [v for kept in KEPT if isinstance(kept, tuple) for v in [kept[0]["y"]]
              if isinstance(kept[0], dict)] if case != "several" else []  # fmt: skip

    def turn(advance):
        h.finitialize(-65)
        advance(2)
        if case == "changed":
            KEPT[-1]()
        for _ in range(3):
            h.fadvance()
        advance(8)
        return np.array(vectors), np.array([x for y in solved for x in y])

    expected, ends = turn(h.continuerun)
    differences = []
    for _ in range(2):  # anew, and kept
        found, own = turn(lambda t: clhines.neuron.run(t, engine=engine))
        assert found.shape == expected.shape
        differences += [np.abs(found - expected).max(), np.abs(own - ends).max(initial=0)]
    moved = np.ptp(expected, axis=1)
    print(json.dumps({
        "steps": expected.shape[1], "largest": np.abs(expected).max(),
        "moved": np.sort(moved)[2], "difference": max(differences),
    }))  # fmt: skip


if __name__ == "__main__":
    case, engine = sys.argv[1:]
    refused(engine) if case == "refused" else run(case, engine)

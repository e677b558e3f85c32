"""NEURON's sections from ours, and impedances, to compare with it."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

neuron = pytest.importorskip("neuron", reason="NEURON is not installed: pip install neuron")
h = neuron.h
h.load_file("stdrun.hoc")  # lambda_f


def neuron_sections(cable):
    """NEURON's sections from ours: points, connections, numbers of segments, membrane."""
    ours = cable.sections
    resistivity, capacitance = (np.broadcast_to(a, ours.num_sections) for a in (cable.Ra, cable.cm))
    result = []
    for s in range(ours.num_sections):
        section = h.Section(name=f"section{s}")
        for point in ours.points[ours.offsets[s] : ours.offsets[s + 1]].tolist():
            section.pt3dadd(*point)
        section.Ra, section.cm = float(resistivity[s]), float(capacitance[s])
        if s > 0:
            section.connect(result[ours.parent[s]](float(ours.parent_x[s])), 0)
        section.insert("pas")
        result.append(section)
    return result


def set_segments(sections, nseg, **of_pas):
    """Cut sections, and set variables of `pas`; return all segments."""
    for section, count in zip(sections, nseg.tolist(), strict=True):
        section.nseg = count
        for segment in section:
            for name, value in of_pas.items():
                setattr(segment.pas, name, value)
    return [segment for section in sections for segment in section]


def input_impedance(at, frequency=0):
    """Return NEURON's impedance at a segment, MΩ."""
    h.finitialize(-65)
    impedance = h.Impedance()
    impedance.loc(at.x, sec=at.sec)
    impedance.compute(frequency)
    return impedance.input(at.x, sec=at.sec)


def our_impedance(cable, g_pas, frequency=0):
    """Return the impedance at the soma, MΩ, by SciPy's sparse solver of the complex system."""
    system = cable.system(1e15, g_pas=g_pas)
    child = np.flatnonzero(cable.parent >= 0)
    up, u = cable.parent[child], system.u[child]
    n, every = cable.num_nodes, np.arange(cable.num_nodes)
    diagonal = system.d + 2j * np.pi * frequency * 1e-3 * cable.capacitance
    rows, columns = np.concatenate([every, child, up]), np.concatenate([every, up, child])
    matrix = scipy.sparse.csc_matrix((np.concatenate([diagonal, u, u]), (rows, columns)))
    return abs(scipy.sparse.linalg.spsolve(matrix, np.eye(1, n, cable.soma)[0])[cable.soma])


def d_lambda_nseg(section):
    """Return the number of segments by the d_lambda rule of NEURON's CellBuilder."""
    return int((section.L / (0.1 * h.lambda_f(100, sec=section)) + 0.9) / 2) * 2 + 1

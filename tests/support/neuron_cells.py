"""NEURON's sections from ours, to compare with it."""

import numpy as np
import pytest

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


def d_lambda_nseg(section):
    """Return the number of segments by the d_lambda rule of NEURON's CellBuilder."""
    return int((section.L / (0.1 * h.lambda_f(100, sec=section)) + 0.9) / 2) * 2 + 1

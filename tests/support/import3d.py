"""Cells by NEURON's SWC importer, to compare with `clhines.simulator.cells.cable`."""

import numpy as np
from neuron_cells import d_lambda_nseg, h

from clhines.simulator.cells.samples import from_soma

h.load_file("import3d.hoc")


class Cell:
    """Holds the sections that the importer makes; `all` lists them, `soma` those of type 1."""


def imported(path):
    """Import a file as a `Cell`."""
    reader = h.Import3d_SWC_read()
    reader.quiet = 1
    reader.input(str(path))
    cell = Cell()
    h.Import3d_GUI(reader, False).instantiate(cell)
    return cell


def deleted(cell):
    for section in cell.all:
        h.delete_section(sec=section)


def passive(cell, ra, cm, g, nseg=d_lambda_nseg):
    for section in cell.all:
        section.Ra, section.cm = ra, cm
        section.nseg = nseg(section)
        section.insert("pas")
        for segment in section:
            segment.pas.g = g


def rewritten(morphology, path):
    """Write the cell rooted at its soma, depth first; siblings in the order of their ids."""
    parent, _ = from_soma(morphology)
    below = {}
    for i in np.argsort(-morphology.id).tolist():
        below.setdefault(int(parent[i]), []).append(i)
    number, lines, stack = {-1: -1}, [], list(below[-1])
    while stack:
        i = stack.pop()
        number[i] = len(number)
        stack += below.get(i, [])
        x, y, z = morphology.xyz[i].tolist()
        up, radius = number[int(parent[i])], float(morphology.radius[i])
        lines.append(f"{number[i]} {morphology.type[i]} {x!r} {y!r} {z!r} {radius!r} {up}")
    path.write_text("\n".join(lines) + "\n")
    return path

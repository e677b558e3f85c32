"""Cells that the command line names."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import clhines
from clhines.cells import cable, swc, synthetic
from clhines.cli.progress import bar
from clhines.errors import InputError


def read_files(names: Sequence[str], arguments: argparse.Namespace) -> list[clhines.Morphology]:
    """Read the files; counts the samples that were repaired."""
    cells: list[clhines.Morphology] = []
    for name in bar(names, "reading"):
        found = swc.read_swc(name, roots=arguments.roots, repair=arguments.repair)
        cells += found if isinstance(found, list) else [found]
    arguments.repaired = sum(len(cell.repaired) for cell in cells)
    return cells


def read_cells(arguments: argparse.Namespace) -> list[cable.Cable]:
    """Read and discretise each file; the built-in sample when none is named."""
    cells = read_files(arguments.files, arguments) or synthetic.sample_cells()
    if arguments.files and arguments.cells and arguments.cells < len(cells):
        raise InputError(
            f"--cells {arguments.cells} is less than the {len(cells)} cells in the files; expected "
            "at least as many"
        )
    each = bar(cells, "discretising")
    return [cable.discretise(cell, max_length=arguments.max_length) for cell in each]

"""Synthetic cells: files in the package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clhines.simulator.cells.morphology import Morphology
from clhines.simulator.cells.swc import read_swc


def sample_cells() -> list[Morphology]:
    """Read the six built-in cells, for users without a file.

    Returns
    -------
    list of Morphology
        Random cells of straight branches, of different shapes with a few hundred samples each; in
        µm; names ``sample-0`` to ``sample-5``.
    """
    paths = [Path(__file__).with_name(f"sample-{k}.swc") for k in range(6)]
    return [replace(read_swc(path), name=path.stem) for path in paths]


def sample_swc() -> list[Path]:
    """Return the paths to the two SWC files in the package.

    Returns
    -------
    list of pathlib.Path
        ``pyramidal.swc``, 519 samples with an apical dendrite and an axon, and ``basket.swc``, 178
        samples. Both are synthetic. With ``hh`` in the soma, ``gnabar`` 0.5 and ``gkbar`` 0.1
        S/cm², and ``pas`` elsewhere, they fire during a current of 0.2 to 1 nA.
    """
    return [Path(__file__).with_name(name) for name in ("pyramidal.swc", "basket.swc")]

"""Copies of a network in one: what `Simulation.branch` simulates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clhines.forest import Forest
from clhines.network.groups import Group
from clhines.network.network import Network
from clhines.network.plasticity import STDP
from clhines.network.structure import Structure
from clhines.network.wiring import Wiring


def structure_of_copies(structure: Structure, count: int) -> Structure:
    """Return the structure of so many copies, one after another."""
    forest, turns = structure.forest, structure.turns
    cells, n = forest.num_cells, forest.num_nodes
    bounds = forest.cell_offsets
    parents = [
        np.where(p < 0, -1, p - first)
        for p, first in zip(np.split(forest.parent, bounds[1:-1]), bounds[:-1], strict=True)
    ]
    different = len(structure.area) if turns == cells else cells
    again = different if cells % different == 0 else cells  # cells until they come again
    in_turn = range(len(structure.area)) if turns % len(structure.area) == 0 else range(turns)

    def taken(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [arrays[k % len(arrays)] for k in in_turn]

    cables = structure.cables
    return Structure(
        forest=Forest.repeated(parents[:again], cells * count),
        soma=(structure.soma + n * np.arange(count)[:, None]).reshape(-1),
        cables=tuple(cables[k % len(cables)] for k in in_turn) if cables else (),
        turns=turns * count,
        area=taken(structure.area),
        capacitance=taken(structure.capacitance),
        g_axial=taken(structure.g_axial),
        g_total=taken(structure.g_total),
        in_soma=taken(structure.in_soma),
    )


def fill(
    copies: Network, network: Network, groups: Sequence[Group], wiring: Wiring, rule: STDP | None
) -> list[Group]:
    """Give copies of a network everything that is in it; return groups in the order of those given.

    Parameters
    ----------
    copies : Network
        Of `structure_of_copies`.
    network : Network
    groups, wiring
        Of the network, with all changes; several groups may be pieces of one that takes no events.
    rule : STDP or None
    """
    count = copies.num_cells // network.num_cells
    n = network.forest.num_nodes
    copies.celsius = network.celsius
    threshold = network.threshold
    copies.threshold = np.tile(threshold, count) if np.ndim(threshold) else threshold
    found = []
    for group in groups:
        nodes = (group.nodes + n * np.arange(count)[:, None]).reshape(-1)
        values = {
            k: np.tile(v, count) if isinstance(v, np.ndarray) else v
            for k, v in group.parameters.items()
        }
        put = copies.insert if group.mechanism.kind == "density" else copies.add
        found.append(put(group.mechanism, nodes, **values))
    of_number = {group.number: (group, put) for group, put in zip(groups, found, strict=True)}
    for k in range(count):
        for source, number, instance, rows, delay, plastic in wiring.given:
            if len(number):
                one, target = of_number[int(number[0])]
                index = instance + k * len(one)
                change = rule if plastic.any() else None
                cells = source + k * network.num_cells
                copies.connect(cells, target, index, rows, delay, change)
        for number, instance, times, weight in wiring.outside:
            if len(number):
                one, target = of_number[int(number[0])]
                copies.event(target, instance + k * len(one), times, weight)
    return found

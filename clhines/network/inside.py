"""Inside a network: what the other modules here need of it, and users do not."""

from __future__ import annotations

from typing import Any

import numpy as np

from clhines.errors import InputError
from clhines.network.groups import Group, as_parameter
from clhines.network.structure import Places, Structure
from clhines.quantities import as_numbers


class Inside:
    added: Any  # an `Added`; these modules know this one
    wiring: Any  # a `Wiring`
    copied: Any = None  # a `Copied` or None
    of_copies = False  # whether its cells are those of another network, several times

    def __init__(self, structure: Structure) -> None:
        self.structure, self.places = structure, Places(structure)
        self.num_cells = structure.forest.num_cells
        self.groups, self.frozen = list[Group](), False
        self.threshold: float | np.ndarray = 10.0
        self.celsius: float | None = None
        self.gids: np.ndarray | None = None

    def check_not_frozen(self, what: str) -> None:
        if self.frozen:
            raise InputError(
                f"{what}: the network is frozen, as a Simulation was made of it; expected changes "
                "before that, Simulation.set(), or a new Network"
            )

    def freeze(self) -> None:
        self.frozen = True
        if isinstance(self.threshold, np.ndarray):
            self.threshold.setflags(write=False)
        for group in self.groups:
            group.freeze()

    def parameter(
        self, mechanism: str, name: str, value: object, nodes: np.ndarray, unit: str | None = None
    ) -> float | np.ndarray:
        what = f"{mechanism}: {name}"
        value = as_numbers(what, value, unit)
        if not len(nodes) or nodes[0] >= 0:  # artificial cells have no nodes
            value = self.places.resolved(what, value, nodes, unit)
        return as_parameter(mechanism, name, value, len(nodes))

    def connect(self, source: np.ndarray, target: Group, *given: Any) -> Any:
        self.check_not_frozen("connect()")
        self.wiring.check_target(target)
        return self.wiring.connect(source, target, *given)


def inside(network: Any) -> Inside:
    found: Inside = network._inside
    return found

"""CurrentModel: the network of a simulation as arrays, with all that `set` has changed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from clhines.model.compiling import compile, with_values
from clhines.model.instances import ConstantSums
from clhines.model.model import Model
from clhines.network.changes import Changes
from clhines.network.inside import inside
from clhines.network.network import Network
from clhines.simulate.state import saved as saved_states


class Outdated(IntEnum):
    """What was changed after a model was compiled."""

    NOTHING, VALUES, WIRING = range(3)  # WIRING: connections or events, and perhaps values


class CurrentModel:
    """The network of a simulation as arrays; `known`, compiled last, may be outdated."""

    def __init__(self, network: Network, settings: Mapping[str, Any]) -> None:
        self.network, self.settings, self.changes = network, dict(settings), Changes()
        self.known, self._outdated = compile(network, **settings), Outdated.NOTHING

    @property
    def now(self) -> Model:
        """The model with all changes; read-only."""
        if self._outdated:
            self.take(self.compiled())
        return self.known

    def compiled(self) -> Model:
        """Return a new model with all changes."""
        net, settings = self.network, self.settings
        if self.known.alike is None and self._outdated < Outdated.WIRING:
            values = settings["v_init"], self.changes, self.sums
            return with_values(net, self.known, net.groups, *values)
        return compile(net, **settings, changes=self.changes)

    def take(self, model: Model) -> None:
        """Go on with a model that has all changes."""
        self.known, self._outdated = model, Outdated.NOTHING
        _protect(model)

    def outdate(self, what: Outdated) -> None:
        """Note that something was changed."""
        self._outdated = max(self._outdated, what)
        vars(self).pop("signature", None)

    @cached_property
    def sums(self) -> ConstantSums:
        """Sums of the conductances and currents of constant mechanisms."""
        net = self.network
        return ConstantSums(
            net.groups, net.forest, net.area, inside(net).structure.whole("g_total")
        )

    @cached_property
    def signature(self) -> str:
        """Digest of everything the arrays of a saved state depend on."""
        return saved_states.signature(self.now)


def _protect(model: Model) -> None:
    """Make the arrays of a model read-only: what is written there would act nowhere."""
    owners: list[object] = [model, *model.kinds, model.connections, model.events]
    arrays = [a for owner in owners for a in vars(owner).values()]
    arrays += [a for kind in model.kinds for a in vars(kind).get("parameters", {}).values()]
    for array in arrays:
        if isinstance(array, np.ndarray):
            array.setflags(write=False)

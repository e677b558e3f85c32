"""NEURON's `extracellular`: outside potentials, which drive currents along cells.

With NEURON's default xg, xc and xraxial the node outside of a segment has the potential
e_extracellular after each step, to about 1e-9 mV: a membrane current of 1 mA/cm² through two layers
of 1e9 S/cm² causes 2e-9 mV. So the outside potential is prescribed. The membrane voltage then obeys
the equations of a cell without the mechanism, plus one current into each node: axial conductances
times the differences of outside potentials between its neighbours and the node. At a node without
membrane the outside potential is the mean of the neighbours' potentials, weighted by 1/length of
their segments, because there only the outside path along the section fixes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clhines.core.arrays import offsets, ranges
from clhines.neuron.convert import Rejected, RejectedError, reject
from clhines.neuron.extracellular.drivers import (
    POTENTIAL,
    Driver,
    OutsidePointers,
    copy_of,
    pointing_of,
)
from clhines.neuron.extracellular.layers import OWN
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.read.catalogue import OUTSIDE
from clhines.neuron.read.contents import Contents, Instances, Things
from clhines.neuron.read.places import MemoryPlaces, Variable
from clhines.neuron.read.played import Player
from clhines.neuron.read.tree import Tree, TreeLayers
from clhines.simulator.mechanisms import Mechanism

HELD = (*OWN, POTENTIAL)
_LAYERS = "layers of its own"
_NONE = 1e-6  # mV: rounding error in a potential that is 0


@dataclass(frozen=True, eq=False)
class Coupling:
    """Axial currents into nodes that are driven by extracellular potentials.

    Each current, nA, is the conductance `g`, µS, times the potential, mV, of instance `of` of
    extracellular.
    """

    node: np.ndarray
    of: np.ndarray
    g: np.ndarray


def coupling_of(tree: Tree, nodes: np.ndarray) -> Coupling:
    """Return the axial currents that potentials outside `nodes` drive, a node per instance."""
    row, of, weight = _potentials(tree, nodes)
    first = offsets(np.bincount(row, minlength=tree.num_nodes))
    below = np.flatnonzero(tree.parent >= 0)
    above, g = tree.parent[below], tree.g_axial[below]
    node, other = np.concatenate([below, below, above, above]), [above, below, below, above]
    source, g = np.concatenate(other), np.concatenate([g, -g, g, -g])
    count = first[source + 1] - first[source]
    at = ranges(first[source], count)
    key = np.repeat(node, count) * len(nodes) + of[at]
    keys, inverse = np.unique(key, return_inverse=True)
    total = np.bincount(inverse, np.repeat(g, count) * weight[at], len(keys))
    return Coupling(keys // len(nodes), keys % len(nodes), total)


def _potentials(tree: Tree, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the potential outside each node as a weighted sum over instances of extracellular.

    Three arrays, (k,), have an entry per term of a sum: the node, ascending; the instance; the
    weight. `nodes` has the node of each instance.
    """
    count, owner = tree.num_nodes, tree.owner
    section, instance = np.full(count, -1), np.full(count, -1)
    section[tree.inner_numbers] = owner[tree.inner_numbers]
    instance[nodes] = np.arange(len(nodes))
    has = np.zeros(len(tree.nseg) + 1, bool)
    has[section[nodes]] = True
    below = np.flatnonzero(tree.parent >= 0)
    above = tree.parent[below]
    end, beside = np.concatenate([below, above]), np.concatenate([above, below])
    chosen = (section[end] < 0) & has[owner[end]] & (instance[beside] >= 0)
    end, beside = end[chosen], beside[chosen]
    length = np.array([s.L for s in tree.sections]) / tree.nseg
    weight = 1 / length[section[beside]]
    weight /= np.bincount(end, weight, count)[end]
    row = np.concatenate([nodes, end])
    order = np.argsort(row, kind="stable")
    of = np.concatenate([instance[nodes], instance[beside]])
    return row[order], of[order], np.concatenate([np.ones(len(nodes)), weight])[order]


class Outside:
    """The extracellular potentials in a model, and all variables and mechanisms that use them."""

    def __init__(self, tree: Tree, contents: Contents, played: Sequence[Player]) -> None:
        self._tree, self.instances = tree, contents.outside
        potential = (OUTSIDE, POTENTIAL)
        own = [p for p in played if (p.variable.owner, p.variable.name) == potential]
        self.played = {player.variable.number for player in own}
        self._not_finite = [p.variable.number for p in own if not np.isfinite(p.y).all()]
        self.acts = bool(self.played) or self._differs()  # a potential is or may become non-zero
        self.pointing = dict[str, OutsidePointers]()  # by mechanism
        self.drivers = dict[str, Driver]()

    def _differs(self) -> bool:
        if self.instances is None:
            return False
        before = (abs(segment.vext[0]) > _NONE for segment in self.instances.things)
        return bool(self.potentials().any()) or any(before)

    def potentials(self) -> np.ndarray:
        """Return e_extracellular by instance of extracellular, (n,) float64, mV."""
        if self.instances is None:
            return np.zeros(0)
        return self.instances.values(POTENTIAL)

    def coupling(self) -> Coupling:
        assert self.instances is not None
        nodes, layers = self.instances.nodes, self._tree.layers
        if layers is None:
            return coupling_of(self._tree, nodes)
        last = layers.at(nodes)  # its ground is prescribed
        return Coupling(last, np.arange(len(last)), layers.g[last])

    def find_drivers(
        self, memory: NeuronMemory, places: MemoryPlaces, every: Mapping[str, Instances]
    ) -> list[Rejected]:
        """Make POINTERs to extracellular plain variables, store `drivers`, return rejections."""
        rejected = list[Rejected]()
        for name, instances in every.items() if self.instances is not None else ():

            def variable(
                k: int, pointer: str, things: Things = instances.things
            ) -> Variable | None:
                place = memory.known_place(things[k], pointer)
                return places.find(place) if place is not None and place.row else None

            if "POINTER" not in instances.entry.text:
                continue
            pointing = pointing_of(instances, variable)
            if pointing is None:
                continue
            self.pointing[name] = pointing
            if pointing.refused:
                rejected.append(Rejected(name, pointing.refused))
            elif pointing.sets:
                try:
                    copy = copy_of(instances.entry, pointing)
                    self.drivers[name] = Driver(copy, pointing.of)
                except RejectedError as error:
                    rejected += error.rejected
            ranged = (pointing.sets,) if pointing.sets else ()
            changes = replace(instances.entry.changes, unpointed=pointing.every, ranged=ranged)
            instances.entry = replace(instances.entry, changes=changes)
        driven = {k for driver in self.drivers.values() for k in driver.of.tolist()}
        self.acts |= bool(self.drivers)
        count = sum(len(driver.of) for driver in self.drivers.values())
        if self.played & driven or len(driven) < count:
            rejected.append(reject(OUTSIDE, "neuron.potential-set-twice", potential=POTENTIAL))
        return rejected

    def rejected(
        self,
        every: Mapping[str, Instances],
        mechanisms: Mapping[str, Mechanism],
        recorded: Sequence[Variable],
        order: int,
        transfers: bool,
    ) -> list[Rejected]:
        """List the unsupported uses of extracellular by `mechanisms` and `recorded` variables.

        `order` is NEURON's `secondorder`; `transfers`: whether the network has gap junctions.
        """
        instances, layers = self.instances, self._tree.layers
        if instances is None:
            return []
        rejected = [*self._parameters(instances), *self._records(recorded)]
        if transfers:
            rejected.append(reject(OUTSIDE, "neuron.source-var-extracellular"))
        if (self.acts or layers is not None) and order:
            which = f"{POTENTIAL} other than 0" if layers is None else f"{OUTSIDE} with {_LAYERS}"
            rejected.append(reject(OUTSIDE, "neuron.outside-secondorder", what=which, order=order))
        for k in [*np.flatnonzero(~np.isfinite(self.potentials())), *self._not_finite][:1]:
            words = {"potential": POTENTIAL, "section": instances.things[k].sec}
            rejected.append(reject(OUTSIDE, "neuron.potential-not-finite", **words))
        for name in sorted(mechanisms.keys() & self.drivers.keys()):
            rejected += self.drivers[name].refused(name, mechanisms[name])
        for name in sorted(mechanisms.keys() & self.pointing.keys()):
            kept = {q.public or q.name for q in mechanisms[name].program.states}
            for one in sorted(kept & self.pointing[name].unknown):
                rejected.append(reject(name, "neuron.variable-depends-on-i-membrane", one=one))
        if layers is None:
            return rejected + self._beside(instances, every, mechanisms)
        return rejected + self._beside_layers(instances, layers, every, mechanisms, recorded)

    def _beside(
        self,
        instances: Instances,
        every: Mapping[str, Instances],
        mechanisms: Mapping[str, Mechanism],
    ) -> list[Rejected]:
        """List unsupported mechanisms at nodes whose extracellular potential is prescribed."""
        at, rejected = instances.nodes, list[Rejected]()
        ends = np.setdiff1d(_potentials(self._tree, at)[0], at)
        for name, mechanism in mechanisms.items():
            program, nodes = mechanism.program, every[name].nodes
            if program.electrode:
                of_v = any(a.role == "v" for each in program.blocks.values() for a in each)
                if self.acts and of_v and np.isin(nodes, np.append(ends, at)).any():
                    rejected += [reject(name, "neuron.electrode-depends-on-v", potential=POTENTIAL)]
            elif "current" in program.blocks and np.isin(nodes, ends).any():
                rejected.append(reject(name, "neuron.extracellular-current-at-end"))
        return rejected

    def _beside_layers(
        self,
        instances: Instances,
        layers: TreeLayers,
        every: Mapping[str, Instances],
        mechanisms: Mapping[str, Mechanism],
        recorded: Sequence[Variable],
    ) -> list[Rejected]:
        """List unsupported mechanisms and records at nodes with extracellular layers."""
        rejected = list[Rejected]()
        for name, mechanism in mechanisms.items():
            roles = {a.role for arguments in mechanism.program.blocks.values() for a in arguments}
            nodes = every[name].nodes
            inside = bool((layers.around[nodes[nodes >= 0]] >= 0).any())
            if mechanism.program.electrode and inside and roles & {"v", "ion", "pointer"}:
                what = f"an ELECTRODE_CURRENT that depends on v, ions or POINTERs, in {OUTSIDE}"
                rejected.append(
                    reject(name, "neuron.electrode-in-layers", what=what, layers=_LAYERS)
                )
        seen = [v.number for v in recorded if (v.owner, v.name) == (OUTSIDE, "i_membrane")]
        whole = [v.number for v in recorded if (v.owner, v.name) == ("", "i_membrane")]
        if self._at_joints(layers.around)[[*instances.nodes[seen], *whole]].any():
            rejected.append(reject(OUTSIDE, "neuron.vector-record-i-membrane-at-joint"))
        return rejected

    def _at_joints(self, around: np.ndarray) -> np.ndarray:
        """Whether each node has layers (`around` >= 0) unlike a neighbour, or the reverse, (n,)."""
        tree, is_joint = self._tree, np.zeros(self._tree.num_nodes, bool)
        inner = ~np.isin(np.arange(len(around)), around)
        child = np.flatnonzero(inner & (tree.parent >= 0))
        pairs = np.stack([child, tree.parent[child]])
        first, second = around[pairs] >= 0
        is_joint[pairs[:, first != second]] = True
        return is_joint

    def _parameters(self, instances: Instances) -> list[Rejected]:
        rejected, layered = list[Rejected](), self._tree.layers is not None
        for name, held in OWN.items():
            least = np.nextafter(0, 1) if name == "xraxial" else 0.0
            for layer in range(instances.entry.ranges[name]):
                values = instances.values(name, layer)
                fits = (values >= least) & (values < np.inf) if layered else values == held
                other = np.flatnonzero(~fits)
                if len(other):
                    section = instances.things[int(other[0])].sec
                    shown = f"in section {section}: {name}[{layer}] = {values[other[0]]:g}"
                    bound = "more than 0" if least else "0 or more"
                    bound = bound if layered else f"NEURON's own, {held:g}, or two layers"
                    words = {"outside": OUTSIDE, "layers": _LAYERS, "shown": shown}
                    way_out = f"expected {bound}"
                    rejected.append(reject("", "neuron.extracellular-layers", way_out, **words))
                    break
        return rejected

    def _records(self, recorded: Sequence[Variable]) -> list[Rejected]:
        names = {v.name for v in recorded if v.owner == OUTSIDE} - {*OWN, "i_membrane"}
        if self._tree.layers is not None:
            names -= {"vext"}
        if not self.played and not self.drivers:
            names -= {POTENTIAL, "vext"}
        way_out = f"expected i_membrane, or {POTENTIAL} and vext that stay"
        rejected = [
            reject(OUTSIDE, "neuron.vector-record", way_out, name=name) for name in sorted(names)
        ]
        id_ = "neuron.vector-record-depends-on-i-membrane"
        for name, pointing in self.pointing.items():
            owned = [v.name for v in recorded if v.owner == name]
            rejected += [reject(name, id_, name=one) for one in owned if one in pointing.unknown]
        return list(dict.fromkeys(rejected))

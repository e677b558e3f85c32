"""NEURON's `extracellular`: potentials outside of segments, which drive currents along cells.

With NEURON's own xg, xc and xraxial the node outside of a segment has the potential e_extracellular
after each step, to about 1e-9 mV: a membrane's current of 1 mA/cm² through two layers of 1e9 S/cm²
makes 2e-9 mV. So the potential outside is given, and the membrane's voltage obeys the equations of
a cell without the mechanism, with one more current into each node: that of the differences of
potentials between its neighbours and it. At nodes without membrane nothing holds the potential but
what leads along the section outside: it is the mean of that of their neighbours, weighted by
1/length of their segments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clhines.arrays import offsets, ranges
from clhines.mechanisms.mechanism import Mechanism
from clhines.network.times import half_steps
from clhines.neuron.convert import Rejected
from clhines.neuron.drivers import (
    POTENTIAL,
    Driver,
    Pointing,
    alone,
    copy_of,
    pointing_of,
)
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.places import MemoryPlaces, Variable
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.catalogue import OUTSIDE
from clhines.neuron.read.contents import Contents, Instances, Things
from clhines.neuron.read.played import Player
from clhines.neuron.read.tree import Tree

_OWN = {"xg": 1e9, "xc": 0.0, "xraxial": 1e9}  # NEURON's: S/cm², µF/cm², MOhm/cm
HELD = (*_OWN, POTENTIAL)
_NONE = 1e-6  # mV: what is left of a potential of 0


@dataclass(frozen=True, eq=False)
class Coupling:
    """Currents into nodes, nA: `g`, µS, times the potential of instance `of`, mV; (k,) each."""

    node: np.ndarray
    of: np.ndarray
    g: np.ndarray


def coupling_of(tree: Tree, nodes: np.ndarray) -> Coupling:
    """Return the currents that potentials outside of `nodes`, (n,) int64, drive along cells."""
    row, of, weight = _potentials(tree, nodes)
    first = offsets(np.bincount(row, minlength=tree.num_nodes))
    below = np.flatnonzero(tree.parent >= 0)
    above, g = tree.parent[below], tree.g_axial[below]
    node, other = np.concatenate([below, below, above, above]), [above, below, below, above]
    source, g = np.concatenate(other), np.concatenate([g, -g, g, -g])
    count = first[source + 1] - first[source]
    at = ranges(first[source], count)
    key = np.repeat(node, count) * len(nodes) + of[at]
    keys, place = np.unique(key, return_inverse=True)
    total = np.bincount(place, np.repeat(g, count) * weight[at], len(keys))
    return Coupling(keys // len(nodes), keys % len(nodes), total)


def _potentials(tree: Tree, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes, ascending, instances and weights of which their potentials are the sums."""
    count, within = tree.num_nodes, np.repeat(np.arange(len(tree.nseg)), tree.nseg)
    section, instance = np.full(count, -1), np.full(count, -1)
    section[tree.inner_numbers], instance[nodes] = within, np.arange(len(nodes))
    owner = section.copy()  # of ends, the section that has them
    owner[tree.end] = np.where(section[tree.end] < 0, np.arange(len(tree.nseg)), owner[tree.end])
    roots = tree.cell_offsets[:-1][section[tree.cell_offsets[:-1]] < 0]
    owner[roots] = owner[roots + 1]
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


class Ahead:
    """Potentials that Python sets after each step, worked out ahead: `rows`, (steps, k), mV."""

    def __init__(self, memory: NeuronMemory, references: Sequence[Hoc], rows: np.ndarray) -> None:
        self._memory, self._places = memory, [memory.place(r) for r in references]
        self._rows, self._done = rows, 0
        self.steps = len(rows)

    def players(self, places: MemoryPlaces, t: float, dt: float) -> list[Player]:
        """Return the steps to come, from `t`, ms, on, as they would be played.

        NEURON has the potentials of the first one then.
        """
        rows = self._rows[self._done :]
        self._put(rows[0])
        begins = half_steps(t, dt, 2 * len(rows))[:-1:2]
        variables = [(k, places.find(place)) for k, place in enumerate(self._places)]
        return [
            Player(variable, begins, rows[:, k], False, "step() of BMTK")
            for k, variable in variables
            if variable is not None and (rows[:, k] != rows[0, k]).any()
        ]

    def go_on(self, steps: int) -> None:
        """Let NEURON have the potentials of the last of some steps."""
        self._done += steps
        self._put(self._rows[self._done - 1])

    def _put(self, row: np.ndarray) -> None:
        for place, value in zip(self._places, row.tolist(), strict=True):
            self._memory.set_value(place, value)


class Outside:
    """What is outside of segments: `acts` if a potential is other than 0, or becomes so."""

    def __init__(
        self, tree: Tree, contents: Contents, played: Sequence[Player], given: list[Player]
    ) -> None:
        self._tree, self.instances, self.given = tree, contents.outside, given
        every = (player.variable for player in (*played, *given))
        owned = [v for v in every if v.owner == OUTSIDE and v.name == POTENTIAL]
        self.played = {v.number for v in owned}
        self.acts = bool(self.played) or self._differs()
        self.pointing = dict[str, Pointing]()  # mechanisms whose POINTERs are to extracellular
        self.drivers = dict[str, Driver]()

    def _differs(self) -> bool:
        if self.instances is None:
            return False
        before = (abs(segment.vext[0]) > _NONE for segment in self.instances.things)
        return bool(self.potentials().any()) or any(before)

    def potentials(self) -> np.ndarray:
        """(n,) float64, mV: e_extracellular of all segments that have it, now."""
        if self.instances is None:
            return np.zeros(0)
        return self.instances.values(POTENTIAL)

    def coupling(self) -> Coupling:
        assert self.instances is not None
        return coupling_of(self._tree, self.instances.nodes)

    def find_drivers(
        self, memory: NeuronMemory, places: MemoryPlaces, every: Mapping[str, Instances]
    ) -> list[Rejected]:
        """Find mechanisms with POINTERs to extracellular, whose entries then have none of these."""
        found = list[Rejected]()
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
                found.append(Rejected(name, pointing.refused))
            elif pointing.sets:
                copy = copy_of(instances.entry, pointing)
                if isinstance(copy, Mechanism):
                    self.drivers[name] = Driver(copy, pointing.of)
                else:
                    found += copy
            instances.entry = alone(instances.entry, pointing)
        by = {k for driver in self.drivers.values() for k in driver.of.tolist()}
        self.acts |= bool(self.drivers)
        count = sum(len(driver.of) for driver in self.drivers.values())
        if self.played & by or len(by) < count:
            what = f"a POINTER to an {POTENTIAL} that is played, or set by another mechanism, too"
            found.append(Rejected(OUTSIDE, what))
        return found

    def rejected(
        self,
        every: Mapping[str, Instances],
        mechanisms: Mapping[str, Mechanism],
        recorded: Sequence[Variable],
        order: int,
        transfers: bool,
    ) -> list[Rejected]:
        """List what is not simulated of potentials outside, and what would make other ones."""
        if self.instances is None:
            return []
        found = [*self._parameters(), *self._records(recorded)]
        if (self._tree.branches != 1).any():
            found.append(Rejected(OUTSIDE, "rallbranch in a model with extracellular"))
        if transfers:
            what = "ParallelContext.source_var, which in extracellular is the potential inside"
            found.append(Rejected(OUTSIDE, what, "let a POINTER point to v"))
        if self.acts and order:
            what = f"{POTENTIAL} other than 0 with secondorder = {order}"
            found.append(Rejected(OUTSIDE, what, "set secondorder to 0"))
        for name in sorted(mechanisms.keys() & self.drivers.keys()):
            found += self.drivers[name].refused(name, mechanisms[name])
        for name in sorted(mechanisms.keys() & self.pointing.keys()):
            kept = {q.public or q.name for q in mechanisms[name].program.states}
            for one in sorted(kept & self.pointing[name].unknown):
                what = f"{one}, which is kept and depends on i_membrane"
                found.append(Rejected(name, what, "record i_membrane"))
        at = self.instances.nodes
        ends = np.setdiff1d(_potentials(self._tree, at)[0], at)
        for name, mechanism in mechanisms.items():
            program, nodes = mechanism.program, every[name].nodes
            if program.electrode:
                of_v = any(a.role == "v" for given in program.blocks.values() for a in given)
                if self.acts and of_v and np.isin(nodes, np.append(ends, at)).any():
                    what = f"an ELECTRODE_CURRENT that depends on v, where {POTENTIAL} is not 0"
                    found.append(Rejected(name, what, "expected it in sections without"))
            elif "current" in program.blocks and np.isin(nodes, ends).any():
                what = "a current of the membrane at an end of a section with extracellular"
                found.append(Rejected(name, what, "put it into a segment"))
        return found

    def _parameters(self) -> list[Rejected]:
        instances, found = self.instances, list[Rejected]()
        assert instances is not None
        for name, held in _OWN.items():
            for layer in range(instances.entry.ranges[name]):
                values = instances.values(name, layer)
                other = np.flatnonzero(values != held)
                if len(other):
                    section = instances.things[int(other[0])].sec
                    shown = f"in section {section}: {name}[{layer}] = {values[other[0]]:g}"
                    what = f"{OUTSIDE} with layers of its own, {shown}"
                    found.append(Rejected("", what, f"expected NEURON's own, {held:g}"))
                    break
        return found

    def _records(self, recorded: Sequence[Variable]) -> list[Rejected]:
        """List records of what changes, but for i_membrane."""
        names = {v.name for v in recorded if v.owner == OUTSIDE} - {*_OWN, "i_membrane"}
        if not self.played and not self.drivers:
            names -= {POTENTIAL, "vext"}
        way_out = f"expected i_membrane, or {POTENTIAL} and vext that stay"
        found = [Rejected(OUTSIDE, f"Vector.record of {name}", way_out) for name in sorted(names)]
        for name, pointing in self.pointing.items():
            for v in recorded:
                if v.owner == name and v.name in pointing.unknown:
                    what = f"Vector.record of {v.name}, which depends on i_membrane"
                    found.append(Rejected(name, what, "record i_membrane"))
        return list(dict.fromkeys(found))

"""Network: cells with mechanisms, synapses and connections.

`Network` is what the user describes, cell after cell in natural order; `simulator.model.compile`
makes a `Model` of it, the arrays that every engine takes. Cells are rooted at their somas, so
that a soma is eliminated last: what is active only there leaves all other factors constant.

Units are NEURON's: mV, ms, nA, µS and nF at nodes and in point processes, S/cm² and mA/cm² in
mechanisms of the membrane, µm² for areas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.arrays import stretch_of
from clhines.core.checks import as_array, as_indices, as_number, as_real, as_whole_number, broadcast
from clhines.core.errors import InputError, meant
from clhines.core.files import PathLike
from clhines.core.summary import as_html, counted, range_text
from clhines.simulator.cells.cable import Cable, discretise
from clhines.simulator.cells.swc import read_swc
from clhines.simulator.mechanisms import mechanism as find_mechanism
from clhines.simulator.mechanisms.builtin import HALF_GAP
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.network import stored
from clhines.simulator.network.additions import Added, Sources
from clhines.simulator.network.groups import (
    Group,
    Inside,
    Parameters,
    check_celsius,
    check_name,
    check_once,
    values_of,
)
from clhines.simulator.network.pairs import Drawn, Pairs
from clhines.simulator.network.plasticity import Rule
from clhines.simulator.network.structure import (
    PerCell,
    Structure,
    Value,
    Where,
    of_arrays,
    of_cables,
)
from clhines.simulator.network.wiring import Connections, Wiring, weight_or_none

CELSIUS = 6.3  # °C, NEURON's default
_SET = "threshold", "celsius", "gids"  # attributes


@dataclass(frozen=True, eq=False)
class Copied:
    """A network, and the numbers of its sources and connections among those of its copies."""

    once: Network
    sources: np.ndarray  # (copies, num_sources) int64
    connections: np.ndarray  # (copies, m) int64

    @property
    def count(self) -> int:
        return len(self.sources)


MAX_GAPS = 20_000_000  # gap junctions that are added at once


class Network:
    """Cells, what is in their membranes, and how they are connected.

    What is needed of the cables is read here. A network is frozen once a `Simulation` has been made
    of it: all that would change it raises `InputError`, as no simulation would see it. More
    simulations can be made of it.

    Parameters
    ----------
    cables : Cable or sequence of Cable, or Structure
        Repeated in turn to `num_cells` cells; or compartments as arrays, see `from_arrays`.
    num_cells : int, optional
        Default: one of each.
    branched_from : Network, optional
        The network whose copies this is; see `Simulation.replicate`.

    Attributes
    ----------
    num_cells : int
    forest : Forest
        Nodes have the numbers that they have in their cables; each tree is rooted at its soma.
    soma : (num_cells,) int64
        Node in the middle of each cell's soma, over all cells: where it spikes, and where the
        examples put synapses and clamps. Of a soma that branches it is in the middle of its first
        section, and without a soma in the first segment at the root (`Cable.soma`).
    area : (n,) float64, µm²
        0 at junctions, which have no membrane.
    groups : tuple of Group
    connections : tuple of Connections
    cables : tuple of Cable
        Of the cells, which take them in turn; none where the network was made of arrays.
    branched_from : Network or None
    celsius : float
        Temperature, °C; 6.3 at first, as in NEURON. Once set, it is that of all mechanisms to
        which no other is given.
    threshold : float or (num_cells,) float64, mV
        A cell spikes when the middle of its soma comes from below to above this; 10 at first. A
        text with ``spike:`` at the soma has the threshold of its cell.
    gids : (num_cells,) int64 or None
        Numbers of the cells among those of all MPI ranks, ascending, where each rank describes its
        own cells alone; set once, before sources and connections. `connect` then takes gids as
        sources, of cells of any rank, and `Result.spike_cell` has gids; all else goes by cells,
        nodes and instances of this network. See `Simulation`, `comm`.
    settings : dict of str to float
        NEURON's ``dt``, ``v_init``, ``secondorder`` and ``t``, if it is from there.

    Raises
    ------
    InputError
        Here and in all methods: what was got, what was expected and where, in one line.
    """

    def __init__(
        self,
        cables: Cable | Sequence[Cable] | Structure,
        num_cells: int | None = None,
        branched_from: Network | None = None,
    ) -> None:
        structure = cables if isinstance(cables, Structure) else of_cables(cables, num_cells)
        self._inside = Inside(structure)
        self.cables, self.forest = structure.cables, structure.forest
        self.branched_from = branched_from
        self.num_cells, self.soma = self.forest.num_cells, structure.soma
        self.settings = dict[str, float]()
        self.soma.setflags(write=False)
        self._inside.added = Added(self, self.forest.num_nodes, self.num_cells)
        self._inside.wiring = Wiring(self)

    @classmethod
    def from_swc(
        cls, paths: PathLike | Sequence[PathLike], num_cells: int | None = None, **options: Any
    ) -> Network:
        """Read SWC files, cut the cells into compartments, and make a network of them.

        Parameters
        ----------
        paths : path, or sequence of paths
        num_cells : int, optional
            The files' cells are repeated in turn; default: one of each.
        **options
            Of `clhines.discretise`: `max_length`, `d_lambda`, `nseg`, `Ra`, `cm`.

        Returns
        -------
        Network

        Raises
        ------
        MorphologyError, CableError, InputError
            As `clhines.read_swc` and `clhines.discretise`.
        """
        known = [name for name in signature(discretise).parameters if name != "morphology"]
        for name in options:
            if name not in known:
                near = meant(name, known)
                raise InputError(f"unknown option {name}; expected {', '.join(known)}{near}")
        files = [paths] if isinstance(paths, (str, bytes, PurePath)) else list(paths)  # type: ignore[arg-type]
        return cls([discretise(read_swc(path), **options) for path in files], num_cells)  # type: ignore[arg-type]

    @classmethod
    def from_arrays(
        cls,
        parent: ArrayLike,
        cell_offsets: ArrayLike,
        area: ArrayLike,
        g_axial: ArrayLike,
        capacitance: ArrayLike,
        soma: ArrayLike | None = None,
        around: ArrayLike | None = None,
        g_around: ArrayLike | None = None,
    ) -> Network:
        """Make a network of cells given as plain arrays; nodes keep their numbers.

        Parameters
        ----------
        parent : (n,) integer
            Node above each node, over all cells; -1 at the roots. Any order within a cell.
        cell_offsets : (num_cells + 1,) integer
            Nodes of cell c are ``cell_offsets[c]:cell_offsets[c + 1]``.
        area : (n,) float, µm²
            0 at nodes without membrane.
        g_axial : (n,) float, µS
            To the parent; ignored at the roots.
        capacitance : (n,) float, nF
            ``1e-5 * cm * area`` with cm in µF/cm².
        soma : (num_cells,) integer, optional
            Node of each cell where its spikes are detected; the tree is rooted there, which does
            not change the network. Default: the roots.
        around : (n,) integer, optional
            Node of the same cell that lies around each node, -1 for none: the current through a
            node's membrane flows into that one, not to the ground, and ``v`` is the difference of
            both potentials; as NEURON's `extracellular`, whose layers are nodes, too. A node that
            is around another has no area, its ``v`` is its potential, and its `capacitance` and
            `g_around` lie between it and what is around it, which is the ground for the outermost.
            All nodes with some around them have as many, two or more. Those around neighbours may
            be connected by `g_axial`; what has no such neighbour as parent has any with 0. A
            point process that is an electrode brings its current into the node, from the ground; it
            may be at an outermost node, too, others at no node around another. Engines ``steps``
            and ``reference`` take such cells, with ``secondorder=False``.
        g_around : (n,) float, µS, optional
            Of nodes that are around others, to what is around them; 0 of others.

        Returns
        -------
        Network

        Raises
        ------
        InputError
            Shapes, values or trees that do not fit; it names the node.
        """
        return cls(
            of_arrays(
                parent, cell_offsets, area, g_axial, capacitance, soma, around=around,
                g_around=g_around,
            )
        )  # fmt: skip

    def save(self, path: PathLike) -> None:
        """Write the network to a file, from which `load` makes an equal one without NEURON.

        It has the cells as arrays, the texts of the mechanisms, parameters, sources, connections,
        events and all else that a simulation needs; a state of a simulation is saved by
        `Simulation.save`. Cables are not in it: a network that is loaded has no `cables`, and of
        words for places ``all``, ``soma`` and ``dendrites`` alone.

        Parameters
        ----------
        path : path of an ``.npz`` file

        Raises
        ------
        InputError
            It cannot be written; or this network is copies of another one, or has gids.
        """
        stored.save(self, path, self._inside.celsius)

    @classmethod
    def load(cls, path: PathLike) -> Network:
        """Return the network in a file that `save` has written; nothing there is executed.

        Raises
        ------
        InputError
            It cannot be read, is no such file, or is damaged; the message names what is wrong.
        """
        return stored.load(path, cls)

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            self._inside.check_not_frozen(name)
            if hasattr(self._inside, "wiring") and name not in _SET:
                raise InputError(f"{name} cannot be set; expected {', '.join(_SET)}, or methods")
        super().__setattr__(name, value)

    @property
    def area(self) -> np.ndarray:
        """(n,) float64, µm²."""
        return self._inside.places.area

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups, in the order in which they came."""
        return tuple(self._inside.groups)

    @property
    def connections(self) -> tuple[Connections, ...]:
        """What each `connect` that made any returned, in the order of `Simulation.weights`."""
        found: tuple[Connections, ...] = self._inside.wiring.connections
        return found

    @property
    def threshold(self) -> float | np.ndarray:
        """Float or (num_cells,) float64, mV: at which a cell spikes."""
        return self._inside.threshold

    @threshold.setter
    def threshold(self, value: object) -> None:
        array = as_array("threshold", value, unit="mV")
        checked = as_real("threshold", np.atleast_1d(array))
        self._inside.threshold = checked if array.ndim else float(checked[0])

    @property
    def gids(self) -> np.ndarray | None:
        """(num_cells,) int64, or None: numbers of the cells among those of all MPI ranks."""
        return self._inside.gids

    @gids.setter
    def gids(self, value: object) -> None:
        gids = self._inside.added.take_gids(value)
        gids.setflags(write=False)
        self._inside.gids = gids

    @property
    def celsius(self) -> float:
        """Temperature, °C."""
        return CELSIUS if self._inside.celsius is None else self._inside.celsius

    @celsius.setter
    def celsius(self, value: object) -> None:
        celsius = as_number("celsius", value, "degC")
        check_celsius("celsius", celsius)
        self._inside.celsius = celsius
        for group in self.groups:
            if isinstance(group.parameters, Parameters):
                group.parameters.set_default("celsius", self._inside.celsius)

    def __repr__(self) -> str:
        groups = ", ".join(f"{g.mechanism.name} × {len(g)}" for g in self.groups)
        cells, nodes = counted(self.num_cells, "cell"), counted(self.forest.num_nodes, "node")
        return f"Network({cells}, {nodes}; {groups})"

    def _repr_html_(self) -> str:
        given = sum(len(columns[0]) for columns in self._inside.wiring.columns)
        rows: dict[str, object] = {
            "cells": self.num_cells,
            "nodes": self.forest.num_nodes,
            **{f"group {g.number}, {g.mechanism.name}": g.summary() for g in self.groups},
            "connections": given,
            "sources besides cells": self._inside.added.num_sources - self.num_cells,
            "threshold": f"{range_text(self.threshold)} mV",
            "temperature": f"{self.celsius:g} °C",
        }
        return as_html("Network" + (", frozen" if self._inside.frozen else ""), rows)

    # -- mechanisms ----------------------------------------------------------------------------

    def insert(
        self, mechanism: str | Path | Mechanism, at: Where = "all", **parameters: Value
    ) -> Group:
        """Put a mechanism into the membrane of nodes.

        Parameters
        ----------
        mechanism : str, path or Mechanism
            Name of a built-in one or of one of `clhines.library`, a mechanism, its text, or a
            ``.mod`` file; of kind ``density``.
        at : str; (count,) integer; (n,) bool; callable
            ``all``; ``soma``, all segments of the soma, of all its sections if it branches, as in
            NEURON; ``soma.middle``, the one in its middle, `soma`; ``dendrites``, all that is not
            the soma, axons too; by the types of the file ``axon``, ``basal`` or ``dend``,
            ``apical`` or ``apic``. Or nodes by natural index, or a mask. Junctions have no
            membrane: the words leave them out, and they are refused elsewhere. A word for the soma
            is refused if a cell has none, and one for a type if no cell has it. Or a
            function of all nodes' distances from their somas, (n,) µm, that returns a mask.
        **parameters : float, array, callable or `per_cell`
            One for all or one for each of the nodes, (count,). Other lengths: one for each cell,
            one for each node of a cell (where all cells are of one cable) or one for each node of
            the network. A callable is given the distance of each node from its soma along the
            path, (count,) float64, µm. Those not given have the mechanism's defaults. One whose
            name is ``at`` or ``mechanism`` is set afterwards: ``group.parameters["at"] = 1``.

        Returns
        -------
        Group
        """
        self._inside.check_not_frozen("insert()")
        found = find_mechanism(mechanism)
        if found.kind != "density":
            raise InputError(f"{found.name} is a {found.kind} process; use add() for it")
        nodes = self._inside.places.membrane(found.name, at)
        again = self._inside.places.in_round(at, nodes)
        check_once(self.groups, found, nodes, self.forest, again)
        return self._group(found, nodes, parameters, again)

    def add(self, mechanism: str | Path | Mechanism, at: Where, **parameters: Value) -> Group:
        """Add point processes, one at each of the nodes given.

        Parameters
        ----------
        mechanism : str, path or Mechanism
            Name of a built-in one (also NEURON's, as ``IClamp``) or of one of `clhines.library`, a
            mechanism, its text, or a ``.mod`` file; of kind ``point``.
        at : str; integer or (count,) integer; (n,) bool; callable
            As in `insert`, but one node may come several times, and junctions are accepted.
        **parameters : float, array, callable or `per_cell`
            As in `insert`.

        Returns
        -------
        Group
        """
        self._inside.check_not_frozen("add()")
        found = find_mechanism(mechanism)
        if found.kind != "point":
            raise InputError(f"{found.name} is a {found.kind} mechanism; use insert() for it")
        return self._group(found, self._inside.places.of(at), parameters)

    def _group(
        self, mechanism: Mechanism, nodes: np.ndarray, given: Mapping[str, object], again: int = 0
    ) -> Group:
        check_name(self.groups, mechanism)
        area_at = np.zeros_like if mechanism.kind == "artificial" else self._inside.places.area_at
        values = values_of(self._inside, mechanism, nodes, area_at, given)
        nodes.setflags(write=False)
        own = Parameters(self._inside, mechanism.name, nodes, values, given, mechanism.units)
        if self._inside.celsius is not None or "celsius" in mechanism.program.built_in:
            own.set_default("celsius", self.celsius)
        group = Group(self, len(self._inside.groups), mechanism, nodes, own, again)
        self._inside.groups.append(group)
        net = mechanism.program.net
        if net is not None and net.emits:
            self._inside.added.emits(group)
        return group

    # -- places --------------------------------------------------------------------------------

    def nodes(self, cell: ArrayLike | None = None, at: Where = "all") -> np.ndarray:
        """(m,) int64: nodes of some cells, all by default, that `at` means, as in `insert`.

        ``net.nodes(cell=7, at="apical")``; one place of a section is
        ``net.forest.cell_offsets[cell] + cable.node(section, x)``.
        """
        return self._inside.places.nodes(cell, at)

    def psection(self, node: int) -> dict[str, dict[str, float]]:
        """Return the parameters at a node by mechanism, as NEURON's ``psection``.

        Parameters
        ----------
        node : integer
            By natural index, see `nodes`.

        Returns
        -------
        dict of str to dict of str to float
            Of a mechanism of the membrane by its name; of a point process by its name and the
            instance of its group, as ``expsyn[3]``. Units are those of `Mechanism.units`.
        """
        (node,) = as_indices("node", node, self.forest.num_nodes, "node").tolist()
        found = {}
        for group in self.groups:
            for k in np.flatnonzero(group.nodes == node).tolist():
                name = group.mechanism.name
                key = name if group.mechanism.kind == "density" else f"{name}[{k}]"
                values = group.parameters.items()
                found[key] = {n: float(v[k] if isinstance(v, np.ndarray) else v) for n, v in values}
        return found

    def per_cell(self, values: ArrayLike) -> PerCell:
        """Return a parameter that has a value for each cell, whatever nodes it is given for."""
        return self._inside.places.per_cell(values)

    # -- sources, ions and more -------------------------------------------------------------------

    def add_detector(
        self, node: ArrayLike, threshold: ArrayLike = 10.0, refractory: ArrayLike = 0.0
    ) -> Sources:
        """Detect spikes at nodes; what it returns is a source for `connect`.

        A spike is where v comes from below to above the threshold.

        Parameters
        ----------
        node : integer or (count,) integer
        threshold : float or (count,) float, mV
        refractory : float or (count,) float, ms
            Two spikes of a detector are at least so far apart, to whole steps: in this time after a
            spike, v may cross the threshold without another one. Where v is still above the
            threshold at its end, it has to fall below first.

        Returns
        -------
        Sources
        """
        return self._inside.added.add_detector(node, threshold, refractory)

    def spike_source(self, times: Sequence[ArrayLike]) -> Sources:
        """Make sources whose events are given, as NEURON's VecStim.

        Parameters
        ----------
        times : sequence of (k,) float, ms
            One a source, in any order.

        Returns
        -------
        Sources
        """
        return self._inside.added.spike_source(times)

    def source_numbers(self, source: object, index: ArrayLike | None = None) -> np.ndarray:
        """Return the numbers of sources, as `Result.spike_cell` has them.

        Parameters
        ----------
        source : integer array, Sources or Group
            Cells; what `add_detector` or `spike_source` gave; or a group whose instances send
            events.
        index : integer array, optional
            Which of them; default: all.
        """
        added = self._inside.added
        return added.shown(added.source_numbers(source, index))

    def add_artificial(
        self, mechanism: str | Mechanism, count: int = 1, **parameters: ArrayLike
    ) -> Group:
        """Add artificial cells: instances without a node, that take and send events.

        Parameters
        ----------
        mechanism : Mechanism
            Of kind ``artificial``.
        count : int
        **parameters : float or (count,) float64

        Returns
        -------
        Group
            A target and a source for `connect`.
        """
        self._inside.check_not_frozen("add_artificial()")
        found = find_mechanism(mechanism)
        if found.kind != "artificial":
            raise InputError(f"{found.name} is a {found.kind} mechanism; use insert() or add()")
        nodes = np.full(as_whole_number("count", count, 0), -1)
        return self._group(found, nodes, parameters)

    def ion(
        self,
        name: str,
        nodes: ArrayLike | None = None,
        valence: float | None = None,
        e: ArrayLike | None = None,
        ci: ArrayLike | None = None,
        co: ArrayLike | None = None,
        style: ArrayLike | None = None,
    ) -> None:
        """Give an ion its values; it is wherever a mechanism uses it, and at the nodes given.

        Parameters
        ----------
        name : str
            As ``ca``.
        nodes : (count,) integer, optional
            Default: all nodes with membrane.
        valence : float, optional
        e : float or (count,) float, mV
            Reversal potential at the start.
        ci, co : float or (count,) float, mM
            Concentrations at the start, inside and outside.
        style : integer or (count,) integer
            NEURON's bits, as `h.ion_style` returns them; default: by what mechanisms use.
        """
        nodes = np.flatnonzero(self.area > 0) if nodes is None else nodes
        given = {"e": e, "ci": ci, "co": co, "style": style}
        self._inside.added.ion(
            name, nodes, valence, {k: v for k, v in given.items() if v is not None}
        )

    def set_pointer(
        self,
        group: Group,
        name: str,
        to: ArrayLike | tuple[Group, str, ArrayLike],
        index: ArrayLike | None = None,
    ) -> None:
        """Let a POINTER of instances point to voltages, or to a variable of other instances.

        Parameters
        ----------
        group : Group
        name : str
            Of the pointer.
        to : integer or (count,) integer, or (Group, str, integer or (count,) integer)
            Nodes, of any cells; or a group, a variable that it sets and keeps, and which of its
            instances, as for every POINTER that the mechanism writes. One that it reads has the
            value of then: mechanisms act one after the other, in the order of `insert` and `add`.
        index : (count,) integer, optional
            Which of the group's instances; default: all.

        Raises
        ------
        InputError
            There is no such pointer, variable, node or instance, or their numbers differ.
        """
        self._inside.added.set_pointer(group, name, to, index)

    def gap(self, a: ArrayLike, b: ArrayLike, g: ArrayLike) -> Group:
        """Join nodes by gap junctions; the arrays broadcast.

        Each half is a point process with ``i = g*(v - vgap)`` [nA], outward. `vgap`, the voltage on
        the other side, is that of the begin of each step, as with NEURON's
        ``ParallelContext.source_var`` and ``target_var``. So its part is explicit: where g exceeds
        the capacitance over dt of a node, voltages may oscillate.

        Parameters
        ----------
        a, b : integer or (m,) integer
            Nodes by natural index, see `nodes`; of any cells.
        g : float or (m,) float, µS

        Returns
        -------
        Group
            The halves at `a`, then those at `b`, 2m instances; to `record` ``i`` and to `set` `g`.

        Raises
        ------
        InputError
            `g` is negative, or a junction joins a node to itself.
        """
        self._inside.check_not_frozen("gap()")
        ends = broadcast({"a": a, "b": b, "g": g}, {"g": "uS"})
        if ends["g"].size > MAX_GAPS:
            raise InputError(f"{ends['g'].size} gap junctions; expected at most {MAX_GAPS}")
        n = self.forest.num_nodes
        here, there = (as_indices(name, ends[name], n, "node") for name in "ab")
        conductance = as_real("g", ends["g"])
        bad = np.flatnonzero((here == there) | (conductance < 0))
        if len(bad):
            k = int(bad[0])
            raise InputError(
                f"g of gap junction {k} is {conductance[k]:g} uS; expected 0 or more"
                if conductance[k] < 0
                else f"gap junction {k} joins node {here[k]} to itself; expected another node"
            )
        both = np.concatenate([here, there])
        halves = self.add(Mechanism.from_nmodl(HALF_GAP), both, g=np.tile(conductance, 2))
        self.set_pointer(halves, "vgap", np.concatenate([there, here]))
        return halves

    def play(
        self,
        group: Group,
        index: int,
        name: str,
        t: ArrayLike,
        y: ArrayLike,
        continuous: bool = True,
    ) -> None:
        """Let a parameter of an instance take values in time, as NEURON's Vector.play.

        Parameters
        ----------
        group : Group
        index : int
        name : str
            Of the parameter.
        t : (m,) float, ms
            Ascending.
        y : (m,) float
        continuous : bool
            Interpolate; else ``y[k]`` holds from ``t[k]`` on.
        """
        self._inside.added.play(group, index, name, t, y, continuous)

    def random(self, group: Group, name: str, ids: ArrayLike, index: int = 0) -> None:
        """Give the streams of a RANDOM variable their numbers, as NEURON's ``set_ids``.

        Parameters
        ----------
        group : Group
        name : str
        ids : (count, 3) integer
            For each instance of the group.
        index : int
            The global index of all streams of the network.
        """
        self._inside.added.random(group, name, ids, index)

    # -- connections ---------------------------------------------------------------------------

    def connect(
        self,
        source: ArrayLike | Sources | Group,
        target: Group,
        index: ArrayLike | Pairs | None = None,
        weight: ArrayLike | Drawn | None = None,
        delay: ArrayLike | Drawn = 1.0,
        rule: Rule | None = None,
        source_index: ArrayLike | None = None,
    ) -> Connections:
        """Send an event to an instance at each event of a source; the arrays broadcast.

        Or, with `Pairs` as `index`, as a rule says: ``net.connect(np.arange(3200), synapses,
        clhines.Pairs.bernoulli(0.02), weight=0.006)``. Such connections take 8 bytes each, and 8
        more for each of weight and delay that is `Drawn`.

        Parameters
        ----------
        source : integer array, Sources or Group
            Cells, by gid where the network has `gids`; what `add_detector` or `spike_source` gave;
            or a group whose instances send events.
        target : Group
            Of a mechanism that takes events.
        index : integer array or Pairs, optional
            Which of the group's instances; default: all of them in order. With `Pairs`, which of
            the sources are connected to which of all instances.
        weight : float, (m,) or (m, k) float array, or Drawn
            In the unit of the mechanism, µS for the built-in ones; without it 0, as in NEURON, and
            a warning. Of a mechanism that takes several weights a row for each connection; those
            not given are 0. With `Pairs` a number, or `Drawn` for each pair.
        delay : float array, ms, or Drawn
            One step or more, which `simulator.model.compile` checks. It acts after the nearest
            whole number of steps, n + 1/2 steps after n + 1, as in NEURON: see `delay_steps`. Where
            events act at exact times, as with detectors or ions, any delay above 0, and 0 itself
            where the source is no cell.
        rule : Rule, optional
            Of `simulator.network.plasticity`: one for all plastic connections of a network.
        source_index : integer array, optional
            Which of the sources, where `source` is no array of cells; default: all in order.

        Returns
        -------
        Connections
            Their sources, targets, weights and delays, and where `Simulation.weights` has them.
        """
        self._inside.check_not_frozen("connect()")
        self._inside.wiring.check_target(target)
        numbers = self._inside.added.source_numbers(source, source_index)
        if len(numbers):
            weight = weight_or_none(weight, target, "connect()")
        weight = 0.0 if weight is None else weight
        if isinstance(index, Pairs):
            if self.gids is not None:
                raise InputError("index is Pairs; expected instances, as the network has gids")
            cell = stretch_of(self.forest.cell_offsets, target.nodes)
            given = index, weight, delay, rule, np.where(target.nodes < 0, -1, cell)
            return self._inside.wiring.connect_pairs(numbers, target, *given)
        for name, value in (("weight", weight), ("delay", delay)):
            if isinstance(value, Drawn):
                raise InputError(f"{name} is Drawn; expected numbers, as index is not Pairs")
        index = np.arange(len(target)) if index is None else index
        return self._inside.connect(numbers, target, index, weight, delay, rule)

    def add_event(
        self,
        target: Group,
        index: ArrayLike = 0,
        time: ArrayLike = 0.0,
        weight: ArrayLike | None = None,
    ) -> None:
        """Send an event from outside; the arrays broadcast.

        Parameters
        ----------
        target : Group
            Of a mechanism that takes events.
        index : integer array
            Which of the group's instances.
        time : float array, ms
            It acts in the first step whose middle is not before it, as in NEURON: see
            `event_steps`.
        weight : float array
            Without it 0, and a warning.
        """
        self._inside.check_not_frozen("add_event()")
        self._inside.wiring.check_target(target)
        weight = weight_or_none(weight, target, "add_event()")
        self._inside.wiring.add_event(target, index, time, weight)

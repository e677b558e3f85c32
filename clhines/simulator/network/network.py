"""Network: cells with mechanisms, synapses and connections.

A user describes a `Network` in natural order, cell after cell; `simulator.model.compile` turns it
into a `Model`, the arrays for every engine. Cells are rooted at their somas, which are eliminated
last: if only somas are active, all other factors stay constant.

Units are NEURON's: mV, ms, nA, µS and nF at nodes and in point processes, S/cm² and mA/cm² in
membrane mechanisms, µm² for areas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import as_array, as_number, as_real, as_whole_number
from clhines.core.errors import InputError, meant, warn_caller
from clhines.core.files import PathLike
from clhines.core.summary import counted
from clhines.simulator.cells.cable import Cable
from clhines.simulator.fields import Geometry, Medium, field_of, geometry_of, line_matrix
from clhines.simulator.mechanisms import mechanism as find_mechanism
from clhines.simulator.mechanisms.builtin import HALF_GAP
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.network import stored
from clhines.simulator.network.additions import Additions, Sources, as_gap_junctions
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
_SET = "threshold", "celsius"  # attributes that users may set


class Network:
    """Cells, their mechanisms, and their connections.

    A `Simulation` freezes its network: later changes raise `InputError`, because no simulation
    would see them. Several simulations can share a network.

    Parameters
    ----------
    cables : Cable or sequence of Cable, or Structure
        Cables, repeated in turn for `num_cells` cells; or a `Structure`, see `from_arrays`.
    num_cells : int, optional
        Default: one cell for each cable.
    branched_from : Network, optional
        The network that this one copies; see `Simulation.replicate`.

    Attributes
    ----------
    num_cells : int
    forest : Forest
        A tree for each cell, with the soma as the root. Nodes keep the order of the cables.
    soma : (num_cells,) int64
        Node of each cell where spikes are detected, the middle of the soma's first section. In a
        cell without a soma it is the first segment at the root, see `Cable.soma`.
    cables : tuple of Cable
        Cell k has cable ``k % len(cables)``; empty if the network was made from arrays.
    branched_from : Network or None
    settings : dict of str to float
        NEURON's ``dt``, ``v_init``, ``secondorder`` and ``t``, for an imported model.

    Raises
    ------
    InputError
        Here and in all methods, with the actual and the expected value.
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
        self._inside.added = Additions(self, self.forest.num_nodes, self.num_cells)
        self._inside.wiring = Wiring(self)

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
        """Make a network of cells from plain arrays; nodes keep their numbers.

        Parameters
        ----------
        parent : (n,) integer
            Parent of each node, over all cells; -1 at roots. Any order within a cell.
        cell_offsets : (num_cells + 1,) integer
            Nodes of cell c are ``cell_offsets[c]:cell_offsets[c + 1]``.
        area : (n,) float, µm²
            0 at nodes without membrane.
        g_axial : (n,) float, µS
            To the parent; ignored at roots.
        capacitance : (n,) float, nF
            ``1e-5 * cm * area`` with cm in µF/cm².
        soma : (num_cells,) integer, optional
            Node of each cell that detects its spikes. Default: the roots.
        around : (n,) integer, optional
            Enclosing node of each node, in the same cell, or -1: the layers of NEURON's
            `extracellular`. Membrane current of a node flows into its enclosing node instead of to
            ground, and its ``v`` is the difference of both potentials. An enclosing node has no
            area; its ``v`` is its potential; its `capacitance` and `g_around` lie between it and
            its own enclosing node, or ground if it is the outermost. All enclosed nodes have the
            same number of layers, two or more. `g_axial` may connect nodes of one layer around
            neighbours. An electrode at a node brings its current from ground; other point processes
            may not be at enclosing nodes. The engine ``epochs-cpu`` does not support such cells;
            all others do, with ``secondorder=False``.
        g_around : (n,) float, µS, optional
            From an enclosing node to its own enclosing node, or ground; 0 elsewhere.
        """
        arrays = parent, cell_offsets, area, g_axial, capacitance, soma
        return cls(of_arrays(*arrays, around=around, g_around=g_around))

    def save(self, path: PathLike) -> None:
        """Write the network to an ``.npz`` file, which `load` reads without NEURON.

        The file contains everything that a simulation needs, but no state; see `Simulation.save`.
        It has no cables: a loaded network knows only the regions ``all``, ``soma`` and
        ``dendrites``.
        """
        stored.save(self, path, self._inside.celsius)

    @classmethod
    def load(cls, path: PathLike) -> Network:
        """Load a network that `save` has written; nothing in the file is executed."""
        return stored.load(path, cls)

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            self._inside.before_change(name)
            if hasattr(self._inside, "wiring") and name not in _SET:
                raise InputError(
                    f"{name} cannot be set; expected {', '.join(_SET)}, or methods"
                    f"{meant(name, _SET)}"
                )
        super().__setattr__(name, value)

    @property
    def area(self) -> np.ndarray:
        """Each node's area, (n,) float64, µm²; 0 at junctions, which have no membrane."""
        return self._inside.places.area

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups, in the order in which they were added."""
        return tuple(self._inside.groups)

    @property
    def connections(self) -> tuple[Connections, ...]:
        """The results of `connect`, except empty ones, in the order of `Simulation.weights`."""
        return tuple(self._inside.wiring.connections)

    @property
    def threshold(self) -> float | np.ndarray:
        """Threshold, a float or (num_cells,) float64, mV; 10 by default.

        A cell spikes when v at its `soma` rises above its threshold. If a mechanism there has
        ``spike: v > X`` in its text, X is the cell's threshold instead.
        """
        return self._inside.threshold

    @threshold.setter
    def threshold(self, value: object) -> None:
        array = as_array("threshold", value, unit="mV")
        checked = as_real("threshold", np.atleast_1d(array))
        self._inside.threshold = checked if array.ndim else float(checked[0])

    @property
    def celsius(self) -> float:
        """Temperature, °C; 6.3 by default, as in NEURON.

        Once set, it applies to all mechanisms; a simulation refuses a mechanism with another value.
        Until then each mechanism uses the default of its text.
        """
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

    def insert(
        self, mechanism: str | Path | Mechanism, at: Where = "all", **parameters: Value
    ) -> Group:
        """Insert a mechanism into the membrane of nodes.

        Parameters
        ----------
        mechanism : str, path or Mechanism
            Name of a built-in mechanism or of one in `clhines.library`, a `Mechanism`, its text, or
            a ``.mod`` file; of kind ``density``.
        at : str; (count,) integer; (n,) bool; callable
            A word, nodes, a mask, or a function that maps the distance of each node from its soma,
            (n,) µm, to a mask. Words: ``all``; ``soma``, all segments of the soma; ``soma.middle``,
            the node `soma`; ``dendrites``, everything else, axons included; by the file's types
            ``axon``, ``basal`` or ``dend``, ``apical`` or ``apic``. Words and functions leave out
            nodes without membrane (junctions); nodes and masks must not contain any. ``soma`` is
            refused if a cell has none, and a type if no cell has it.
        **parameters : float, array, callable or `per_cell`
            A value for all nodes; for each node, (count,); for each cell; or a function of the
            distance of each node from its soma, (count,) float64, µm. Default: the mechanism's.
            Parameters called ``at`` or ``mechanism`` are set afterwards: ``group.parameters["at"] =
            1``.

        Returns
        -------
        Group
        """
        self._inside.before_change("insert()")
        density = find_mechanism(mechanism)
        if density.kind != "density":
            raise InputError(f"{density.name} is a {density.kind} process; use add() for it")
        nodes = self._inside.places.membrane(density.name, at)
        in_round = self._inside.places.in_round(at, nodes)
        check_once(self.groups, density, nodes, self.forest, in_round)
        return self._group(density, nodes, parameters, in_round)

    def add(self, mechanism: str | Path | Mechanism, at: Where, **parameters: Value) -> Group:
        """Add point processes, one at each node.

        Parameters
        ----------
        mechanism : str, path or Mechanism
            As in `insert`, of kind ``point``; NEURON's names, as ``IClamp``, are accepted.
        at : str; integer or (count,) integer; (n,) bool; callable
            As in `insert`; nodes may repeat, and may be junctions.
        **parameters : float, array, callable or `per_cell`
            As in `insert`.

        Returns
        -------
        Group
        """
        self._inside.before_change("add()")
        point = find_mechanism(mechanism)
        if point.kind != "point":
            raise InputError(f"{point.name} is a {point.kind} mechanism; use insert() for it")
        if point.name == "iclamp" and "amp" in parameters and "dur" not in parameters:
            warn_caller("add('iclamp') without dur: it is 0 ms, so no current flows", UserWarning)
        return self._group(point, self._inside.places.of(at), parameters)

    def _group(
        self,
        mechanism: Mechanism,
        nodes: np.ndarray,
        parameters: Mapping[str, object],
        in_round: int = 0,
    ) -> Group:
        check_name(self.groups, mechanism)
        area_at = np.zeros_like if mechanism.kind == "artificial" else self._inside.places.area_at
        values = values_of(self._inside, mechanism, nodes, area_at, parameters)
        nodes.setflags(write=False)
        name, units = mechanism.name, mechanism.units
        checked = Parameters(self._inside, name, nodes, values, parameters, units)
        if self._inside.celsius is not None or "celsius" in mechanism.program.built_in:
            checked.set_default("celsius", self.celsius)
        group = Group(self, len(self._inside.groups), mechanism, nodes, checked, in_round)
        self._inside.groups.append(group)
        net = mechanism.program.net
        if net is not None and net.emits:
            self._inside.added.emits(group)
        return group

    def nodes(self, cell: ArrayLike | None = None, at: Where = "all") -> np.ndarray:
        """Return the nodes of a region, in some cells or in all, (m,) int64.

        ``net.nodes(cell=7, at="apical")``; `at` is as in `insert`. The node at a position of a
        section is ``net.forest.cell_offsets[cell] + cable.node(section, x)``.
        """
        return self._inside.places.nodes(cell, at)

    def per_cell(self, values: ArrayLike) -> PerCell:
        """Return a parameter for `insert` or `add` from one value per cell, (num_cells,)."""
        return self._inside.places.per_cell(values)

    def add_detector(
        self, node: ArrayLike, threshold: ArrayLike = 10.0, refractory: ArrayLike = 0.0
    ) -> Sources:
        """Add sources for `connect` that spike when v at their node rises above a threshold.

        Parameters
        ----------
        node : integer or (count,) integer
        threshold : float or (count,) float, mV
        refractory : float or (count,) float, ms
            Shortest time between two spikes of a detector, rounded to whole steps. If v is above
            the threshold when it ends, v must fall below before the next spike.
        """
        return self._inside.added.add_detector(node, threshold, refractory)

    def spike_source(self, times: Sequence[ArrayLike]) -> Sources:
        """Make sources that send events at these times, as NEURON's VecStim.

        Parameters
        ----------
        times : sequence of (k,) float, ms
            Times of each source, in any order.
        """
        return self._inside.added.spike_source(times)

    def source_numbers(self, source: object, index: ArrayLike | None = None) -> np.ndarray:
        """Return the numbers that sources have in `Result.spike_cell`, (m,) int64.

        Parameters
        ----------
        source : integer array, Sources or Group
            As in `connect`.
        index : integer array, optional
            Which of the sources; default: all.
        """
        return self._inside.added.source_numbers(source, index)

    def add_artificial(
        self, mechanism: str | Mechanism, count: int = 1, **parameters: ArrayLike
    ) -> Group:
        """Add artificial cells: instances without a node that receive and send events.

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
        self._inside.before_change("add_artificial()")
        cell = find_mechanism(mechanism)
        if cell.kind != "artificial":
            raise InputError(f"{cell.name} is a {cell.kind} mechanism; use insert() or add()")
        nodes = np.full(as_whole_number("count", count, 0), -1)
        return self._group(cell, nodes, parameters)

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
        """Set values of an ion at nodes. It then exists there even if no mechanism uses it.

        Parameters
        ----------
        name : str
            Such as ``ca``.
        nodes : (count,) integer, optional
            Default: all nodes with membrane.
        valence : float, optional
        e : float or (count,) float, mV
            Initial reversal potential.
        ci, co : float or (count,) float, mM
            Initial concentrations, inside and outside.
        style : integer or (count,) integer
            NEURON's bits, as `h.ion_style` returns them; default: as NEURON chooses it from the
            mechanisms that use the ion.
        """
        nodes = np.flatnonzero(self.area > 0) if nodes is None else nodes
        values = {"e": e, "ci": ci, "co": co, "style": style}
        values = {k: v for k, v in values.items() if v is not None}
        self._inside.added.ion(name, nodes, valence, values)

    def set_pointer(
        self,
        group: Group,
        name: str,
        to: ArrayLike | tuple[Group, str, ArrayLike],
        index: ArrayLike | None = None,
    ) -> None:
        """Let a POINTER of instances refer to voltages, or to a variable of other instances.

        Parameters
        ----------
        group : Group
        name : str
            Of the pointer.
        to : integer or (count,) integer, or (Group, str, integer or (count,) integer)
            Nodes of any cells; or a group, a variable that its mechanism sets and keeps, and
            instances of the group. A POINTER that the mechanism writes must refer to such a
            variable. Mechanisms run in the order of `insert` and `add`, so a POINTER may read a
            value before or after the step has set it.
        index : (count,) integer, optional
            Which of the group's instances; default: all.
        """
        self._inside.added.set_pointer(group, name, to, index)

    def gap(self, a: ArrayLike, b: ArrayLike, g: ArrayLike) -> Group:
        """Join nodes by gap junctions; the arrays broadcast.

        Each half is a point process with ``i = g*(v - vgap)`` [nA], outward. `vgap` is the voltage
        of the other half at the beginning of the step, as with NEURON's
        ``ParallelContext.source_var`` and ``target_var``. The current is explicit: if g exceeds a
        node's capacitance over dt, voltages may oscillate.

        Parameters
        ----------
        a, b : integer or (m,) integer
            Nodes of any cells by natural index, see `nodes`.
        g : float or (m,) float, µS
            0 or more.

        Returns
        -------
        Group
            The halves at `a`, then those at `b`, 2m instances; `record` ``i`` and `set` ``g`` on
            it.
        """
        self._inside.before_change("gap()")
        a_nodes, b_nodes, conductance = as_gap_junctions(a, b, g, self.forest.num_nodes)
        mechanism, nodes = Mechanism.from_nmodl(HALF_GAP), np.concatenate([a_nodes, b_nodes])
        halves = self.add(mechanism, nodes, g=np.tile(conductance, 2))
        self.set_pointer(halves, "vgap", np.concatenate([b_nodes, a_nodes]))
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
        """Change a parameter of an instance over time, as NEURON's Vector.play.

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
            Interpolate, and go on along the last line; else ``y[k]`` holds from ``t[k]`` on.
        """
        self._inside.added.play(group, index, name, t, y, continuous)

    def geometry(self, shift: ArrayLike | None = None, turn: ArrayLike | None = None) -> Geometry:
        """Return the positions of the nodes, for a network of cables.

        Parameters
        ----------
        shift : (num_cells, 3) float, µm, optional
            Moves each cell from its cable's coordinates.
        turn : (num_cells, 3, 3) float, optional
            Rotates each cell about the origin of its cable, before the shift.
        """
        return geometry_of(self.cables, self.num_cells, shift, turn)

    def field(
        self,
        potential: ArrayLike,
        waveform: tuple[ArrayLike, ArrayLike],
        of_cell: ArrayLike | None = None,
        continuous: bool = True,
    ) -> Group:
        """Apply an extracellular potential that changes over time, such as an electrode's.

        The potential outside node i is ``scale * potential[i] * y(t)``. It acts like
        `e_extracellular` of NEURON's `extracellular`: through the currents between nodes, or behind
        the outermost layer, see `from_arrays`. `v` stays the difference across the membrane.

        Parameters
        ----------
        potential : (n,) float or (k, n) float, mV
            Of each node at y = 1, see `simulator.fields`; k rows for k waveforms that add up.
        waveform : ``(t, y)``
            t : (m,) float, ms
                Ascending; two equal times are a jump.
            y : (m,) float, or (k, m) float
                Read in the middle of each step; ``y[0]`` before the first time, ``y[-1]`` after the
                last. NEURON's Vector.play goes on along the line through the last two values.
        of_cell : (num_cells,) integer, optional
            Which of k waveforms each cell has; with one row of potentials.
        continuous : bool
            Interpolate; else ``y[k]`` holds from ``t[k]`` on, and 0 before ``t[0]``.

        Returns
        -------
        Group
            The currents. ``sim.set(group, scale=net.per_cell(...))`` sets amplitudes.
        """
        self._inside.before_change("field()")
        names = {group.mechanism.name for group in self.groups}
        numbered = ("field", *(f"field{k}" for k in range(1, len(names) + 1)))
        name = next(each for each in numbered if each not in names)
        structure = self._inside.structure
        cells = structure.forest, structure.whole("g_axial"), structure.around
        mechanism, nodes, parameters = field_of(
            cells, name, potential, waveform, of_cell, continuous
        )
        return self.add(mechanism, nodes, **parameters)

    def lfp(
        self, electrodes: ArrayLike, medium: Medium | None = None, geometry: Geometry | None = None
    ) -> np.ndarray:
        """Return the potentials at electrodes due to 1 nA from each node, by line sources.

        ``sim.record("i_membrane", "all", matrix=net.lfp(electrodes))`` records the potentials, mV.

        Parameters
        ----------
        electrodes : (k, 3) float, µm
            Outside all segments.
        medium : simulator.fields.Medium, optional
            Default: infinite and homogeneous, 0.3 S/m.
        geometry : simulator.fields.Geometry, optional
            Of all nodes; default: `geometry()`.

        Returns
        -------
        (k, m) float64, mV
            For the m nodes with membrane, as in ``nodes()``.
        """
        where = self.geometry() if geometry is None else geometry
        if not isinstance(where, Geometry):
            raise InputError(f"geometry is {type(where).__name__}; expected a Geometry")
        if len(where) != self.forest.num_nodes:
            raise InputError(f"geometry has {len(where)} nodes; expected {self.forest.num_nodes}")
        return line_matrix(where.of(self.nodes()), electrodes, medium)

    def random(self, group: Group, name: str, ids: ArrayLike, index: int = 0) -> None:
        """Set the stream numbers of a RANDOM variable, as NEURON's ``set_ids``.

        Parameters
        ----------
        group : Group
        name : str
        ids : (count, 3) integer
            For each instance of the group.
        index : int
            Global index of all streams of the network.
        """
        self._inside.added.random(group, name, ids, index)

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
        """Connect sources to instances: each event of a source is sent to the instance.

        The arrays broadcast. With `Pairs` as `index`, connect by a rule:
        ``net.connect(np.arange(3200), synapses, clhines.Pairs.bernoulli(0.02), weight=0.006)``.
        Such a connection takes 8 bytes, and 8 more for each of weight and delay that is `Drawn`.

        Parameters
        ----------
        source : integer array, Sources or Group
            Cells; a result of `add_detector` or `spike_source`; or a group whose instances send
            events.
        target : Group
            Of a mechanism that receives events.
        index : integer array or Pairs, optional
            Which of the group's instances; default: all in order. With `Pairs`, the pairs of
            sources and instances to connect.
        weight : float, (m,) or (m, k) float array, or Drawn
            In the mechanism's unit, µS for the built-in ones; default: 0, as in NEURON, and a
            warning. If the mechanism has several weights, one row per connection; missing columns
            are 0. With `Pairs` a number, or `Drawn` for each pair.
        delay : float array, ms, or Drawn
            One step or more, checked by `simulator.model.compile`; rounded to whole steps as in
            NEURON, see `delay_steps`. If events act at exact times, as with detectors or ions, any
            delay above 0, and also 0 if the source is not a cell.
        rule : Rule, optional
            From `simulator.network.plasticity`; one for all plastic connections of a network.
        source_index : integer array, optional
            Which of the sources, unless `source` is an array of cells; default: all in order.

        Returns
        -------
        Connections
            Their sources, targets, weights and delays, and their places in `Simulation.weights`.
        """
        self._inside.before_change("connect()")
        wiring = self._inside.wiring
        wiring.check_target(target)
        numbers = self._inside.added.source_numbers(source, source_index)
        connections: Connections = wiring.connect(numbers, target, index, weight, delay, rule)
        return connections

    def add_event(
        self,
        target: Group,
        index: ArrayLike = 0,
        time: ArrayLike = 0.0,
        weight: ArrayLike | None = None,
    ) -> None:
        """Send external events to instances of a group; the arrays broadcast.

        Parameters
        ----------
        target : Group
            Of a mechanism that receives events.
        index : integer array
            Which of the group's instances.
        time : float array, ms
            The event acts in the first step whose middle is not earlier, as in NEURON: see
            `event_steps`.
        weight : float array
            Default: 0, and a warning.
        """
        self._inside.before_change("add_event()")
        self._inside.wiring.check_target(target)
        weight = weight_or_none(weight, target, "add_event()")
        self._inside.wiring.add_event(target, index, time, weight)

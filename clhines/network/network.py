"""Network: cells with mechanisms, synapses and connections, and the arrays that they become.

`Network` is what the user describes, cell after cell in natural order; `Network.compile` checks it
and makes a `Model`, the arrays that every executor takes. Cells are rooted at their somas, so
that a soma is eliminated last: what is active only there leaves all other factors constant.

Units are NEURON's: mV, ms, nA, µS and nF at nodes and in point processes, S/cm² and mA/cm² in
mechanisms of the membrane, µm² for areas.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from clhines.arrays import repeat, repeated_nodes
from clhines.cells.cable import Cable, check_cables
from clhines.checks import (
    as_array,
    as_finite,
    as_indices,
    as_number,
    as_seed,
    as_whole_number,
    shown,
    spread,
)
from clhines.errors import InputError, meant
from clhines.forest import Forest
from clhines.hostmemory import check_room
from clhines.mechanisms import mechanism as find_mechanism
from clhines.mechanisms.mechanism import Mechanism
from clhines.network.groups import Group, Parameters
from clhines.network.instances import kinds_of
from clhines.network.model import Model, as_parameter, rooted_at_soma
from clhines.network.plasticity import STDP
from clhines.network.wiring import Wiring

_WORDS = ("soma", "soma.middle", "dendrites", "all")
_NODE_BYTES = 8 * 8  # of the forest and of the arrays of a `Model`


class Network:
    """Cells, what is in their membranes, and how they are connected.

    What is needed of the cables is read here. A network is frozen once a `Simulation` has been made
    of it: all that would change it raises `InputError`, as no simulation would see it. More
    simulations can be made of it.

    Parameters
    ----------
    cables : Cable or sequence of Cable
        Repeated in turn to `num_cells` cells.
    num_cells : int, optional
        Default: one of each.

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
    frozen : bool
        Whether a `Simulation` has been made of it.
    threshold : float or (num_cells,) float64, mV
        A cell spikes when the middle of its soma comes from below to this voltage or above; 10 at
        first.

    Raises
    ------
    InputError
        Here and in all methods: what was got, what was expected and where, in one line.
    """

    def __init__(self, cables: Cable | Sequence[Cable], num_cells: int | None = None) -> None:
        cables = check_cables(cables)
        count = len(cables) if num_cells is None else as_whole_number("num_cells", num_cells, 1)
        check_room(
            _NODE_BYTES * repeated_nodes([c.num_nodes for c in cables], count), f"{count} cells"
        )
        self._frozen = False
        self.cables, self.num_cells = tuple(cables), count
        different = {id(cable): cable for cable in cables}
        rooted = {key: rooted_at_soma(cable) for key, cable in different.items()}
        turns = [rooted[id(cable)] for cable in cables]
        self.forest = Forest.repeated([parent for parent, _ in turns], count)
        starts = self.forest.cell_offsets[:-1]
        self.soma = starts + np.resize([cable.soma for cable in cables], count)
        self.area = repeat([cable.area for cable in cables], count)
        self.threshold = 10.0
        self._groups: list[Group] = []
        self._g_axial = [g for _, g in turns]
        taken = {key: (c.capacitance.copy(), c.g_total.copy()) for key, c in different.items()}
        self._capacitance, self._g_total = zip(*(taken[id(cable)] for cable in cables), strict=True)
        for array in (self.soma, self.area):
            array.setflags(write=False)
        self._wiring = Wiring(self, count)

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            self.check_not_frozen(name)
            if "_wiring" in vars(self) and name != "threshold":
                raise InputError(f"{name} cannot be set; expected threshold, or methods")
        super().__setattr__(name, value)

    def check_not_frozen(self, what: str) -> None:
        """Raise InputError, naming `what` was to be changed, if the network is frozen."""
        if self._frozen:
            raise InputError(
                f"{what}: the network is frozen, as a Simulation was made of it; expected changes "
                "before that, or a new Network"
            )

    def freeze(self) -> None:
        """Refuse all changes from now on; done when a `Simulation` has been made."""
        self._frozen = True
        arrays = [
            self._threshold,
            *(v for group in self._groups for v in group.parameters.values()),
        ]
        for array in arrays:
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    @property
    def frozen(self) -> bool:
        """Whether a `Simulation` has been made of it."""
        return self._frozen

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups, in the order in which they came."""
        return tuple(self._groups)

    @property
    def threshold(self) -> float | np.ndarray:
        """Float or (num_cells,) float64, mV: at which a cell spikes."""
        return self._threshold

    @threshold.setter
    def threshold(self, value: object) -> None:
        checked = as_finite("threshold", np.atleast_1d(as_array("threshold", value)))
        scalar = np.ndim(value) == 0  # type: ignore[arg-type]
        self._threshold: float | np.ndarray = float(checked[0]) if scalar else checked

    def __repr__(self) -> str:
        groups = ", ".join(f"{g.mechanism.name} × {len(g)}" for g in self.groups)
        return f"Network({self.num_cells} cells, {self.forest.num_nodes} nodes; {groups})"

    # -- mechanisms ----------------------------------------------------------------------------

    def insert(
        self, mechanism: str | Mechanism, where: ArrayLike = "all", **parameters: ArrayLike
    ) -> Group:
        """Put a mechanism into the membrane of nodes.

        Parameters
        ----------
        mechanism : str or Mechanism
            Name of a built-in one, a mechanism, or its text; of kind ``density``.
        where : "soma", "soma.middle", "dendrites" or "all"; (count,) integer; (n,) bool
            ``soma`` is all segments of the soma, of all its sections if it branches, as in
            NEURON; ``soma.middle`` the one in its middle, `soma`; ``dendrites`` all that is not
            the soma, axons too. Or nodes by natural index, or a mask. Junctions have no membrane:
            the words leave them out, and they are refused elsewhere. The first two words are
            refused if a cell has no soma.
        **parameters : float or (count,) float64
            Those not given have the mechanism's defaults.

        Returns
        -------
        Group
        """
        self.check_not_frozen("insert()")
        found = find_mechanism(mechanism)
        if found.kind != "density":
            raise InputError(f"{found.name} is a {found.kind} process; use add() for it")
        nodes = self._nodes_where(where)
        if len(nodes) and not self.area[nodes].all():
            node = nodes[int(np.argmin(self.area[nodes]))]
            raise InputError(
                f"{found.name}: node {node} of cell {self._cell_of(node)} is a junction without "
                "membrane; expected nodes with an area"
            )
        nodes = self._distinct(found, nodes)
        return self._group(found, nodes, parameters)

    def add(self, mechanism: str | Mechanism, at: ArrayLike, **parameters: ArrayLike) -> Group:
        """Add point processes, one at each of the nodes given.

        Parameters
        ----------
        mechanism : str or Mechanism
            Name of a built-in one, a mechanism, or its text; of kind ``point``.
        at : integer or (count,) integer
            Nodes by natural index; one may come several times.
        **parameters : float or (count,) float64
            Those not given have the mechanism's defaults.

        Returns
        -------
        Group
        """
        self.check_not_frozen("add()")
        found = find_mechanism(mechanism)
        if found.kind != "point":
            raise InputError(f"{found.name} is a {found.kind} mechanism; use insert() for it")
        nodes = self._checked_nodes("at", np.atleast_1d(as_array("at", at)))
        return self._group(found, nodes, parameters)

    def _group(
        self, mechanism: Mechanism, nodes: np.ndarray, parameters: dict[str, ArrayLike]
    ) -> Group:
        for other in self.groups:
            if other.mechanism.name == mechanism.name and other.mechanism != mechanism:
                raise InputError(f"there is another mechanism called {mechanism.name} here")
        known = mechanism.parameters
        for name in parameters:
            if name not in known:
                raise InputError(
                    f"{mechanism.name} has no parameter {shown(name)}; expected one of "
                    f"{', '.join(known) or 'none'}{meant(name, known)}"
                )
        default = mechanism.defaults
        values = {
            name: as_parameter(
                mechanism.name, name, parameters.get(name, default[name]), len(nodes)
            )
            for name in known
        }
        nodes.setflags(write=False)
        given = Parameters(self, mechanism.name, len(nodes), values)
        group = Group(self, len(self._groups), mechanism, nodes, given)
        self._groups.append(group)
        return group

    def _nodes_where(self, where: ArrayLike) -> np.ndarray:
        if isinstance(where, str):
            if where not in _WORDS:
                raise InputError(
                    f"where={shown(where)}; expected {', '.join(_WORDS)}, nodes or a mask"
                )
            if where == "all":
                return np.flatnonzero(self.area > 0)
            in_soma = repeat([cable.in_soma for cable in self.cables], self.num_cells)
            if where == "dendrites":
                return np.flatnonzero((self.area > 0) & ~in_soma)
            _check_somas(self.cables[: self.num_cells], where)
            return self.soma if where == "soma.middle" else np.flatnonzero(in_soma)
        nodes = np.atleast_1d(as_array("where", where))
        if nodes.dtype.kind != "b":
            return self._checked_nodes("where", nodes)
        if nodes.shape != (self.forest.num_nodes,):
            raise InputError(
                f"where is a mask of shape {nodes.shape}; expected ({self.forest.num_nodes},)"
            )
        return np.flatnonzero(nodes)

    def _checked_nodes(self, name: str, nodes: np.ndarray) -> np.ndarray:
        return as_indices(name, nodes, self.forest.num_nodes, "node")

    def _cell_of(self, node: int) -> int:
        return int(np.searchsorted(self.forest.cell_offsets, node, side="right")) - 1

    def _distinct(self, mechanism: Mechanism, nodes: np.ndarray) -> np.ndarray:
        """Refuse a mechanism that would be in the same membrane twice."""
        here = [g.nodes for g in self.groups if g.mechanism.name == mechanism.name]
        every = np.sort(np.concatenate([nodes, *here]))
        again = every[1:][every[1:] == every[:-1]]
        if len(again):
            node = int(again[0])
            raise InputError(
                f"{mechanism.name} is in node {node} of cell {self._cell_of(node)} twice; expected "
                "each mechanism of the membrane once in a node"
            )
        return nodes

    # -- connections ---------------------------------------------------------------------------

    def connect(
        self,
        source: ArrayLike,
        target: Group,
        index: ArrayLike | None = None,
        weight: ArrayLike = 0.0,
        delay: ArrayLike = 1.0,
        rule: STDP | None = None,
    ) -> None:
        """Send an event to a synapse at each spike of a cell; the arrays broadcast.

        Parameters
        ----------
        source : integer array
            Cells.
        target : Group
            Of a mechanism that takes events.
        index : integer array, optional
            Which of the group's instances; default: all of them in order.
        weight : float array
            In the unit of the mechanism, µS for the built-in ones.
        delay : float array, ms
            One step or more, which `compile` checks. It acts after the nearest whole number of
            steps, n + 1/2 steps after n + 1, as in NEURON: see `delay_steps`.
        rule : STDP, optional
            Of `clhines.network.plasticity`: changes the weights with the spikes of both ends. All
            plastic connections of a network have one rule.
        """
        self.check_not_frozen("connect()")
        self._wiring.check_target(target)
        index = np.arange(len(target)) if index is None else index
        self._wiring.connect(source, target, index, weight, delay, rule)

    def event(
        self, target: Group, index: ArrayLike = 0, time: ArrayLike = 0.0, weight: ArrayLike = 0.0
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
        """
        self.check_not_frozen("event()")
        self._wiring.check_target(target)
        self._wiring.event(target, index, time, weight)

    # -- arrays --------------------------------------------------------------------------------

    def compile(
        self, dt: float = 0.025, v_init: ArrayLike = -65.0, secondorder: bool = False, seed: int = 0
    ) -> Model:
        """Check the whole and make the arrays that executors take.

        Parameters
        ----------
        dt : float, ms
        v_init : float or (n,) float64, mV
        secondorder : bool, or 0 or 2 as in NEURON
            NEURON's ``secondorder = 2``: half a step implicitly, then extrapolated.
        seed : int
            Of the noise.

        Returns
        -------
        Model
        """
        dt = float(as_number("dt", dt))
        if not dt > 0:
            raise InputError(f"dt is {dt:g} ms; expected above 0")
        n, u = self.forest.num_nodes, -repeat(self._g_axial, self.num_cells)
        constant_d, constant_b = self._axial_sums(), np.zeros(n)
        kinds, instances = kinds_of(self.groups, self.area, constant_d, constant_b)
        first = np.array([kinds[k].first_target if k >= 0 else -1 for k, _ in instances], int)
        targets = sum(k.count for k in kinds if k.first_target >= 0)
        return Model(
            forest=self.forest,
            soma=self.soma,
            u=u,
            capacitance=repeat(self._capacitance, self.num_cells),
            area=self.area,
            constant_d=constant_d,
            constant_b=constant_b,
            kinds=kinds,
            instances=instances,
            num_targets=targets,
            connections=self._wiring.compiled_connections(dt, targets, first, instances),
            events=self._wiring.compiled_events(dt, first, instances),
            threshold=spread("threshold", self.threshold, self.num_cells),
            v_init=spread("v_init", v_init, n),
            dt=dt,
            secondorder=_second_order(secondorder),
            seed=as_seed(seed),
        )

    def _axial_sums(self) -> np.ndarray:
        """(n,) float64, µS: sum of the axial conductances at each node."""
        return repeat(self._g_total, self.num_cells)


def _check_somas(cables: Sequence[Cable], where: str) -> None:
    for k, cable in enumerate(cables):
        if not cable.sections.has_soma:
            raise InputError(
                f"where={shown(where)}: cell {k} ({cable.name}) has no soma, no sample of "
                "type 1; expected all, nodes or a mask"
            )


def _second_order(value: object) -> bool:
    """Take True, False, and NEURON's 0 and 2; its 1 is another method."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if not isinstance(value, (int, np.integer)) or value not in (0, 2):
        raise InputError(f"secondorder is {shown(value)}; expected True or False")
    return value == 2

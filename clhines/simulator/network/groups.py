"""Groups: one mechanism's instances, their nodes and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from clhines.core.arrays import ascending, stretch_of
from clhines.core.checks import as_array, as_real
from clhines.core.errors import InputError, shown
from clhines.core.quantities import as_numbers
from clhines.simulator.common.checks import check_parameter, unchangeable
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.network.structure import Places, Structure
from clhines.solver.forest import Forest

ABSOLUTE_ZERO = -273.15  # °C


class Parameters(dict[str, "float | np.ndarray"]):
    """A group's parameters by name; read-only if a simulation uses the network."""

    def __init__(
        self,
        network: Inside,
        mechanism: str,
        nodes: np.ndarray,
        values: dict[str, float | np.ndarray],
        set_names: Iterable[str] = (),
        units: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(values)
        self._network, self._mechanism, self._nodes = network, mechanism, nodes
        self._set_names = set(set_names)  # other parameters have their defaults
        self._units = units or {}

    def __setitem__(self, name: str, value: object) -> None:
        self._network.before_change(f"{self._mechanism}: {name}")
        check_parameter(self._mechanism, name, self)
        unit = self._units.get(name)
        checked = self._network.parameter(self._mechanism, name, value, self._nodes, unit)
        super().__setitem__(name, checked)
        self._set_names.add(name)

    @property
    def given(self) -> tuple[str, ...]:
        return tuple(name for name in self if name in self._set_names)

    def set_default(self, name: str, value: float) -> None:
        if name in self and name not in self._set_names:
            super().__setitem__(name, value)

    def update(  # type: ignore[override]
        self, other: Mapping[str, object] | Iterable[tuple[str, object]] = (), /, **named: object
    ) -> None:
        for name, value in dict(other, **named).items():
            self[name] = value

    def _refuse(self, *_: object) -> NoReturn:
        raise InputError(f"{self._mechanism}: parameters can only be set; expected a new value")

    __delitem__ = clear = pop = popitem = setdefault = _refuse

    def __ior__(  # type: ignore[override, misc]
        self, other: Mapping[str, object] | Iterable[tuple[str, object]]
    ) -> Parameters:
        self.update(other)
        return self

    def __reduce__(self) -> tuple[object, ...]:
        arguments = self._network, self._mechanism, self._nodes, dict(self)
        return Parameters, (*arguments, self._set_names, self._units)


@unchangeable(
    "sim.set(group, NAME=...), or group.parameters[NAME] = ... before a Simulation is made"
)
@dataclass(frozen=True, eq=False)
class Group:
    """Instances of a mechanism that one call inserted or added.

    Attributes
    ----------
    network : Network
    number : int
        Index in `Network.groups`.
    nodes : (count,) int64
        Natural index of each instance's node, in the order of the call.
    parameters : dict of name -> float or (count,) float64
        Can be replaced until a `Simulation` uses the network.
    in_round : int
        How many of `nodes` are in the first cells of all cables; 0 if no cable is repeated.
    """

    network: Any = field(repr=False)
    number: int
    mechanism: Mechanism
    nodes: np.ndarray
    parameters: dict[str, float | np.ndarray] = field(repr=False)
    in_round: int = field(default=0, repr=False)

    def __getattr__(self, name: str) -> Any:
        parameters = vars(self).get("parameters", {})
        expected = f"; expected parameters[{name!r}]" if name in parameters else ""
        raise AttributeError(f"Group has no attribute {shown(name)}{expected}")

    def __repr__(self) -> str:
        return f"Group({self.number}: {self.mechanism.name} × {len(self)})"

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def given(self) -> tuple[str, ...]:
        """The names of parameters that were set; all names if that is unknown."""
        parameters = self.parameters
        return parameters.given if isinstance(parameters, Parameters) else tuple(parameters)

    def freeze(self) -> None:
        for array in self.parameters.values():
            if isinstance(array, np.ndarray):
                array.setflags(write=False)


class Inside:
    """A network's internals, for other modules of the package."""

    added: Any  # an `Additions`; its module imports this one
    wiring: Any  # a `Wiring`, likewise
    of_copies = False  # whether its cells are another network's copies

    def __init__(self, structure: Structure) -> None:
        self.structure, self.places = structure, Places(structure)
        self.num_cells = structure.forest.num_cells
        self.groups, self.frozen = list[Group](), False
        self.threshold: float | np.ndarray = 10.0
        self.celsius: float | None = None

    def before_change(self, what: str) -> None:
        """Raise InputError if a simulation uses the network; `what` names the change."""
        if self.frozen:
            raise InputError(
                f"{what}: the network is frozen, because a Simulation uses it; expected changes "
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
        value, cells = as_numbers(what, value, unit), 0
        if not len(nodes) or nodes[0] >= 0:  # artificial cells have no nodes
            value, cells = self.places.resolved(what, value, nodes, unit), self.num_cells
        return as_parameter(mechanism, name, value, len(nodes), cells)

    def connect(self, source: np.ndarray, target: Group, *arguments: Any) -> Any:
        self.before_change("connect()")
        self.wiring.check_target(target)
        return self.wiring.connect(source, target, *arguments)


def inside(network: Any) -> Inside:
    parts: Inside = network._inside
    return parts


def is_field(mechanism: Mechanism) -> bool:
    """Whether `Network.field` made the mechanism."""
    names = {*mechanism.parameters} - {"waveform"}
    return mechanism.name.startswith("field") and names == {"amp", "scale"}


def values_of(
    network: Inside,
    mechanism: Mechanism,
    nodes: np.ndarray,
    area_at: Callable[[np.ndarray], np.ndarray],
    parameters: Mapping[str, object],
) -> dict[str, float | np.ndarray]:
    names, built_in = mechanism.settable, mechanism.program.built_in
    for name in parameters:
        check_parameter(mechanism.name, name, names)
    default: dict[str, object] = {**mechanism.settable}
    if "area" in built_in:
        default["area"] = area_at(nodes)
    if "diam" in built_in and "diam" not in parameters:
        raise InputError(f"{mechanism.name} uses diam; expected diam= for its nodes, in µm")
    if unknown := [n for n in mechanism.program.beside if n not in parameters]:
        raise InputError(
            f"{mechanism.name}: {unknown[0]} is set while NEURON makes a TABLE, but is not a "
            f"column; expected {unknown[0]}=, or from_nmodl(..., use_tables=False), in NEURON "
            f"usetable_{mechanism.name} = 0"
        )
    return {
        name: network.parameter(mechanism.name, name, value, nodes, mechanism.units.get(name))
        for name, value in {**default, **parameters}.items()
    }


def check_name(groups: Sequence[Group], mechanism: Mechanism) -> None:
    for other in groups:
        if other.mechanism.name == mechanism.name and other.mechanism != mechanism:
            raise InputError(f"there is another mechanism called {mechanism.name} here")


def check_once(
    groups: Sequence[Group], mechanism: Mechanism, nodes: np.ndarray, forest: Forest, in_round: int
) -> None:
    here = [g.nodes for g in groups if g.mechanism.name == mechanism.name]
    if not here and ascending(nodes[: in_round or None]):
        return
    every = np.sort(np.concatenate([nodes, *here]))
    again = every[1:][every[1:] == every[:-1]]
    if len(again):
        node = int(again[0])
        cell = int(stretch_of(forest.cell_offsets, node))
        raise InputError(
            f"{mechanism.name} is in node {node} of cell {cell} twice; expected each mechanism of "
            "the membrane once in a node"
        )


def check_celsius(name: str, value: float | np.ndarray) -> None:
    least = np.min(value, initial=np.inf)
    if least <= ABSOLUTE_ZERO:
        raise InputError(f"{name} is {least:g} °C; expected above {ABSOLUTE_ZERO:g} °C")


def as_parameter(
    mechanism: str, name: str, value: object, count: int, cells: int
) -> float | np.ndarray:
    """Check a parameter for `count` instances; return a number or (count,) float64.

    The error message also names one value for each of `cells` cells, unless that is 0.
    """
    array = as_array(f"{mechanism}: {name}", value)
    if array.shape not in ((), (count,)):
        others = f", ({cells},) by cell" if cells not in (0, count) else ""
        raise InputError(
            f"{mechanism}: {name} has shape {array.shape}; expected a number, ({count},) by "
            f"instance{others}, or a function of the distance"
        )
    checked = as_real(f"{mechanism}: {name}", np.atleast_1d(array))
    if name == "celsius":
        check_celsius(f"{mechanism}: {name}", checked)
    return checked if array.ndim else float(checked[0])


def check_begins(settings: Mapping[str, float], what: str) -> None:
    """Raise InputError if a network was read from NEURON after t = 0; `what` needs t = 0."""
    t = settings.get("t", 0.0)
    if t > 0:
        raise InputError(
            f"{what}: the model was read from NEURON at t = {t:g} ms; expected h.finitialize() "
            "before from_neuron()"
        )

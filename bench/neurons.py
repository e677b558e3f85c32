"""Neurons for the measure `cells`: channels, densities by region, made-up morphologies.

`l5pc` resembles the layer 5 pyramidal cell of Hay et al. (2011): the published equations of nine
channels, without calcium dynamics, and ``pas``, at 34 degC. `l5pc-table` is the same cell with
mechanisms from ``mods``, which tabulate their rates (TABLE). `l5pc-firing`, for the measure
`variants`, has other densities and no current clamp. `granule` is small and has most of its
channels in soma and axon. `purkinje` is large and also uses mechanisms from files: kinetic schemes
for sodium, for a calcium-gated current and for calcium, which one current provides and two read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from clhines.simulator.cells.cable import Cable, discretise
from clhines.simulator.cells.morphology import Morphology
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.network.network import Network

MODS = Path(__file__).parent / "mods"
CELSIUS = 34.0
CI, CO = 1e-4, 2.0  # mM, calcium at the start, inside and outside
DT, V_INIT = 0.025, -80.0  # ms, mV
START, THRESHOLD, E_PAS = 2.0, -20.0, -90.0  # ms, mV, mV
E_NA, E_K, E_CA = 50.0, -85.0, 132.0  # mV; calcium is constant
SOMA, AXON, BASAL, APICAL = 1, 2, 3, 4  # as in SWC

_HEAD = """
    density {name}
    parameter gbar = 0 S/cm2
    parameter e = {reversal} mV
    qt = 2.3^((34 - 21)/10)
"""
_OPENING = """
    alpha_m = 0.182*(v + 38)/(1 - exp(-(v + 38)/6)) [1/ms]
    beta_m = -0.124*(v + 38)/(1 - exp((v + 38)/6)) [1/ms]
"""
_BODIES: dict[str, tuple[float, str]] = {  # reversal potential, equations
    "nata": (
        E_NA,
        _OPENING
        + """
    alpha_h = -0.015*(v + 66)/(1 - exp((v + 66)/6)) [1/ms]
    beta_h = 0.015*(v + 66)/(1 - exp(-(v + 66)/6)) [1/ms]
    state m = alpha_m/(alpha_m + beta_m)
    state h = alpha_h/(alpha_h + beta_h)
    dm/dt = qt*(alpha_m*(1 - m) - beta_m*m)
    dh/dt = qt*(alpha_h*(1 - h) - beta_h*h)
    current i = gbar*m^3*h*(v - e) [mA/cm2]
""",
    ),
    "nap": (
        E_NA,
        _OPENING
        + """
    m_inf = 1/(1 + exp(-(v + 52.6)/4.6))
    h_inf = 1/(1 + exp((v + 48.8)/10))
    alpha_h = -2.88e-6*(v + 17)/(1 - exp((v + 17)/4.63)) [1/ms]
    beta_h = 6.94e-6*(v + 64.4)/(1 - exp(-(v + 64.4)/2.63)) [1/ms]
    state m = m_inf
    state h = h_inf
    dm/dt = (m_inf - m)*qt*(alpha_m + beta_m)/6
    dh/dt = (h_inf - h)*qt*(alpha_h + beta_h)
    current i = gbar*m^3*h*(v - e) [mA/cm2]
""",
    ),
    "kp": (
        E_K,
        """
    m_inf = 1/(1 + exp(-(v + 11)/12))
    h_inf = 1/(1 + exp((v + 64)/11))
    tau_m = 1.25 + where(v < -60, 175.03*exp(0.026*(v + 10)), 13*exp(-0.026*(v + 10))) [ms]
    tau_h = 360 + (1010 + 24*(v + 65))*exp(-((v + 85)/48)^2) [ms]
    state m = m_inf
    state h = h_inf
    dm/dt = (m_inf - m)*qt/tau_m
    dh/dt = (h_inf - h)*qt/tau_h
    current i = gbar*m^2*h*(v - e) [mA/cm2]
""",
    ),
    "kt": (
        E_K,
        """
    m_inf = 1/(1 + exp(-(v + 10)/19))
    h_inf = 1/(1 + exp((v + 76)/10))
    tau_m = 0.34 + 0.92*exp(-((v + 81)/59)^2) [ms]
    tau_h = 8 + 49*exp(-((v + 83)/23)^2) [ms]
    state m = m_inf
    state h = h_inf
    dm/dt = (m_inf - m)*qt/tau_m
    dh/dt = (h_inf - h)*qt/tau_h
    current i = gbar*m^4*h*(v - e) [mA/cm2]
""",
    ),
    "skv": (
        E_K,
        """
    m_inf = 1/(1 + exp(-(v - 18.7)/9.7))
    tau = 4/(1 + exp(-(v + 46.56)/44.14)) [ms]
    state m = m_inf
    dm/dt = (m_inf - m)/tau
    current i = gbar*m*(v - e) [mA/cm2]
""",
    ),
    "im": (
        E_K,
        """
    alpha = 3.3e-3*exp(0.1*(v + 35)) [1/ms]
    beta = 3.3e-3*exp(-0.1*(v + 35)) [1/ms]
    state m = alpha/(alpha + beta)
    dm/dt = qt*(alpha*(1 - m) - beta*m)
    current i = gbar*m*(v - e) [mA/cm2]
""",
    ),
    "ih": (
        -45.0,
        """
    alpha = 0.00643*(v + 154.9)/(exp((v + 154.9)/11.9) - 1) [1/ms]
    beta = 0.193*exp(v/33.1) [1/ms]
    state m = alpha/(alpha + beta)
    dm/dt = alpha*(1 - m) - beta*m
    current i = gbar*m*(v - e) [mA/cm2]
""",
    ),
    "cahva": (
        E_CA,
        """
    alpha_m = -0.055*(v + 27)/(exp(-(v + 27)/3.8) - 1) [1/ms]
    beta_m = 0.94*exp(-(v + 75)/17) [1/ms]
    alpha_h = 0.000457*exp(-(v + 13)/50) [1/ms]
    beta_h = 0.0065/(exp(-(v + 15)/28) + 1) [1/ms]
    state m = alpha_m/(alpha_m + beta_m)
    state h = alpha_h/(alpha_h + beta_h)
    dm/dt = alpha_m*(1 - m) - beta_m*m
    dh/dt = alpha_h*(1 - h) - beta_h*h
    current i = gbar*m^2*h*(v - e) [mA/cm2]
""",
    ),
    "calva": (
        E_CA,
        """
    m_inf = 1/(1 + exp(-(v + 40)/6))
    h_inf = 1/(1 + exp((v + 90)/6.4))
    tau_m = 5 + 20/(1 + exp((v + 35)/5)) [ms]
    tau_h = 20 + 50/(1 + exp((v + 50)/7)) [ms]
    state m = m_inf
    state h = h_inf
    dm/dt = (m_inf - m)*qt/tau_m
    dh/dt = (h_inf - h)*qt/tau_h
    current i = gbar*m^2*h*(v - e) [mA/cm2]
""",
    ),
}
CHANNELS = {k: _HEAD.format(name=k, reversal=e) + body for k, (e, body) in _BODIES.items()}

Densities = dict[str, dict[int, float]]  # by channel, S/cm2 by region
_L5PC: Densities = {
    "pas": {SOMA: 3.38e-5, AXON: 3.25e-5, BASAL: 4.67e-5, APICAL: 5.89e-5},
    "nata": {SOMA: 2.04, APICAL: 0.0213},
    "nap": {SOMA: 0.00172},
    "kp": {SOMA: 0.00223},
    "kt": {SOMA: 0.0812},
    "skv": {SOMA: 0.693, APICAL: 0.000261},
    "im": {APICAL: 6.75e-5},
    "ih": {SOMA: 0.0002, BASAL: 0.0002, APICAL: 0.0002},
    "cahva": {SOMA: 0.000992, APICAL: 0.000555},
    "calva": {SOMA: 0.00343, APICAL: 0.0187},
}
# Without an SK channel it would not return from a spike to rest: more `im`, less inward current.
_FIRING: Densities = {
    **_L5PC,
    "nata": {SOMA: 2.04, APICAL: 1e-5},
    "nap": {SOMA: 1e-4},
    "im": {SOMA: 0.02, APICAL: 6.75e-5},
    "cahva": {SOMA: 1e-4, APICAL: 1e-6},
    "calva": {SOMA: 1e-4, APICAL: 1e-5},
}
_GRANULE: Densities = {
    "pas": {SOMA: 5e-5, AXON: 5e-5, BASAL: 5e-5},
    "nata": {SOMA: 0.5, AXON: 1.0},
    "nap": {SOMA: 0.001},
    "kp": {SOMA: 0.002, AXON: 0.002},
    "kt": {SOMA: 0.05},
    "skv": {SOMA: 0.3, AXON: 0.3},
    "im": {SOMA: 1e-4},
    "ih": {SOMA: 1e-4},
    "cahva": {SOMA: 5e-4},
    "calva": {SOMA: 2e-3, BASAL: 1e-3},
}
_PURKINJE: Densities = {  # calcium first, as in NEURON: its states advance before other states
    "cadyn": {SOMA: 0.2, BASAL: 0.2},
    "pas": {SOMA: 1e-4, BASAL: 3e-5},
    "bk": {SOMA: 5e-3, BASAL: 2e-3},
    "cap": {SOMA: 5e-4, BASAL: 2e-4},
    "kv3": {SOMA: 0.1, BASAL: 1e-4},
    "nars": {SOMA: 0.15},
    "sk": {SOMA: 1e-4, BASAL: 1e-4},
}
_GIVEN = {"pas": "g", "cadyn": "depth"}  # parameter for a density; others: gbar


class _Sketch:
    """A morphology with straight branches, added one by one."""

    def __init__(self, soma_radius: float, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.parent, self.radius, self.type = [-1], [soma_radius], [SOMA]
        self.xyz = [np.zeros(3)]

    def branch(self, at: int, kind: int, length: float, radius: float, samples: int = 4) -> int:
        away = self.rng.normal(size=3)
        away /= np.linalg.norm(away)
        begin = self.xyz[at] + (away * self.radius[0] if at == 0 else 0)
        for k in range(0 if at == 0 else 1, samples + 1):
            self.parent.append(at)
            self.xyz.append(begin + away * (length * k / samples))
            self.radius.append(radius)
            self.type.append(kind)
            at = len(self.parent) - 1
        return at

    def fork(self, at: int, kind: int, length: float, radius: float, levels: int) -> None:
        for _ in range(2 if levels else 0):
            longer = length * self.rng.uniform(0.7, 1.3)
            end = self.branch(at, kind, longer, radius)
            self.fork(end, kind, length, radius * 0.8, levels - 1)

    def morphology(self, name: str) -> Morphology:
        n = len(self.parent)
        return Morphology(
            parent=np.array(self.parent, np.int64),
            xyz=np.array(self.xyz),
            radius=np.array(self.radius),
            type=np.array(self.type, np.int64),
            id=np.arange(1, n + 1, dtype=np.int64),
            line=np.zeros(n, np.int64),
            name=name,
        )


def pyramidal(seed: int = 1) -> Morphology:
    """Return a pyramidal cell: basal dendrites, a trunk with obliques, a tuft, an axon."""
    cell = _Sketch(9.0, seed)
    axon = cell.branch(0, AXON, 30.0, 0.5)
    cell.branch(axon, AXON, 30.0, 0.5)
    for _ in range(10):
        cell.fork(cell.branch(0, BASAL, 50.0, 1.0), BASAL, 95.0, 0.7, 2)
    trunk = 0
    for k in range(12):
        trunk = cell.branch(trunk, APICAL, 40.0, 2.5 - 0.1 * k)
        cell.fork(cell.branch(trunk, APICAL, 38.0, 0.6), APICAL, 55.0, 0.5, 1)
    cell.fork(trunk, APICAL, 75.0, 0.8, 5)
    return cell.morphology("pyramidal")


def small(seed: int = 1) -> Morphology:
    """Return a cell like a granule cell: four short dendrites and an axon."""
    cell = _Sketch(3.0, seed)
    for _ in range(4):
        cell.branch(0, BASAL, 15.0, 0.4)
    cell.fork(cell.branch(0, AXON, 60.0, 0.15), AXON, 100.0, 0.1, 1)
    return cell.morphology("granule")


def purkinje(seed: int = 1) -> Morphology:
    """Return a cell like a Purkinje cell: a trunk that forks eight times."""
    cell = _Sketch(11.0, seed)
    trunk = cell.branch(0, BASAL, 30.0, 2.5)
    cell.fork(trunk, BASAL, 35.0, 1.8, 8)
    return cell.morphology("purkinje")


@dataclass(frozen=True)
class Neuron:
    """A neuron in this module."""

    densities: Densities
    amp: float  # nA, current into the soma from 2 ms on
    longest: float  # µm, longest compartment
    morphology: Callable[[], Morphology]  # makes the one that is made up
    from_files: bool = False  # mechanisms in the files in ``mods``; else in the texts
    tables: bool = False  # their TABLE statements count
    # `Network.ion` arguments by ion
    ions: dict[str, dict[str, float]] = field(default_factory=dict)

    def mechanism(self, name: str) -> str | Mechanism:
        if name == "pas":
            return name
        return _from_file(name, self.tables) if self.from_files else CHANNELS[name]


@cache
def _from_file(name: str, tables: bool) -> Mechanism:
    return Mechanism.from_nmodl(MODS / f"{name}.mod", use_tables=tables)


_FIXED = {"na": {"e": E_NA}, "k": {"e": E_K}, "ca": {"e": E_CA}}
_CALCIUM = {"na": {"e": E_NA}, "k": {"e": E_K}, "ca": {"ci": CI, "co": CO}}
NEURONS = {
    "l5pc": Neuron(_L5PC, 1.5, 20.0, pyramidal),
    "l5pc-firing": Neuron(_FIRING, 0.0, 20.0, pyramidal),
    "l5pc-table": Neuron(_L5PC, 1.5, 20.0, pyramidal, True, True, _FIXED),
    "granule": Neuron(_GRANULE, 0.02, 10.0, small),
    "purkinje": Neuron(_PURKINJE, 2.0, 10.0, purkinje, True, True, _CALCIUM),
}


def without_tables(text: str) -> str:
    return re.sub(r"(?m)^ *TABLE .*\n", "", text)


def cable_of(name: str, cell: Morphology | None = None) -> Cable:
    neuron = NEURONS[name]
    return discretise(cell or neuron.morphology(), max_length=neuron.longest)


def regions(cable: Cable) -> np.ndarray:
    """Return each node's region, (n,) int64; a soma section's other nodes are dendrite."""
    region = cable.sections.type[cable.section]
    return np.where(cable.in_soma, SOMA, np.where(region == SOMA, BASAL, region))


def density_of(name: str, channel: str, cable: Cable) -> np.ndarray:
    """(n,) float64: a channel's density, or another given number, at each node; 0 for none."""
    region, density = regions(cable), np.zeros(cable.num_nodes)
    for number, value in NEURONS[name].densities[channel].items():
        density[region == number] = value
    return np.where(cable.area > 0, density, 0.0)


def neurons(name: str, cable: Cable, copies: int) -> Network:
    """Return neuron copies, with a current into each soma."""
    neuron, network = NEURONS[name], Network(cable, copies)
    for channel in neuron.densities:
        density = density_of(name, channel, cable)
        here = np.flatnonzero(density)
        nodes = (np.arange(copies)[:, None] * cable.num_nodes + here).reshape(-1)
        parameters = {given_as(channel): np.tile(density[here], copies)}
        parameters |= {"e": np.float64(E_PAS)} if channel == "pas" else {}
        network.insert(neuron.mechanism(channel), nodes, **parameters)
    for ion, values in neuron.ions.items():
        network.ion(ion, **values)
    if neuron.ions:
        network.celsius = CELSIUS
    network.add("iclamp", network.soma, delay=START, dur=1e6, amp=neuron.amp)
    network.threshold = THRESHOLD
    return network


def given_as(channel: str) -> str:
    """Return the parameter that differs between regions."""
    return _GIVEN.get(channel, "gbar")

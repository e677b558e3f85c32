"""Axon models from the literature: geometry, and equations for nodes and internodes.

`myelinated` is the double cable by McIntyre, Richardson and Grill (2002), J Neurophysiol
87:995-1006, with the diameters in its table 1 and the node's equations from ModelDB 3810.
`senn` is the spatially extended nonlinear node by Reilly, Freeman and Larkin (1985), IEEE Trans
Biomed Eng 32:1001-1011, with the node by Frankenhaeuser and Huxley (1964), J Physiol 171:302-315.
`unmyelinated` is a cylinder with Hodgkin and Huxley's membrane (1952).

Each function returns a `Fibres`: compartments along x, and mechanisms to insert.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import as_number, as_real, as_whole_number, check_room
from clhines.core.errors import InputError, shown
from clhines.simulator.fields.geometry import Geometry

# Table 1 of McIntyre et al.: fibre, axon and node diameter, distance of nodes and length of the
# paranode FLUT, µm; number of myelin lamellae.
TABLE = np.array([
    (5.7, 3.4, 1.9, 500, 35, 80),
    (7.3, 4.6, 2.4, 750, 38, 100),
    (8.7, 5.8, 2.8, 1000, 40, 110),
    (10.0, 6.9, 3.3, 1150, 46, 120),
    (11.5, 8.1, 3.7, 1250, 50, 130),
    (12.8, 9.2, 4.2, 1350, 54, 135),
    (14.0, 10.4, 4.7, 1400, 56, 140),
    (15.0, 11.5, 5.0, 1450, 58, 145),
    (16.0, 12.7, 5.5, 1500, 60, 150),
])  # fmt: skip
_BYTES = 100  # or more, for each compartment, for a layer too
INTERNODE = "MFSSSSSSFM"  # MYSA, FLUT, six STIN, and back
_RHO = 70.0  # Ω·cm, axoplasm and periaxonal space
_NODE_LENGTH, _MYSA_LENGTH = 1.0, 3.0  # µm
_SPACE = {"N": 0.002, "M": 0.002, "F": 0.004, "S": 0.004}  # µm: the periaxonal space's width
_LEAK = {"M": 1e-3, "F": 1e-4, "S": 1e-4}  # S/cm² of axon membrane
_MYELIN_C, _MYELIN_G = 0.1, 1e-3  # µF/cm², S/cm² per lamella membrane
_BARE, _GROUND = 1e10, 1e9  # S/cm²: from the space to ground at nodes, and for the outermost layer

NODE_MRG = """
    density node_mrg   # McIntyre, Richardson and Grill 2002, ModelDB 3810
    parameter gnabar = 3 S/cm2
    parameter gnapbar = 0.01 S/cm2
    parameter gkbar = 0.08 S/cm2
    parameter gl = 0.007 S/cm2
    parameter ena = 50 mV
    parameter ek = -90 mV
    parameter el = -90 mV
    parameter celsius = 36 degC
    fast = 2.2^((celsius - 20)/10)
    slow = 2.9^((celsius - 20)/10)
    late = 3^((celsius - 36)/10)
    am = fast*1.86*(v + 21.4)/(1 - exp(-(v + 21.4)/10.3)) [1/ms]
    bm = -fast*0.086*(v + 25.7)/(1 - exp((v + 25.7)/9.16)) [1/ms]
    ah = -slow*0.062*(v + 114)/(1 - exp((v + 114)/11)) [1/ms]
    bh = slow*2.3/(1 + exp(-(v + 31.8)/13.4)) [1/ms]
    ap = fast*0.01*(v + 27)/(1 - exp(-(v + 27)/10.2)) [1/ms]
    bp = -fast*0.00025*(v + 34)/(1 - exp((v + 34)/10)) [1/ms]
    as = late*0.3/(1 + exp(-(v + 53)/5)) [1/ms]
    bs = late*0.03/(1 + exp(-(v + 90))) [1/ms]
    state m = am/(am + bm)
    dm/dt = am*(1 - m) - bm*m
    state h = ah/(ah + bh)
    dh/dt = ah*(1 - h) - bh*h
    state p = ap/(ap + bp)
    dp/dt = ap*(1 - p) - bp*p
    state s = as/(as + bs)
    ds/dt = as*(1 - s) - bs*s
    current ina = gnabar*m^3*h*(v - ena) [mA/cm2]
    current inap = gnapbar*p^3*(v - ena) [mA/cm2]
    current ik = gkbar*s*(v - ek) [mA/cm2]
    current il = gl*(v - el) [mA/cm2]
"""
# Permeabilities in 1e-3 cm/s, concentrations in mM; u = v + 70 is the depolarisation, mV.
NODE_FH = """
    density node_fh    # Frankenhaeuser and Huxley 1964, of Xenopus, at 20 degC
    parameter pnabar = 8
    parameter ppbar = 0.54
    parameter pkbar = 1.2
    parameter gl = 0.0303 S/cm2
    parameter el = -69.974 mV
    parameter nao = 114.5
    parameter nai = 13.74
    parameter ko = 2.5
    parameter ki = 120
    u = v + 70
    x = v/25.4366                        # F v/(R T) at 295.18 K
    e = exp(x)
    drive = 0.0964853*x/(1 - e)          # F x/(1 - exp(x)), of 1e-3 cm/s and mM to mA/cm2
    am = 0.36*(u - 22)/(1 - exp((22 - u)/3)) [1/ms]
    bm = 0.4*(13 - u)/(1 - exp((u - 13)/20)) [1/ms]
    ah = 0.1*(-10 - u)/(1 - exp((u + 10)/6)) [1/ms]
    bh = 4.5/(1 + exp((45 - u)/10)) [1/ms]
    an = 0.02*(u - 35)/(1 - exp((35 - u)/10)) [1/ms]
    bn = 0.05*(10 - u)/(1 - exp((u - 10)/10)) [1/ms]
    ap = 0.006*(u - 40)/(1 - exp((40 - u)/10)) [1/ms]
    bp = 0.09*(-25 - u)/(1 - exp((u + 25)/20)) [1/ms]
    state m = am/(am + bm)
    dm/dt = am*(1 - m) - bm*m
    state h = ah/(ah + bh)
    dh/dt = ah*(1 - h) - bh*h
    state n = an/(an + bn)
    dn/dt = an*(1 - n) - bn*n
    state p = ap/(ap + bp)
    dp/dt = ap*(1 - p) - bp*p
    current ina = (pnabar*m^2*h + ppbar*p^2)*drive*(nao - nai*e)
    current ik = pkbar*n^2*drive*(ko - ki*e)
    current il = gl*(v - el) [mA/cm2]
"""


@dataclass(frozen=True, eq=False)
class Fibres:
    """Axons along x: their compartments and mechanisms.

    Attributes
    ----------
    arrays : dict
        Arguments of `Network.from_arrays`. `soma`, which detects spikes, is the last but one node
        of Ranvier of each axon.
    geometry : Geometry
        Positions of the nodes; the middle of each axon is where `at` says, or at x = 0.
    ranvier : (fibres, nodes) int64
        Nodes of Ranvier by their numbers in the network; without myelin, all compartments.
    inserted : tuple of (text or name, nodes, parameters)
        Arguments of `Network.insert`.
    v_init : float, mV
    """

    arrays: dict[str, Any]
    geometry: Geometry
    ranvier: np.ndarray
    inserted: tuple[tuple[str, np.ndarray, dict[str, Any]], ...]
    v_init: float

    def network(self, make: Any) -> Any:
        net = make(**self.arrays)
        for mechanism, nodes, parameters in self.inserted:
            net.insert(mechanism, at=nodes, **parameters)
        return net


def _moved(begin: np.ndarray, end: np.ndarray, at: ArrayLike | None) -> np.ndarray:
    """Return both ends of each compartment, (2, fibres, m, 3) float64, µm.

    `begin` and `end` are (fibres, m), along x. The middle of each axon moves to `at`.
    """
    number = len(begin)
    shift = np.zeros((number, 3)) if at is None else as_real("at", at, "um")
    if shift.shape != (number, 3):
        raise InputError(f"at has shape {shift.shape}; expected ({number}, 3)")
    ends = np.zeros((2, *begin.shape, 3))
    ends[..., 0] = [begin, end]
    ends[..., 0] -= end[:, -1:] / 2
    return ends + shift[:, None]


def _diameters_and_nodes(
    diameters: ArrayLike, nodes: int, compartments: int = 1
) -> tuple[np.ndarray, int]:
    """Check arguments, and that there is memory for `compartments` for each node of Ranvier."""
    values = np.atleast_1d(as_real("diameters", diameters, "um"))
    if values.ndim != 1 or not len(values) or (values <= 0).any():
        raise InputError(f"diameters is {shown(diameters)}; expected numbers above 0 um")
    nodes = as_whole_number("nodes", nodes, 3)
    count = len(values) * nodes
    check_room(_BYTES * compartments * count, f"fibres of {count} nodes")
    return values, nodes


def _chain(count: int, each: int) -> np.ndarray:
    parent = np.arange(each) - 1
    every: np.ndarray = parent + each * np.arange(count)[:, None]
    every[:, 0] = -1
    return every.ravel()


def myelinated(diameters: ArrayLike, nodes: int = 21, at: ArrayLike | None = None) -> Fibres:
    """Make McIntyre's myelinated axons; the space below the myelin is a layer of nodes.

    Parameters
    ----------
    diameters : (fibres,) float, µm
        From table 1: 5.7, 7.3, 8.7, 10, 11.5, 12.8, 14, 15 or 16.
    nodes : int
        Nodes of Ranvier.
    at : (fibres, 3) float, µm, optional
        The middle of each axon.
    """
    fibre, nodes = _diameters_and_nodes(diameters, nodes, 3 * (1 + len(INTERNODE)))
    row = np.abs(TABLE[:, 0] - fibre[:, None]).argmin(axis=1)
    other = np.flatnonzero(TABLE[row, 0] != fibre)
    if len(other):
        expected = ", ".join(f"{x:g}" for x in TABLE[:, 0])
        raise InputError(f"diameters has {fibre[other[0]]:g} um; expected some of {expected}")
    kind = np.array(list(("N" + INTERNODE) * (nodes - 1) + "N"))
    n, each = len(fibre), len(kind)
    compartments = [_myelinated(TABLE[k], kind) for k in range(len(TABLE))]
    columns = {name: np.array([c[name] for c in compartments])[row] for name in compartments[0]}
    length = columns["length"]
    end = np.cumsum(length, axis=1)
    ends = _moved(end - length, end, at)
    # three nodes per compartment: inside, below the myelin, and outside
    first = 3 * each * np.arange(n)[:, None]
    number = np.arange(each)
    up = np.where(number > 0, number - 1, -1)
    parents = np.concatenate(
        [up, np.where(number > 0, up + each, 0), np.where(number > 0, up + 2 * each, 0)]
    )
    parent = np.where(parents < 0, -1, parents + first)
    around = np.concatenate([number + each, number + 2 * each, np.full(each, -1)])
    around = np.where(around < 0, -1, around + first)
    none = np.zeros((n, each))
    three = {
        "area": [columns["area"], none, none],
        "g_axial": [columns["g_axial"], columns["g_space"], none],
        "capacitance": [columns["capacitance"], columns["c_myelin"], none],
        "g_around": [none, columns["g_myelin"], columns["g_ground"]],
    }
    arrays = {name: np.concatenate(parts, axis=1).ravel() for name, parts in three.items()}
    inside = first + number
    ranvier = inside[:, kind == "N"]
    arrays |= {
        "parent": parent.ravel(),
        "cell_offsets": 3 * each * np.arange(n + 1),
        "around": around.ravel(),
        "soma": ranvier[:, -2],
    }
    begin, end = (np.tile(x, (1, 3, 1)).reshape(-1, 3) for x in ends)
    radius = np.tile(columns["radius"], (1, 3)).ravel()
    leak = {"g": columns["leak"][:, kind != "N"].ravel(), "e": -80.0}
    inserted: tuple[tuple[str, np.ndarray, dict[str, Any]], ...] = (
        (NODE_MRG, ranvier.ravel(), {}),
        ("pas", inside[:, kind != "N"].ravel(), leak),
    )
    return Fibres(arrays, Geometry(begin, end, radius), ranvier, inserted, -80.0)


def _myelinated(row: np.ndarray, kind: np.ndarray) -> dict[str, np.ndarray]:
    """Return arrays by name, (m,), for one axon's compartments, from its row in `TABLE`."""
    fibre, axon, node, apart, flut, lamellae = row.tolist()
    stin = (apart - _NODE_LENGTH - 2 * _MYSA_LENGTH - 2 * flut) / 6
    of_kind = {
        "length": {"N": _NODE_LENGTH, "M": _MYSA_LENGTH, "F": flut, "S": stin},
        "inner": {"N": node, "M": node, "F": axon, "S": axon},  # µm: diameters
        "outer": {"N": node, "M": fibre, "F": fibre, "S": fibre},
        "space": _SPACE,
        "leak": {"N": 0.0, **_LEAK},
    }
    c = {name: np.array([each[k] for k in kind]) for name, each in of_kind.items()}
    bare, radius = kind == "N", c["inner"] / 2
    cross = np.pi * radius**2  # µm²
    ring = np.pi * ((radius + c["space"]) ** 2 - radius**2)
    axon_area, area = (np.pi * c[name] * c["length"] for name in ("inner", "outer"))
    halves = {"g_axial": cross, "g_space": ring}
    g = {}
    for name, through in halves.items():
        half = 0.01 * _RHO * c["length"] / 2 / through  # MΩ
        g[name] = np.append(0, 1 / (half[1:] + half[:-1]))
    membranes = 2 * lamellae
    return {
        **g,
        "length": c["length"],
        "radius": c["outer"] / 2,
        "area": area,
        "capacitance": 1e-5 * 2.0 * axon_area,
        "leak": c["leak"] * c["inner"] / c["outer"],  # per fibre area
        "c_myelin": np.where(bare, 0, 1e-5 * _MYELIN_C / membranes * area),
        "g_myelin": 1e-2 * np.where(bare, _BARE, _MYELIN_G / membranes) * area,
        "g_ground": 1e-2 * _GROUND * area,
    }


def senn(diameters: ArrayLike, nodes: int = 21, at: ArrayLike | None = None) -> Fibres:
    """Make axons with insulating myelin: nodes of Ranvier joined by axoplasm.

    Parameters
    ----------
    diameters : (fibres,) float, µm
        Diameters with myelin. The axon's diameter is 0.7 of it; nodes are 100 times it apart.
    nodes, at
        As in `myelinated`.
    """
    fibre, nodes = _diameters_and_nodes(diameters, nodes)
    axon, apart, gap = 0.7 * fibre, 100 * fibre, 2.5  # µm
    area = np.repeat(np.pi * axon * gap, nodes)
    g = np.pi * axon**2 / 4 / (0.01 * 110.0 * apart)  # µS, with 110 Ω·cm
    middle = apart[:, None] * np.arange(nodes)
    return _bare(
        area, np.repeat(g, nodes), middle, middle + gap, np.repeat(axon / 2, nodes), at,
        (NODE_FH, {}), -70.0,
    )  # fmt: skip


def unmyelinated(
    diameters: ArrayLike, length: float, nodes: int = 101, at: ArrayLike | None = None
) -> Fibres:
    """Make cylinders with Hodgkin and Huxley's membrane, 35.4 Ω·cm and 1 µF/cm².

    Parameters
    ----------
    diameters : (fibres,) float, µm
    length : float, µm
    nodes : int
        Compartments.
    at
        As in `myelinated`.
    """
    fibre, nodes = _diameters_and_nodes(diameters, nodes)
    piece = as_number("length", length, "um") / nodes
    if not piece > 0:
        raise InputError(f"length is {length} um; expected more than 0")
    area = np.repeat(np.pi * fibre * piece, nodes)
    g = np.pi * fibre**2 / 4 / (0.01 * 35.4 * piece)
    begin = np.tile(piece * np.arange(nodes), (len(fibre), 1))
    return _bare(
        area, np.repeat(g, nodes), begin, begin + piece, np.repeat(fibre / 2, nodes), at,
        ("hh", {}), -65.0, 1.0,
    )  # fmt: skip


def _bare(
    area: np.ndarray,
    g_axial: np.ndarray,
    begin: np.ndarray,
    end: np.ndarray,
    radius: np.ndarray,
    at: ArrayLike | None,
    membrane: tuple[str, dict[str, Any]],
    v_init: float,
    cm: float = 2.0,
) -> Fibres:
    """Make axons whose compartments all have the same membrane, and no layers around them.

    `begin` and `end` of compartments along each axon, (axons, m) µm; by compartment, (axons*m,):
    `area` µm², `g_axial` to the compartment before µS, `radius` µm. `at`: the axons' middles.
    """
    n, each = begin.shape
    ranvier = np.arange(n * each).reshape(n, each)
    arrays = {
        "parent": _chain(n, each),
        "cell_offsets": each * np.arange(n + 1),
        "area": area,
        "g_axial": g_axial,
        "capacitance": 1e-5 * cm * area,
        "soma": ranvier[:, -2],
    }
    ends = _moved(begin, end, at)
    geometry = Geometry(ends[0].reshape(-1, 3), ends[1].reshape(-1, 3), radius)
    return Fibres(arrays, geometry, ranvier, ((membrane[0], ranvier.ravel(), membrane[1]),), v_init)

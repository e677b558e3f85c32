"""The cases from `nmodl_cases` on the host, with functions by `Mechanism.from_nmodl`."""

from functools import cache
from pathlib import Path

import numpy as np
from nmodl_host import Cell, Instance, NetCon

from clhines.simulator.mechanisms import Mechanism

OWN = Path(__file__).parents[3] / "mod" / "nmodl"
FILES = {"IClamp": "stim", "pas": "passive", "ExpSyn": "expsyn", "Exp2Syn": "exp2syn", "hh": "hh"}
# NEURON's defaults, and the charge
IONS = {
    "na": {"ena": 50.0, "nai": 10.0, "nao": 140.0, "valence": 1},
    "k": {"ek": -77.0, "ki": 54.4, "ko": 2.5, "valence": 1},
    "ca": {"eca": 132.4579341637009, "cai": 5e-5, "cao": 2.0, "valence": 2},
}


def wheel():
    """Return the folder of the .mod files that come with NEURON."""
    import importlib.util

    spec = importlib.util.find_spec("neuron")
    return Path(spec.origin).parent / ".data" / "share" / "modfile"


@cache
def mechanism(name, use_tables=True):
    """Return the mechanism for a .mod file in these tests or in NEURON."""
    path = OWN / f"{name}.mod" if name not in FILES else wheel() / f"{FILES[name]}.mod"
    return Mechanism.from_nmodl(path, use_tables=use_tables)


def instance(spec, name, params, where):
    m = mechanism(name)
    public = {q.public or q.name: q.name for q in m.program.outputs}
    wanted = [n for w, n in spec["records"] if w == where]
    outputs = [public[n] for n in wanted if n in public]
    plain = {"delay": "del"} if name == "IClamp" else {}
    known = {q.public or q.name for q in (*m.program.parameters, *m.program.states)}
    parameters = {plain.get(k, k): v for k, v in params.items() if plain.get(k, k) in known}
    return Instance(m, outputs, **parameters)


def simulated(spec, extra):
    """Return the values of `nmodl_oracle.run`, computed on the host."""
    density = {name: instance(spec, name, params, name) for name, params in spec["density"]}
    points = [instance(spec, n, p, k) for k, (n, p) in enumerate(spec.get("points", []))]
    order = sorted(density.values(), key=lambda one: not writes_concentration(one))
    ions = []
    for name in spec.get("ions", []):
        style = int(extra[f"style_{name}"])
        values = dict(IONS[name], eadvance=style >> 5 & 1, einit=style >> 2 & 1)
        values |= {f"i{name}": 0.0}
        ions.append((name, values))
    cell = Cell(
        [*order, *points], spec["dt"], spec.get("v", -65.0), float(extra["area"]),
        1.0, spec.get("diam", 15), spec.get("celsius", 6.3), ions,
    )  # fmt: skip
    for k, name in spec.get("pointers", []):
        points[k].pointers[name] = lambda c: c.v
    for k, name, ids in spec.get("random", []):
        points[k].streams[name] = np.array([*ids, 0], np.uint32)
    netcons = []
    for source, target, weights, delay in spec.get("netcons", []):
        nc = NetCon(points[target], weights, delay)
        netcons.append(nc)
        points[target].netcons.append(nc)
        if source is not None:
            points[source].targets.append(nc)
    cell.begin()
    for k, time in spec.get("events", []):
        cell.push(np.float64(time), netcons[k].target, netcons[k], 0.0)
    rows = [row(spec, cell, density, points, netcons)]
    for _ in range(spec["steps"]):
        cell.step()
        rows.append(row(spec, cell, density, points, netcons))
    return np.array(rows, float)


def writes_concentration(one):
    return any(n != f"i{ion.name}" for ion in one.p.ions for n in ion.writes)


def row(spec, cell, density, points, netcons):
    result = [cell.v]
    for where, name in spec["records"]:
        if where == "":
            result.append(next(ion[name] for ion in cell.ions.values() if name in ion))
        elif where == "weight":
            base, _, index = name.partition("[")
            result.append(netcons[int(base)].weights[int(index.rstrip("]"))])
        else:
            one = points[where] if isinstance(where, int) else density[where]
            result.append(one.values[one.public[name]])
    return result

"""Compare single compartments with .mod files with NEURON: ``compartments_program.py DT``.

A case is a dictionary. ``density`` and ``points``: (mechanism, parameters); ``netcons``: (source's
point or None, target's point, weights, delay); ``events``: (netcon, time); ``pointers``: (point,
name), to v; ``random``: (point, name, ids); ``records``: (mechanism, point's number or "", name);
``globals``: hoc globals at the start of a run.
"""

import json
import sys

import numpy as np
from support.mod_files import loaded
from support.neuron_scripts import go_on, make_section

import clhines

h = loaded()
CLAMP = ["IClamp", {"delay": 1, "dur": 6, "amp": 0.06}]
BACK = ["IClamp", {"delay": 8, "dur": 3, "amp": -0.05}]
PAS = ["pas", {"e": -65, "g": 1e-4}]


def _driven(name, records, params=None, **more):
    """Return a case with a mechanism, a leak, and two clamps that move v from about -90 to 0 mV."""
    return {
        "name": name,
        "density": [PAS, [name, params or {}], *more.pop("density", [])],
        "points": [CLAMP, BACK],
        "records": [[name, r] for r in records] + more.pop("records", []),
        **more,
    }


def _point(name, records, params=None, **more):
    """Return a case with a point process, a leak, both clamps, and its records."""
    points = [[name, params or {}], CLAMP, BACK]
    records = [[0, r] for r in records]
    return {"name": name, "density": [PAS], "points": points, "records": records, **more}


CASES = [
    _driven(
        "nmexpr",
        ["out", "shared", "sum", "x", "y", "table[3]", "i", "same"],
        {"scale": 0.7, "base": 3},
    ),
    _driven("nmhand", ["m", "h", "minf", "mtau"], celsius=20.0),
    _driven("nmtable", ["m", "minf", "mtau", "f"], {"slope": 8}, celsius=11.0),
    _driven("nmcnexp", ["a", "b", "c", "d", "e", "minf"]),
    _driven("nmfall", ["a", "b", "hold"]),
    _driven("nmimplicit", ["a", "b", "c", "before"]),
    _driven("nmonce", ["a", "b", "c"]),
    _driven("nmdepend", ["m"], celsius=21.0),
    _driven("nmflux", ["ca", "buf", "cb", "last"]),
    _driven("nmeither", ["ca", "buf", "cb", "er[0]", "er[1]", "taken"]),
    _driven("nmstarts", ["buf[0]", "buf[1]", "n", "c", "half"], {"buf0": 0.6, "n0": 0.2}),
    {
        "name": "nmjump",
        "density": [PAS],
        "points": [["nmjump", {"del": 2.01}], ["nmjump", {"many": 2.5}], CLAMP, BACK],
        "records": [[k, n] for k in (0, 1) for n in ("g", "left", "seen", "i")],
    },
    _driven("nmpumpd", ["a", "b"]),
    _driven("nmeuler", ["a", "b"]),
    _driven("nmlinear", ["xx", "yy", "zz", "drive"]),
    _driven("nmcycle", ["c1", "c2", "o1", "o2", "s1", "x1", "x2", "x3", "y1", "y2", "y3"]),
    _driven("nmkin", ["c1", "c2", "o", "b", "flux", "before"]),
    _driven(
        "nmreact", ["ca[0]", "ca[1]", "ca[2]", "buf", "cabuf", "pump", "bound", "dimer", "flux"]
    ),
    _driven(
        "nmloop", ["n", "sum", "count", "start", "table"], {"power": 4}, globals={"ninf_nmloop": 0}
    ),
    _driven("nmwhen", ["n", "s", "b", "first", "last", "m"]),
    _driven("nmcount", ["calls", "peak"]),
    _driven("nmleft", ["m", "minf", "flow"], {"p": 2e-6, "minf": 0}, celsius=11.0),
    _driven(
        "nmverbatim",
        ["a", "b", "d", "x", "peak", "m", "n"],
    ),
    {
        **_driven("nmhint", []),
        "records": [*(["nmhint", n] for n in ("half", "kernel", "gk", "x")), ["", "ena"]],
    },
    _point(
        "nmturns",
        ["g", "last"],
        netcons=[[None, 0, [w, 0, 0], 1] for w in (0.001, 0.002, -1)],
        events=[[0, 2.0], [1, 3.3], [2, 4.4], [0, 7.5], [1, 9.1], [2, 9.3]],
    ),
    _point(
        "nmreturn",
        ["g", "ignored", "taken", "class", "factor"],
        netcons=[[None, 0, [w, 0], 1] for w in (0.002, 0.003, -1)],
        events=[[k % 3, 0.4 + 0.5 * k] for k in range(22)],
    ),
    _point(
        "nmmixed", ["i", "last", "seen"], netcons=[[None, 0, [0.5], 1]], events=[[0, 2.0], [0, 7.5]]
    ),
    _driven("nmfiled", ["a", "b", "seen"], {"tau": 3}),
    _point(
        "nmasked",
        ["g", "seen"],
        netcons=[[None, 0, [w], 1] for w in (0.003, 0.002)],
        events=[[0, 0.0], [1, 1.31], [0, 3.0125], [1, 5.0], [0, 8.43]],
    ),
    _driven("nmlast", ["m", "h"]),
    _driven("nmscaled", ["m", "alpha"], {"q10": 1.8}, celsius=29.0),
    _driven("nmlate", ["peak", "count", "twice", "late", "gate", "at"]),
    _driven("hh", ["m", "h", "n"]),
    {
        "name": "ions",
        "density": [PAS, ["nmghk", {}], ["nmcad", {}], ["nmkca", {}]],
        "points": [["IClamp", {"delay": 1, "dur": 6, "amp": 0.1}], BACK],
        "records": [["nmghk", "m"], ["nmkca", "o"], ["", "cai"], ["", "ica"], ["", "ik"]],
        "celsius": 30.0,
    },
    {
        "name": "again",
        "density": [PAS, ["nmghk", {}], ["nmagain", {"tau": 3}], ["nmkca", {}]],
        "points": [["IClamp", {"delay": 1, "dur": 6, "amp": 0.1}], BACK],
        "records": [
            *(["nmagain", name] for name in ("start", "seen", "first", "now", "later")),
            *(["nmkca", "o"], ["nmkca", "rest"], ["", "cai"]),
        ],
        "celsius": 30.0,
    },
    {
        "name": "point",
        "density": [PAS],
        "points": [["nmpoint", {"amp": 0.03}]],
        "pointers": [[0, "other"]],
        "records": [[0, "i"], [0, "seen"]],
    },
    {
        "name": "synapse",
        "density": [PAS],
        "points": [["nmsyn", {"tau": 2.5}], ["nmsyn", {}]],
        "netcons": [[None, k, [w, 0, 0, 0], 1] for k, w in ((0, 0.003), (0, 0.006), (1, 0.005))],
        "events": [
            *([0, 1.0], [1, 1.3], [0, 2.0125], [1, 2.0125]),
            *([2, 4.01], [0, 6.3], [1, 6.1], [1, 6.2]),
        ],
        "records": [[k, r] for k in (0, 1) for r in ("g", "s", "onset", "n", "total")],
    },
    {
        "name": "random",
        "density": [PAS],
        "points": [["nmrandom", {}], ["nmrandom", {"twice": 1e-6}]],
        "random": [
            [0, "first", [1, 2, 3]],
            [0, "second", [4294967295, 7, 4294967290]],
            [1, "first", [0, 0, 0]],
            [1, "second", [11, 3000000000, 5]],
        ],
        "netcons": [[None, 0, [1], 1], [None, 0, [3], 1], [None, 1, [2], 1]],
        "events": [[0, 1.0], [1, 2.0], [2, 2.5], [1, 9.0]],
        "records": [
            [k, r]
            for k in (0, 1)
            for r in "walk u n e word unit between wide mean got some".split()
        ],
    },
    {
        "name": "watch",
        "density": [PAS],
        "points": [["nmwatch", {}], CLAMP, BACK, ["ExpSyn", {"tau": 1.5, "e": 0}]],
        "netcons": [[0, 3, [0.001], 1.03]],
        "records": [[0, "ups"], [0, "downs"], [0, "when"], [3, "g"]],
    },
    {
        "name": "plasticity",
        "density": [PAS],
        "points": [["nmplast", {}]],
        "netcons": [[None, 0, [w, 0, 0], 1] for w in (0.002, 0.003, -1)],
        "events": [[0, 1.0], [1, 1.5], [2, 2.01], [0, 3.0], [2, 3.3], [1, 4.0], [0, 4.4]],
        "records": [[0, "g"], [0, "post"]],
    },
    {
        "name": "cells",
        "density": [PAS],
        "points": [["nmcell", {"tau": 12}], ["ExpSyn", {"tau": 1, "e": 0}]],
        "artificial": "nmcell",
        "netcons": [[None, 0, [0.6], 1], [0, 1, [0.004], 1.5]],
        "events": [[0, 0.5], [0, 1.0], [0, 2.0], [0, 5.0], [0, 5.5], [0, 6.03], [0, 7.0]],
        "records": [[0, "m"], [0, "spikes"], [1, "g"]],
    },
    {
        "name": "noise",
        "density": [PAS],
        "points": [["nmnoise", {"interval": 1.3}], ["ExpSyn", {"tau": 1, "e": 0}], CLAMP],
        "artificial": "nmnoise",
        "netcons": [[0, 1, [0.002], 0.9]],
        "records": [[0, "sent"], [1, "g"]],
    },
    {
        "name": "exp2syn",
        "density": [PAS, ["hh", {}]],
        "points": [["Exp2Syn", {"tau1": 0.5, "tau2": 3}]],
        "netcons": [[None, 0, [0.01], 1], [None, 0, [0.02], 1]],
        "events": [[0, 1.0], [1, 3.0125]],
        "records": [["hh", "m"], [0, "A"], [0, "B"]],
    },
]


def built(case):
    """Return a case's section, its point processes and its NetCons."""
    h.celsius = case.get("celsius", 6.3)
    sec = make_section("sec", L=20, diam=15, nseg=1, cm=1)
    points, netcons = [], []
    for name, _ in case["density"]:
        sec.insert(name)
    for name, parameters in case["points"]:
        make = getattr(h, name)
        points.append(make() if case.get("artificial") == name else make(sec(0.5)))
        for key, value in parameters.items():
            setattr(points[-1], key, value)
    for k, name in case.get("pointers", []):
        h.setpointer(sec(0.5)._ref_v, name, points[k])
    for source, target, _, delay in case.get("netcons", []):
        netcons.append(h.NetCon(None if source is None else points[source], points[target]))
        netcons[-1].delay = delay
    return sec, points, netcons


def begin(case, seg, points, netcons):
    """Set what a run changes, and initialise the model."""
    for name, parameters in case["density"]:
        for key, value in parameters.items():
            own = hasattr(getattr(seg, name), key)
            setattr(getattr(seg, name) if own else h, key if own else f"{key}_{name}", value)
    for k, name, ids in case.get("random", []):
        getattr(points[k], name).set_ids(*ids)
        getattr(points[k], name).set_seq(0)  # else the first words belong to other ids
    for name, value in case.get("globals", {}).items():
        setattr(h, name, value)
    for netcon, (*_, weights, _) in zip(netcons, case.get("netcons", []), strict=True):
        for j in range(int(netcon.wcnt())):
            netcon.weight[j] = weights[j]
    h.finitialize(-65)


def reference(thing, name):
    base, _, index = name.partition("[")
    ref = getattr(thing, f"_ref_{base}")
    return ref[int(index.rstrip("]"))] if index else ref


def compared(case):
    """Return the largest value, the largest difference and the range of each value, by name."""
    sec, points, netcons = built(case)
    seg, weights = sec(0.5), [(n, j) for n in netcons for j in range(int(n.wcnt()))]
    things = {"": seg, **dict(enumerate(points))}
    vectors = {"v": h.Vector().record(seg._ref_v)}
    for where, name in case["records"]:
        thing = things[where] if where in things else getattr(seg, where)
        vectors[f"{where} {name}"] = h.Vector().record(reference(thing, name))
    events = [(netcons[k], time) for k, time in case.get("events", [])]
    handler = h.FInitializeHandler(lambda: [netcon.event(time) for netcon, time in events])
    results = []
    for engine in ("", "", "reference"):  # the first run sets what no INITIAL sets
        begin(case, seg, points, netcons)
        ends = []
        for until in (4.5, 10.5, 15):
            go_on(until, engine)
            ends.append([n.weight[j] for n, j in weights])
        rows = {name: np.array(vector) for name, vector in vectors.items()}
        results.append(rows | {"weights": np.array(ends)})
    _, theirs, ours = results
    # nmagain's INITIAL multiplies the concentration, which is NEURON's after its own INITIAL
    if case["name"] != "again" and not {"events", "random", "artificial"} & {*case}:
        begin(case, seg, points, netcons)
        model = clhines.from_neuron(engine="reference")
        v = model.simulation.record("v", model[seg])
        model.simulation.reset()  # by its own INITIAL
        theirs["reset"], ours["reset"] = theirs["v"], model.simulation.run(15)[v].ravel()
    del handler
    return {
        name: [float(np.abs(x).max(initial=0)) for x in (a, a - ours[name], a - a[:1])]
        for name, a in theirs.items()
    }


if __name__ == "__main__":
    h.dt = float(sys.argv[1])
    print(json.dumps({case["name"]: compared(case) for case in CASES}))

"""Run single compartments in NEURON: ``python nmodl_oracle.py SPECS.json OUT.npz`` in the folder
with the library of the .mod files. `nmodl_cases` describes the specifications."""

import json
import sys

import numpy as np
from neuron import h


def run(spec):
    """Return (steps + 1, values) float64: v, then the specification's records."""
    h.celsius, h.dt = spec.get("celsius", 6.3), spec["dt"]
    sec = h.Section(name="sec")
    sec.L, sec.diam, sec.nseg, sec.cm = spec.get("L", 20), spec.get("diam", 15), 1, 1
    seg = sec(0.5)
    keep, points, netcons = [], [], []
    for name, params in spec.get("density", []):
        sec.insert(name)
        for key, value in params.items():
            if hasattr(getattr(seg, name), key):
                setattr(getattr(seg, name), key, value)
            else:
                setattr(h, f"{key}_{name}", value)
    for name, params in spec.get("points", []):
        cell = getattr(h, name)
        one = cell() if spec.get("artificial") == name else cell(seg)
        for key, value in params.items():
            setattr(one, key, value)
        points.append(one)
    for k, name in spec.get("pointers", []):
        h.setpointer(seg._ref_v, name, points[k])
    for k, name, ids in spec.get("random", []):
        getattr(points[k], name).set_ids(*ids)
        getattr(points[k], name).set_seq(0)  # without it the first words belong to other ids
    for source, target, weights, delay in spec.get("netcons", []):
        nc = h.NetCon(points[source] if source is not None else None, points[target])
        nc.delay = delay
        for j, w in enumerate(weights):
            nc.weight[j] = w
        netcons.append(nc)
    for name, value in spec.get("set", {}).items():
        setattr(seg, name, value)
    for name, value in spec.get("globals", {}).items():
        setattr(h, name, value)
    h.finitialize(spec.get("v", -65.0))
    for k, time in spec.get("events", []):
        netcons[k].event(time)
    rows = [values(spec, seg, points, netcons)]
    for _ in range(spec["steps"]):
        h.fadvance()
        rows.append(values(spec, seg, points, netcons))
    del keep
    extra = {"area": seg.area()}
    for ion in spec.get("ions", []):
        style = int(h.ion_style(f"{ion}_ion", sec=sec))
        extra[f"style_{ion}"] = style
    return np.array(rows), extra


def values(spec, seg, points, netcons):
    row = [seg.v]
    for where, name in spec["records"]:
        base, _, index = name.partition("[")
        if where == "":
            value = getattr(seg, base)
        elif where == "weight":
            row.append(netcons[int(base)].weight[int(index.rstrip("]"))])
            continue
        elif isinstance(where, int):
            value = getattr(points[where], base)
        else:
            value = getattr(getattr(seg, where), base)
        row.append(value[int(index.rstrip("]"))] if index else value)
    return row


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        specs = json.load(file)
    found = {}
    for spec in specs:
        found[spec["name"]], extra = run(spec)
        for key, value in extra.items():
            found[f"{spec['name']}/{key}"] = value
    np.savez(sys.argv[2], **found)

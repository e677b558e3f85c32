"""Compare seeded runs with stored ones, for a change that must not change them.

    python tests/simulator/frozen.py [--write] [--device NAME] [--voltage MV] [--only TEXT]
                                    [--seconds S]

The seeded runs are compared with ``frozen/<device>.npz``: bits, or voltages (mV) before the first
spike, and the steps and sources of spikes. The exit status is 1 if bits differ. With ``--voltage``
it is 1 if spikes differ, if float64 voltages differ by more than MV, or float32 voltages by more
than MV times the ratio of the two machine epsilons. After ``--seconds`` no more runs begin. A
device simulator makes only the smallest runs, each with `SIMULATED` steps. The texts of kernels
are compared by ``tests/kernels/snapshots.py``.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

# if this is run as a program
sys.path += [str(Path(__file__).parents[1] / "support"), str(Path(__file__).with_name("ranks"))]
sys.path.append(str(Path(__file__).parents[2]))
import exact_cells
import exact_ranks
import mod_files
import networks
import numpy as np
from engine_turns import two_sections
from rank_program import busy_network

from bench.neurons import NEURONS, neurons
from bench.ring import ring_cables, ring_network
from clhines import STDP, Mechanism, Network, Simulation, discretise, read_swc, sample_cells
from clhines.solver.device import devices

FOLDER = Path(__file__).with_name("frozen")
SIMULATED = 30  # steps per run on a device simulator
COLUMNS = 6  # nodes whose voltage is kept in every step
ENDS = 3  # first and last values of each array that are kept beside its digest
F32 = {"dtype": "float32"}
HH = """
NEURON { SUFFIX hhmod  USEION na READ ena WRITE ina  USEION k READ ek WRITE ik
    NONSPECIFIC_CURRENT il  RANGE gna, gk, gl, el }
PARAMETER { gna = 0.12 (S/cm2) gk = 0.036 (S/cm2) gl = 0.0003 (S/cm2) el = -54.3 (mV) }
STATE { m h n }
ASSIGNED { v (mV) celsius (degC) ena (mV) ek (mV) ina (mA/cm2) ik (mA/cm2) il (mA/cm2)
    minf hinf ninf mtau htau ntau }
INITIAL { rates(v) m = minf h = hinf n = ninf }
BREAKPOINT {
    SOLVE states METHOD cnexp
    ina = gna*m*m*m*h*(v - ena)
    ik = gk*n*n*n*n*(v - ek)
    il = gl*(v - el)
}
DERIVATIVE states { rates(v) m' = (minf - m)/mtau h' = (hinf - h)/htau n' = (ninf - n)/ntau }
PROCEDURE rates(v) { LOCAL a, b, q
    q = 3^((celsius - 6.3)/10)
    a = 0.1*vtrap(-(v + 40), 10) b = 4*exp(-(v + 65)/18) mtau = 1/(q*(a + b)) minf = a/(a + b)
    a = 0.07*exp(-(v + 65)/20) b = 1/(exp(-(v + 35)/10) + 1) htau = 1/(q*(a + b)) hinf = a/(a + b)
    a = 0.01*vtrap(-(v + 55), 10) b = 0.125*exp(-(v + 65)/80) ntau = 1/(q*(a + b)) ninf = a/(a + b)
}
FUNCTION vtrap(x, y) { if (fabs(x/y) < 1e-6) { vtrap = y*(1 - x/y/2) } else {
    vtrap = x/(exp(x/y) - 1) } }
"""


# ---------------------------------------------------------------------------------- models


def ring_all():
    """Return a ring network with HH everywhere and one synapse in each cell."""
    return ring_network(ring_cables(4, levels=3, compartments=5), 6, "all", delay=1.0)


def somas(delay=1.0, detector=False, rule=None, hh="hh", cells=4):
    """Return a ring of cells from samples, with a detector, a rule, HH by text or .mod file."""
    net = Network([discretise(sample_cells()[0], max_length=60)], num_cells=cells)
    net.insert("hh" if hh == "hh" else Mechanism.from_nmodl(HH))
    synapses = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    net.add("iclamp", at=net.soma[0], delay=0.2, dur=1.0, amp=6.0)
    parameters = {} if rule is None else {"rule": rule}
    net.connect(np.roll(np.arange(cells), 1), synapses, weight=0.4, delay=delay, **parameters)
    if detector:
        net.add_detector(net.soma[:1], threshold=1000.0)
    return net


def neuron(name, copies=2, longest=60.0):
    """Return copies of a `bench` neuron with longer compartments; its current begins at t = 0."""
    net = neurons(name, discretise(NEURONS[name].morphology(), max_length=longest), copies)
    net.add("iclamp", net.soma, delay=0.1, dur=2.0, amp=2.0 * (name != "granule") + 0.1)
    return net


def swc():
    cell = sample_cells()[1]
    number = np.arange(1, len(cell.parent) + 1)
    rows = np.column_stack((number, cell.type, cell.xyz, cell.radius, number[cell.parent]))
    rows[cell.parent < 0, -1] = -1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cell.swc"
        np.savetxt(path, rows, ["%d", "%d", *["%.4f"] * 4, "%d"])
        cable = discretise(read_swc(path), max_length=40)
    net = Network([cable], num_cells=3)
    net.insert("hh", "soma")
    net.insert("pas", "dendrites", g=1e-4, e=-65.0)
    net.add("iclamp", at=net.soma, delay=0.2, dur=1.0, amp=[2.0, 3.0, 4.0])
    return net


def random_points():
    """Return point processes that draw, watch, and send events to themselves."""
    net = somas(detector=True, cells=2)
    drawing = net.add(Mechanism.from_nmodl(mod_files.FOLDER / "nmodl" / "nmrandom.mod"), net.soma)
    for k, name in enumerate(("first", "second")):
        net.random(drawing, name, [[k + 1, 2, 3], [k + 4, 5, 6]])
    pulses = net.add(mod_files.ours("ext_pulse"), net.soma + 2)
    net.connect(net.spike_source([[0.3, 0.9, 2.0]]), pulses, [0, 1], [[0.01], [0.02]], 0.213)
    return net


def from_neuron(copies=1):
    def made(device, **options):
        from neuron import h

        import clhines.neuron

        _sections = two_sections((0.5, 1, 1.3), 1.013, 0.02)
        h.finitialize(-65)
        return clhines.neuron.from_neuron(device=device, copies=copies, **options).simulation

    return made


MODELS = {
    "mixed": lambda: networks.mixed_network()[0],
    "somas": lambda: networks.simple_network()[0],
    "busy": lambda: busy_network(12)[0],
    "ring": ring_all,
    "cells": somas,
    "late": lambda: somas(delay=2.013),
    "idle": lambda: somas(detector=True),
    "stdp": lambda: somas(rule=STDP(0.01, 0.01)),
    "hh.mod": lambda: somas(hh="mod"),
    "swc": swc,
    "l5pc": lambda: neuron("l5pc"),
    "l5pc.mod": lambda: neuron("l5pc-table"),
    "granule": lambda: neuron("granule", 3, 40.0),
    "ions": lambda: exact_cells.network()[0],
    "alike": lambda: exact_cells.network(like=True)[0],
    "all": lambda: exact_ranks.network()[0],
    "random": random_points,
}


# ------------------------------------------------------------------------------------ runs


@dataclass(frozen=True)
class Run:
    """A model, options of `Simulation`, and how the run proceeds.

    `form` ``gpu``: as if the device were a GPU; ``cpu``: on CPUs only. `executor` holds limits
    for the executor. `parts`: number of calls of `run`.
    """

    model: str
    options: dict = field(default_factory=dict)
    steps: int = 160
    dt: float = 0.025
    form: str = ""
    executor: dict = field(default_factory=dict)
    delivery: str = ""
    parts: int = 1
    ranks: int = 1
    neuron: int = 0
    small: bool = False


STEPS, EPOCHS, HOST = {"engine": "steps"}, {"engine": "epochs"}, {"engine": "reference"}
SECOND = {"secondorder": True}
RUNS = {
    "mixed, reference": Run("mixed", HOST),
    "mixed, steps": Run("mixed", STEPS, small=True),
    "mixed, steps, f32": Run("mixed", STEPS | F32, parts=2),
    "mixed, steps, second order": Run("mixed", STEPS | SECOND),
    "mixed, epochs": Run("mixed", EPOCHS, small=True),
    "mixed, epochs, f32, second order": Run("mixed", EPOCHS | F32 | SECOND),
    "mixed, epochs of a GPU": Run("mixed", EPOCHS, form="gpu", small=True),
    "mixed, lists of nodes": Run("mixed", executor={"by_node": True}),
    "mixed, lists of nodes, f32": Run("mixed", F32, executor={"by_node": True, "units": 3}),
    "mixed, by instance, one unit": Run("mixed", executor={"by_node": False, "units": 1}),
    "mixed, two ranks": Run("mixed", EPOCHS, ranks=2),
    "somas, reference": Run("somas", HOST),
    "somas, epochs": Run("somas", EPOCHS, small=True, parts=3),
    "somas, epochs of a GPU, f32": Run("somas", EPOCHS | F32, form="gpu"),
    "busy, vpo": Run("busy", delivery="vpo"),
    "busy, vpo, f32": Run("busy", F32, delivery="vpo"),
    "busy, pull": Run("busy", STEPS, delivery="pull"),
    "busy, reference": Run("busy", HOST),
    "busy, two ranks": Run("busy", ranks=2),
    "stdp, epochs": Run("stdp", EPOCHS, steps=240, small=True),
    "stdp, epochs of a GPU": Run("stdp", EPOCHS, form="gpu", steps=240),
    "ring, epochs": Run("ring", steps=400),
    "ring, epochs of a GPU": Run("ring", form="gpu", steps=400),
    "cells, steps, fine": Run("cells", STEPS | {"method": "fine"}),
    "late, epochs": Run("late", steps=240),
    "idle, auto": Run("idle", steps=240),
    "idle, reference": Run("idle", HOST, steps=240),
    "hh.mod, steps, f32": Run("hh.mod", STEPS | F32),
    "hh.mod, auto": Run("hh.mod"),
    "hh.mod, epochs": Run("hh.mod", EPOCHS, form="gpu"),
    "swc, auto": Run("swc", parts=2),
    "l5pc, epochs": Run("l5pc", steps=120),
    "l5pc, epochs of a GPU, f32": Run("l5pc", EPOCHS | F32, form="gpu", steps=120),
    "l5pc.mod, auto": Run("l5pc.mod", steps=120),
    "granule, epochs of a GPU": Run("granule", EPOCHS, form="gpu", steps=120),
    "ions, reference": Run("ions", HOST, dt=0.05),
    "ions, steps": Run("ions", STEPS, dt=0.05, small=True),
    "ions, steps of a GPU": Run("ions", STEPS, dt=0.05, form="gpu"),
    "ions, epochs": Run("ions", EPOCHS, dt=0.05, form="gpu", small=True),
    "ions, epochs, f32": Run("ions", EPOCHS | F32, dt=0.05, form="gpu", parts=2),
    "ions, blocks": Run("alike", {"secondorder": 2}, dt=0.05),
    "all, reference": Run("all", HOST, dt=0.05),
    "all, steps": Run("all", STEPS, dt=0.05, small=True),
    "all, steps, f32": Run("all", STEPS | F32, dt=0.05, parts=2),
    "all, two ranks": Run("all", STEPS, dt=0.05, ranks=2),
    "random, steps": Run("random", STEPS, small=True),
    "neuron, auto": Run("", neuron=1),
    "neuron, copies": Run("", STEPS, neuron=3),
}


@contextmanager
def as_if(limits):
    """Let every module use these limits in place of the device's; None: the device's own."""
    kept = devices.limits.__code__, devices.is_cpu.__code__
    devices.FROZEN = limits
    try:
        if limits is not None:  # modules imported the functions by name
            devices.limits.__code__ = (lambda device: FROZEN).__code__  # noqa: F821
            devices.is_cpu.__code__ = (lambda device: FROZEN.is_cpu).__code__  # noqa: F821
        yield
    finally:
        devices.limits.__code__, devices.is_cpu.__code__ = kept


def simulation(run, device, comm=None):
    arguments = {"seed": 7, "chunk": 50, "device": device, "comm": comm, **run.options}
    if run.neuron:
        del arguments["comm"]
        return from_neuron(run.neuron)(**arguments)
    if run.executor:
        arguments["engine"] = networks.blocks(devices.limits(device), **run.executor)
    sim = Simulation(MODELS[run.model](), run.dt, **arguments)
    if run.delivery:
        sim.runner.grid.delivery.use(run.delivery)
    return sim


def measured(run, device, comm=None):
    on_cpu, limits = devices.is_cpu(device), None
    if run.form == "gpu" and on_cpu:
        limits = replace(devices.limits(device), is_cpu=False, vector_bytes=16, clang=False)
    steps = SIMULATED if devices.is_simulator(device) else run.steps
    with as_if(limits):
        sim = simulation(run, device, comm)
        number, rows, times, sources = watched(sim), [], [], []
        for part in range(run.parts):
            count = steps // run.parts + (part == run.parts - 1) * (steps % run.parts)
            result = sim.run(count * sim.model.dt)
            more = result[number][bool(part) :]  # the first row repeats the previous part's last
            rows.append(more[:, :COLUMNS])
            times.append(result.spike_time)
            sources.append(result.spike_cell)
        time_of = np.concatenate(times)
        names, digests, ends = [], [], []
        for name, array in sorted((sim.arrays() | {"weights": sim.weights()}).items()):
            flat = np.ascontiguousarray(array).reshape(-1)
            names.append(name)
            digests.append(hashlib.sha256(flat.tobytes()).hexdigest()[:16])
            few = np.concatenate([flat[:ENDS], flat[-ENDS:]]).astype(np.float64)
            ends.append(np.pad(few, (0, 2 * ENDS - len(few)), constant_values=np.nan))
        made = getattr(sim.runner, "run", sim.runner)
        executor = type(getattr(made, "kernels", getattr(made, "cells", made))).__name__
        return {
            "by": np.array([sim.engine, executor]),
            "v": np.concatenate(rows),
            "end": sim.voltages(),
            "time": time_of,
            "step": np.rint(time_of / sim.model.dt).astype(np.int64),
            "source": np.concatenate(sources),
            "names": np.array(names),
            "digests": np.array(digests),
            "ends": np.array(ends),
        }


def watched(sim):
    """Record v of the first somas and some other nodes."""
    others = np.linspace(0, sim.model.forest.num_nodes - 1, COLUMNS).astype(np.int64)
    nodes = np.unique([*sim.network.soma[: COLUMNS // 2].tolist(), *others])
    return sim.record("v", nodes[:COLUMNS])


def on_ranks(name, run, device):
    mpiexec = shutil.which("mpiexec")
    if mpiexec is None:
        raise LookupError("no mpiexec")
    with tempfile.TemporaryDirectory() as folder:
        index = next(i for i, d in devices.all_devices() if d == device)
        path = Path(folder) / "found.npz"
        command = [mpiexec, "-n", str(run.ranks), sys.executable, __file__, "--device", index]
        done = subprocess.run(
            [*command, "--rank", name, str(path)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-1000:])
        return dict(np.load(path))


def runs_of(device, only=""):
    seen, simulator, on_cpu = [], devices.is_simulator(device), devices.is_cpu(device)
    for name, run in RUNS.items():
        same = replace(run, form="", small=False)  # on a GPU, form "gpu" changes nothing
        if only not in name or (simulator and not run.small) or (not on_cpu and same in seen):
            continue
        seen.append(same)
        if run.ranks > 1:
            yield name, partial(on_ranks, name, run, device)
        else:
            yield name, partial(measured, run, device)


def path_of(device):
    words = f"{device.platform.name} {device.name}".lower()
    kind = next((w for w in ("oclgrind", "portable") if w in words), "")
    name = {"oclgrind": "oclgrind", "portable": "pocl"}.get(kind, device.name.lower())
    return FOLDER / f"{re.sub(r'[^a-z0-9]+', '-', name).strip('-')}.npz"


def compared(old, new):
    """Return (differences in words, difference of v before the first spike, same spikes)."""
    same = [np.array_equal(old[k], new[k]) for k in ("v", "end", "time")]
    spikes = np.array_equal(old["step"], new["step"]) & np.array_equal(old["source"], new["source"])
    if old["v"].shape != new["v"].shape or old["end"].shape != new["end"].shape:
        return "other shapes", np.inf, False
    old_digests = dict(zip(old["names"].tolist(), zip(old["digests"].tolist(), old["ends"])))
    new_digests = dict(zip(new["names"].tolist(), zip(new["digests"].tolist(), new["ends"])))
    both = [k for k in old_digests if k in new_digests]
    other = [k for k in both if old_digests[k][0] != new_digests[k][0]]
    keys = sorted(set(old_digests) ^ set(new_digests))
    if all(same) and spikes and not other and not keys:
        return "", 0.0, True
    apart = np.abs(old["v"].astype(float) - new["v"])
    first = min([len(apart), *old["step"][:1].tolist(), *new["step"][:1].tolist()])
    before = float(apart[:first].max(initial=0))
    text = f"v {before:.2g} mV before the first spike, {float(apart.max(initial=0)):.2g} in all, "
    text += f"{float(np.abs(old['end'].astype(float) - new['end']).max()):.2g} at the end; spikes "
    text += "in the same steps" if spikes else f"{len(old['step'])} and {len(new['step'])}, others"
    if other:
        apart = [np.abs(old_digests[k][1] - new_digests[k][1]) for k in other]
        size = [np.nanmax(np.abs(old_digests[k][1]), initial=1e-300) for k in other]
        worst = max(np.nanmax(a, initial=0) / s for a, s in zip(apart, size))
        text += f"; arrays {', '.join(other[:4])}{'...' * (len(other) > 4)} ({worst:.2g} relative)"
    return text + (f"; keys of one only: {', '.join(keys[:6])}" if keys else ""), before, spikes


def check_runs(device, write, voltage, only, seconds=np.inf):
    """Make, write or compare a device's runs; return the names of wrong runs."""
    path, wrong, new = path_of(device), [], {}
    old = dict(np.load(path)) if path.is_file() else {}
    start = time.perf_counter()
    for name, make in runs_of(device, only):
        begin = time.perf_counter()
        if begin - start > seconds:
            print(f"{name}: NOT MADE, the time is over", flush=True)
            wrong.append(name)
            continue
        try:
            found = make()
        except Exception as error:
            if name in {k.split("/")[0] for k in old} or not isinstance(error, LookupError):
                wrong.append(name)
            print(f"{name}: FAILED, {type(error).__name__}: {str(error)[-300:]}", flush=True)
            continue
        new |= {f"{name}/{k}": a for k, a in found.items()}
        known = {k.split("/")[1]: a for k, a in old.items() if k.split("/")[0] == name}
        text, before, spikes = compared(known, found) if known else ("no record", np.inf, False)
        ratio = 1.0 if found["v"].dtype == np.float64 else 2.0**29  # the ratio of the roundings
        bad = text if voltage is None else not (spikes and before <= voltage * ratio)
        if bad and not write:
            wrong.append(name)
        said = f"{'WRONG: ' if bad and not write else ''}{text or 'bits the same'}"
        by = " ".join(found["by"].tolist())
        took = time.perf_counter() - begin
        print(f"{name} ({by}, {len(found['step'])} spikes, {took:.1f} s): {said}", flush=True)
    if write:
        gone = {k.split("/")[0] for k in new}
        kept = {k: a for k, a in old.items() if only and k.split("/")[0] not in gone}
        FOLDER.mkdir(exist_ok=True)
        np.savez_compressed(path, **kept, **new, device=np.array(devices.label(device)))
        print(f"written: {path}, {path.stat().st_size} bytes, {len(gone)} runs")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--device")
    parser.add_argument("--voltage", type=float)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=np.inf)
    parser.add_argument("--rank", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ["CLHINES_TRUST"] = "1"  # as in tests: skip the self-tests of engines
    device = devices.choose(given.device)
    if given.rank:
        from mpi4py import MPI

        name, path = given.rank
        result = measured(RUNS[name], device, MPI.COMM_WORLD)
        if MPI.COMM_WORLD.rank == 0:
            np.savez(path, **result)
        return 0
    return bool(check_runs(device, given.write, given.voltage, given.only, given.seconds))


if __name__ == "__main__":
    sys.exit(main())

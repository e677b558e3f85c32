"""A program for `ranks/test_run.py` and mpiexec: ``python rank_program.py SCENARIO FOLDER``."""

import hashlib
import json
import os
import signal
import sys
from functools import partial
from itertools import permutations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import mod_files
import numpy as np
from networks import CABLES, DT, layered_network, mixed_network

from clhines import Network, Population, Simulation, SimulationError
from clhines.core.errors import InputError, RankError, RunInterrupt, SpikeOverflowError
from clhines.simulator import simulation as simulation_module
from clhines.simulator.analysis import Features
from clhines.simulator.events import spike_list as received
from clhines.simulator.network.plasticity import STDP, Rule
from clhines.simulator.ranks import mpi


def busy_network(cells=40, rule=None):
    """Return cells that spike often, many in one epoch; delays from 1 ms, plastic weights."""
    rng = np.random.default_rng(11)
    net = Network(CABLES, cells)
    net.insert("hh", "soma")
    net.insert("pas", "dendrites", g=1e-4, e=-65.0)
    syn = net.add("expsyn", at=net.soma, tau=rng.uniform(1, 3, cells), e=0.0)
    pulses = np.repeat(net.soma, 3)
    times = np.resize([0.2, 11.0, 20.0], len(pulses)) + rng.uniform(0, 1, len(pulses))
    net.add("iclamp", at=pulses, delay=times, dur=0.5, amp=rng.uniform(0.8, 1.5, len(pulses)))
    ends = rng.integers(0, cells, (2, 400))
    delays = rng.uniform(1, 4, 400)
    rule = rule or STDP(2e-4, 1e-4, w_max=2e-3)
    net.connect(ends[0, :300], syn, ends[1, :300], 5e-4, delays[:300], rule)
    net.connect(ends[0, 300:], syn, ends[1, 300:], 2e-4, delays[300:])
    net.add_event(syn, np.arange(cells), rng.uniform(0, 8, cells), 2e-4)
    net.threshold = -20.0
    return net, syn


def rewarded_network():
    """Return a network with eligible and rewarded connections."""
    return busy_network(rule=Rule("dopamine", rate=1e-3, w_max=2e-3))


def ions_network():
    """Return plastic connections beside ions of .mod files, artificial cells and detectors."""
    net, syn = busy_network(12)
    for name in ("ext_cad", "ext_ca", "ext_kca"):
        net.insert(mod_files.ours(name), net.soma)
    spikes = net.add_detector(net.soma[:3] + 2, -30.0, 5.0)
    fire = net.add_artificial(mod_files.ours("ext_fire"), 2)
    net.connect(spikes, syn, [4, 5, 6], 1e-3, 1.3)
    net.connect(spikes, fire, [0, 1, 0], 0.6, 0.4)
    net.connect(fire, syn, [7, 8], 1e-3, 0.8)
    return net, syn


def diffusing_network():
    """Let calcium of five cells, on the first rank, diffuse from dendrites to channels in somas."""
    net, syn = busy_network(12)
    nodes = net.nodes(cell=np.arange(5))
    source = np.where(np.isin(nodes, net.soma), 0.0, 0.05)
    net.insert(mod_files.ours("ext_spread"), nodes, diam=2.0, D=500.0, source=source)
    net.insert(mod_files.ours("ext_kca"), net.soma)
    return net, syn


def surrounded_network():
    """Return twelve cells, of which some have layers outside."""
    net, syn = layered_network(cells=12)
    net.connect(np.arange(11), syn, np.arange(1, 12), 5e-3, 1.5)
    net.threshold = -20.0
    return net, syn


def lone_network():
    """Return cells of which only the first has `hh` and exp2syn, which other ranks lack.

    The first half receives no events, so that the first rank only sends.
    """
    net = Network(CABLES, 12)
    net.insert("hh", net.soma[:1])
    net.insert("pas", "dendrites", g=1e-4, e=-65.0)
    net.add("exp2syn", at=net.soma[:1])
    syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    net.add("iclamp", at=net.soma[:1], delay=0.2, dur=8.0, amp=1.0)
    net.connect(np.zeros(6, int), syn, np.arange(6, 12), 5e-4, 1.5)
    net.threshold = -20.0
    return net, syn


CASES = [
    ("mixed steps", mixed_network, 5.0, {"engine": "steps"}),
    ("mixed reference", mixed_network, 2.0, {"engine": "reference"}),
    ("busy auto", busy_network, 12.0, {}),
    ("plastic beside ions", ions_network, 12.0, {"engine": "steps"}),
    ("diffusing", diffusing_network, 5.0, {"engine": "epochs"}),
    ("busy float32", busy_network, 12.0, {"dtype": "float32", "secondorder": True}),
    ("rewarded", rewarded_network, 12.0, {}),
    ("kinds on one rank", lone_network, 12.0, {}),
    ("surrounded", surrounded_network, 5.0, {"engine": "steps"}),
    ("surrounded in epochs", surrounded_network, 5.0, {"engine": "epochs-gpu"}),
]


def digest(*arrays):
    found = hashlib.sha256()
    for a in arrays:
        found.update(np.ascontiguousarray(a).tobytes())
    return found.hexdigest()[:16]


def simulation(build, comm=None, **options):
    net, syn = build()
    sim = Simulation(net, DT, seed=7, chunk=150, comm=comm, **options)
    sim.record("v", net.soma[[5, 0, 2]])
    sim.record("g", syn, [3, 0])
    sim.record("v", net.soma[:1], reduce="count", threshold=-20.0)  # of one rank
    return sim


def features_of(result):
    features = result.features.get(2)
    if features is None:
        return ()
    return features["peak_time"].offsets, features["peak_time"].values, features["voltage_base"]


def digests(result, sim):
    return {
        "count": len(result.spike_time),
        "spikes": digest(result.spike_time, result.spike_cell),
        "records": digest(result.t, *result.values),
        "features": digest(*features_of(result)),
        "v": digest(sim.voltages()),
        "weights": digest(sim.weights()),
    }


def run_cases(folder, before, comm=None):
    """Run and save each case; restore a state that `before` ranks saved, and run on."""
    size, results = 1 if comm is None else comm.size, {}
    for name, build, duration, options in CASES[:: 1 if size < 3 else 2]:  # to save time
        sim = simulation(build, comm, **options)
        features = Features(["peak_time", "voltage_base"], stim_start=1.0, stim_end=2.0)
        sim.record("v", sim.network.soma[[4, 1, 3]], reduce=features)
        if name == "rewarded":
            sim.reward(0.5)
        results[name] = digests(sim.run(duration), sim)
        sim.save(folder / f"{name} {size}.npz")
        if name == "busy auto":  # pending events get other weights
            other = simulation(build, comm, **options)
            other.run(duration)
            other.set(weight=other.weights() * 0.75)
            results[name + ", other weights"] = digests(other.run(duration), other)
        later = simulation(build, comm, **options)
        later.restore(folder / f"{name} {before or size}.npz")
        results[name + ", later"] = digests(later.run(duration), later)
    results["population"] = population(comm)
    results["start"] = from_start(comm, folder, before or size)
    return results


def from_start(comm, folder, before):
    """Return the voltages of runs from t = 0, saved and restored, with cells above thresholds.

    Only the first rank has a detector outside a soma. `before` ranks saved the last state.
    """
    net = Network(CABLES, 6)
    net.insert("hh", net.soma)
    net.insert("pas", "dendrites", g=1e-4, e=-65.0)
    syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    net.connect(np.arange(6), syn, (np.arange(6) + 3) % 6, 5e-2, 1.0)
    net.connect(net.add_detector(net.soma[:1] + 1, -30.0, 0.0), syn, [5], 1e-2, 1.0)
    net.threshold = -20.0
    sim = Simulation(net, DT, v_init=30.0, comm=comm, engine="reference")
    sim.save(folder / f"start {1 if comm is None else comm.size}.npz")
    found = [len(sim.run(2.0).spike_time), digest(sim.voltages())]
    for size in 1 if comm is None else comm.size, before:
        sim.restore(folder / f"start {size}.npz")
        found += [len(sim.run(2.0).spike_time), digest(sim.voltages())]
    assert found == [7, found[1]] * 3
    return found


def population(comm, stop=4.0, **options):
    """Return a digest of a population's results without the last bits, which batches change."""
    net = Network(CABLES[0])
    net.insert("hh", "soma")
    net.insert("pas", "dendrites", g=1e-4, e=-65.0)
    protocols = {"step": {"stop": stop, "stimuli": [{"amp": 0.8, "delay": 0.5}]}}
    many = Population(net, {"na": ("hh", "gnabar")}, protocols, batch=2, comm=comm, **options)
    result = many.evaluate(np.linspace(0.05, 0.2, 5)[:, None])
    return digest(np.round(result.v, 6), result.spike_set, result.spike_time)


def not_finite(comm):
    """If a voltage is not finite on one rank, all ranks raise."""
    net, _ = mixed_network()
    net.add("iclamp", at=net.soma[5], delay=0.5, dur=1.0, amp=1e308)
    sim = Simulation(net, DT, comm=comm, engine="steps")
    try:
        sim.run(3.0)
    except SimulationError as error:
        return [str(error), error.cell, len(error.result.t)]
    return None


def overflow(comm):
    """A rank whose list of spikes is full tells the others."""
    sim = simulation(busy_network, comm, max_spikes=4)
    try:
        sim.run(20.0)
    except (SpikeOverflowError, RankError) as error:
        return type(error).__name__, str(error)
    return None


def interrupt_in_chunk(sim, number, times=1, do=None):
    """Raise Ctrl-C, or call `do`, in chunk `number` of a simulation."""
    begin, calls = sim.runner.begin, []

    def interrupting(*arguments):
        calls.append(0)
        begin(*arguments)
        for _ in range(times if len(calls) == number else 0):
            (do or (lambda: signal.raise_signal(signal.SIGINT)))()

    sim.runner.begin = interrupting


def interrupted(comm):
    """After Ctrl-C on the last rank in the second chunk, all ranks stop, and can continue."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sim = simulation(busy_network, comm)
    if comm is None or comm.rank == comm.size - 1:
        interrupt_in_chunk(sim, 2)
    try:
        sim.run(20.0)
    except RunInterrupt as stop:
        first, step = stop.result, sim.step
    rest = sim.run(20.0 - step * DT)
    return {"step": step, "first": digest(first.t, *first.values), **digests(rest, sim)}


def differing(comm):
    """Return the refusals of arguments that differ between ranks or are wrong on one rank."""

    def network():
        net, syn = mixed_network()
        net.add_event(syn, 0, 1.0, 0.01 * (comm.rank + 1))
        Simulation(net, DT, comm=comm, engine="reference")

    sim = simulation(mixed_network, comm, engine="reference")

    def recorded():
        other = simulation(mixed_network, comm, engine="reference")
        other.record("v", [comm.rank])
        other.run(0.5)

    def in_other_order():
        values = {"v_init": -60.0, "weight": sim.weights()}
        sim.set(**dict(sorted(values.items(), reverse=bool(comm.rank))))

    def begun():  # one number per rank
        net = Network(CABLES, 2)
        net.insert(mod_files.ours("nmodl/nmbegun"), net.soma, size=[1.0, 2.0])
        Simulation(net, DT, comm=comm, engine="reference")

    texts = []
    for do in (
        network,
        lambda: simulation(mixed_network, comm, dtype=("float64", "float32")[comm.rank]),
        lambda: sim.run(0.5 + comm.rank),
        lambda: sim.run("x" if comm.rank else 1.0),
        recorded,
        lambda: population(comm, 4.0 + comm.rank),
        lambda: population(comm, v_init=np.full(CABLES[0].num_nodes, comm.rank * 1e-9 - 65)),
        in_other_order,
        begun,
    ):
        try:
            do()
            texts.append("nothing")
        except (InputError, RankError) as error:
            texts.append(f"{type(error).__name__}: {error}")
    return texts


CALLS = {
    "run": lambda sim, path: sim.run(0.5),
    "set": lambda sim, path: sim.set(v_init=-60.0),
    "reset": lambda sim, path: sim.reset(),
    "voltages": lambda sim, path: sim.voltages(),
    "weights": lambda sim, path: sim.weights(),
    "save": lambda sim, path: sim.save(path),
    "restore": lambda sim, path: sim.restore(path),
    "arrays": lambda sim, path: sim.arrays(),
    "reward": lambda sim, path: sim.reward(1.0),
}


def pairs(comm, folder):
    """Return the messages of ranks that call two different methods, and a run's spike times."""
    sim, results = simulation(busy_network, comm), {}
    path = str(folder / "kept.npz")
    sim.save(path)
    calls = {name: partial(call, sim, path) for name, call in CALLS.items()}
    calls["Simulation"] = partial(simulation, busy_network, comm)
    for names in permutations(calls, 2):
        results[" ".join(names)] = _said(calls[names[comm.rank]])
    another = simulation(busy_network, comm)
    results["two objects"] = _said(partial((sim, another)[comm.rank].run, 0.5))
    if comm.rank:
        another.close()
    results["closed"] = _said(partial(another.run, 0.5))
    return results, sim.run(5.0).spike_time.tolist()


def _said(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def break_rank(sim, rank, do):
    """Call `do` in the third epoch of a rank."""
    advance, calls = sim.runner.run.advance, []

    def broken(*arguments):
        calls.append(0)
        if len(calls) == 3 and sim.ranks.rank == rank:
            do()
        return advance(*arguments)

    sim.runner.run.advance = broken


def fail():
    raise ValueError("the third epoch\nhas failed")


def main():
    scenario, folder = sys.argv[1], Path(sys.argv[2])
    comm = mpi.world()
    if scenario == "cases":
        if comm.size == 3:  # both ways of exchange, lists that grow
            simulation_module.OVERLAP, received._READ, received._LIST = True, 2, 2
        result = run_cases(folder, int(sys.argv[3]), comm)
        if comm.size == 2:
            result["not finite"] = not_finite(comm)
            result["interrupted"] = interrupted(comm)
        every = comm.allgather(result)
        assert all(other == result for other in every)
        if comm.size == 2:
            result["overflow"] = comm.allgather(overflow(comm))
            result["differing"] = comm.allgather(differing(comm))
        if comm.rank == 0:
            (folder / f"found{comm.size}.json").write_text(json.dumps(result))
        return
    if scenario == "pairs":
        every = comm.allgather(pairs(comm, folder))
        if comm.rank == 0:
            (folder / "pairs.json").write_text(json.dumps(every))
        return
    if scenario == "refused":  # before any use of MPI; the others wait for this rank
        Network(CABLES, comm.size - 1 - comm.rank)
    sim = simulation(busy_network, comm)
    if scenario == "outside":  # an error outside of the simulation
        sim.run(1.0)
        if comm.rank == 1:
            raise ValueError("somewhere else")
    elif scenario == "killed":
        break_rank(sim, 1, lambda: os.kill(os.getpid(), signal.SIGKILL))
    else:
        break_rank(sim, 1, fail)
    sim.run(100.0)


if __name__ == "__main__":
    main()

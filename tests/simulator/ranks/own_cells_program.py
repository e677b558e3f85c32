"""Ranks with their own cells; under mpiexec: ``own_cells_program.py FOLDER [SCENARIO]``."""

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import mod_files
import numpy as np
from networks import CABLES, DT
from rank_program import break_rank, busy_network, digest, fail

from clhines import Network, Rule, Simulation
from clhines.core.errors import ClhinesError
from clhines.simulator import simulation as simulation_module
from clhines.simulator.network.plasticity import STDP
from clhines.simulator.ranks import mpi

CELLS = 40
DURATION = 12.0  # ms
CASES = [
    ("auto", {}),
    ("reference", {"engine": "reference"}),
    ("steps", {"engine": "steps"}),
    ("float32", {"dtype": "float32", "secondorder": True}),
    ("epochs-gpu", {"engine": "epochs-gpu"}),
]


def cells_of(rank, size, turns=False):
    if turns:
        return np.arange(rank, CELLS, size)
    bounds = np.linspace(0, CELLS, size + 1).astype(int)
    return np.arange(*bounds[[rank, rank + 1]])


def numbered(net, gids):
    if gids is not None:
        net.gids = gids
    return np.arange(net.num_cells) if gids is None else gids


def busy(gids=None):
    """`busy_network`, or the cells of it that have these gids; and which connections they have."""
    if gids is None:
        net, syn = busy_network(CELLS)
        return net, syn, np.arange(400)
    whole, of_whole = busy_network(CELLS)
    clamps = whole.groups[3]
    net = Network([CABLES[gid % len(CABLES)] for gid in gids])
    numbered(net, gids)
    net.insert("hh", "soma")
    net.insert("pas", "dendrites", g=1e-4, e=-65.0)
    syn = net.add("expsyn", net.soma, tau=of_whole.parameters["tau"][gids], e=0.0)
    pulses = (3 * gids[:, None] + np.arange(3)).reshape(-1)
    given = {name: clamps.parameters[name][pulses] for name in ("delay", "amp")}
    net.add("iclamp", np.repeat(net.soma, 3), dur=0.5, **given)
    place = np.full(CELLS, -1)
    place[gids] = np.arange(len(gids))
    numbers = []
    for c, rule in zip(whole.connections, (STDP(2e-4, 1e-4, w_max=2e-3), None), strict=True):
        here = np.flatnonzero(place[c.targets] >= 0)
        given = c.weights[here], c.delays[here], rule
        net.connect(c.sources[here], syn, place[c.targets[here]], *given)
        numbers.append(np.arange(c.where.start, c.where.stop)[here])
    _, index, times, weights = whole._inside.wiring.outside[0]
    here = np.isin(index, gids)
    net.add_event(syn, place[index[here]], times[here], weights[here])
    net.threshold = -20.0
    return net, syn, np.concatenate(numbers)


def lone(gids=None, rule=None):
    """Only cell 0 has `hh` and a clamp; `tau` is one number on each rank that has turns."""
    net = Network(CABLES, 12) if gids is None else Network([CABLES[g % len(CABLES)] for g in gids])
    own = numbered(net, gids)
    first = net.soma[own == 0]
    net.insert("hh", first)
    net.insert("pas", "dendrites", g=1e-4, e=-65.0)
    tau = np.unique(own % 2) + 2.0
    syn = net.add("expsyn", net.soma, tau=tau[0] if len(tau) == 1 else own % 2 + 2.0, e=0.0)
    net.add("iclamp", first, delay=0.2, dur=8.0, amp=1.0)
    at = np.flatnonzero(own > 0)
    net.connect(np.zeros(len(at), int), syn, at, 5e-4, 1.5, rule)
    net.threshold = -20.0
    return net, syn, own[at] - 1


def digests(gids, v, g, spikes, weights):
    """What must have the same bits: all by gid."""
    order = np.argsort(gids)
    cell, time = spikes
    by_time = np.lexsort((cell, time))
    return {
        "count": len(cell), "v": digest(v[:, order]), "g": digest(g[:, order]),
        "spikes": digest(time[by_time], cell[by_time]), "weights": digest(weights),
    }  # fmt: skip


def ran(build, gids, comm, **options):
    """Digests of two runs, and of the first one again, of all ranks together."""
    net, syn, numbers = build(gids)
    sim = Simulation(net, DT, comm=comm, chunk=150, **options)
    sim.record("v", net.soma)
    sim.record("g", syn)
    found = []
    for again in (False, False, True):
        if again:
            sim.reset()
        result = sim.run(DURATION / 2)
        own = np.arange(net.num_cells) if gids is None else gids
        spikes = result.spike_cell, result.spike_time
        mine = own, *result.values, spikes, numbers, sim.weights()
        parts = [mine] if comm is None else comm.allgather(mine)
        own, v, g, spikes, places, weights = zip(*parts, strict=True)
        order = np.argsort(np.concatenate(places))
        found.append(
            digests(
                np.concatenate(own), np.concatenate(v, axis=1), np.concatenate(g, axis=1),
                [np.concatenate(each) for each in zip(*spikes, strict=True)],
                np.concatenate(weights)[order],
            )
        )  # fmt: skip
    return found


def run_cases(comm=None):
    """All cases, of a whole network where there is no `comm`."""
    found = {}
    for name, options in CASES:
        for turns in (False, True) if name == "auto" else (False,):
            gids = None if comm is None else cells_of(comm.rank, comm.size, turns)
            simulation_module.OVERLAP = turns or None
            found[f"{name}, {'turns' if turns else 'neighbours'}"] = ran(
                busy, gids, comm, **options
            )
    gids = None if comm is None else np.arange(comm.rank, 12, comm.size)
    found["lone"] = ran(lone, gids, comm)
    found["lone, plastic"] = ran(partial(lone, rule=Rule("dopamine")), gids, comm)
    return found


def small(comm, **given):
    """A network of two cells a rank; `given` to change it."""
    gids = given.get("gids", 2 * comm.rank + np.arange(2))
    net = Network(CABLES[:1], 2)
    if gids is not None:
        net.gids = gids
    net.insert("hh", "soma")
    syn = net.add(given.get("synapse", "expsyn"), net.soma)
    sources = given.get("sources", (2 * comm.rank + 2 + np.arange(2)) % (2 * comm.size))
    net.connect(sources, syn, weight=1e-3, delay=given.get("delay", 1.0), rule=given.get("rule"))
    return net


def rejections(comm):
    """What each rank says; all go on."""
    last = comm.rank == comm.size - 1

    def simulation(net=None, dt=DT, **options):
        return Simulation(net or small(comm), dt, comm=comm, engine="reference", **options)

    def noisy():
        net = small(comm)
        net.add("inoise", net.soma, mean=0.0, std=0.1)
        simulation(net)

    def exact():
        net = small(comm)
        net.insert(mod_files.ours("ext_cad"), net.soma)
        simulation(net)

    def nowhere():
        net = small(comm)
        net.add("exp2syn", [])
        simulation(net)

    def infinite():
        net = small(comm)
        net.add("iclamp", net.soma[:1], delay=0.5, dur=1.0, amp=1e308 if last else 0.0)
        simulation(net).run(3.0)

    def recorded():
        sim = simulation()
        sim.record("v", sim.network.soma[: comm.rank])
        return sim.run(0.5).values[0].shape

    def overflow():
        net = small(comm)
        net.add("iclamp", net.soma, dur=50.0, amp=1.0 if last else 0.0)
        Simulation(net, DT, comm=comm, max_spikes=1).run(50.0)

    rules = STDP(2e-4, 1e-4, w_max=2e-3), STDP(1e-4, 1e-4, w_max=2e-3)
    scenarios = {
        "twice": lambda: simulation(small(comm, gids=comm.rank + np.arange(2))),
        "nowhere": lambda: simulation(small(comm, sources=[0, 99 if last else 1])),
        "mechanisms": lambda: simulation(small(comm, synapse="exp2syn" if last else "expsyn")),
        "dt": lambda: simulation(dt=0.05 if last else DT),
        "seed": lambda: simulation(seed=int(last)),
        "dtype": lambda: Simulation(small(comm), DT, "float32" if last else "float64", comm=comm),
        "some": lambda: simulation(small(comm, gids=None if last else [0, 1], sources=[0, 1])),
        "delay": lambda: simulation(small(comm, delay=0.001 if last else 1.0)),
        "rules": lambda: simulation(small(comm, rule=rules[int(last)])),
        "noise": noisy,
        "exact": exact,
        "no instance": nowhere,
        "infinite": infinite,
        "overflow": overflow,
        "duration": lambda: simulation().run(1.0 + last),
        "set": lambda: simulation().set(v_init=-60.0),
        "save": lambda: simulation().save(Path(sys.argv[1]) / "own.npz"),
        "restore": lambda: simulation().restore(Path(sys.argv[1]) / "own.npz"),
        "arrays": lambda: simulation().arrays(),
        "reward": lambda: simulation().reward(1.0),
        "records": recorded,
    }
    found = {}
    for name, do in scenarios.items():
        try:
            line = f"returned {do()}"
        except ClhinesError as error:
            line = f"{type(error).__name__}: {' '.join(str(error).split())}"
        found[name] = comm.allgather(line)
    return found


def main():
    comm, folder = mpi.world(), Path(sys.argv[1])
    if len(sys.argv) > 2:
        sim = Simulation(busy(cells_of(comm.rank, comm.size))[0], DT, comm=comm)
        do = {"fails": fail, "killed": lambda: os.kill(os.getpid(), signal.SIGKILL)}
        break_rank(sim, 1, do[sys.argv[2]])
        sim.run(100.0)
        return
    found = run_cases(comm)
    if comm.size == 2:
        found["rejected"] = rejections(comm)
    if comm.rank == 0:
        (folder / f"own{comm.size}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()

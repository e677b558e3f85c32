"""A network with exact times for ranks; under mpiexec: ``python exact_ranks.py FOLDER``."""

import hashlib
import json
import sys
from pathlib import Path

import mod_files
import numpy as np

from clhines import Network, Simulation
from clhines.simulator.ranks import mpi

# whether each has gap junctions between cells, and so between ranks
ENGINES = {"reference": True, "steps": True, "epochs-cpu": False, "epochs-gpu": False}
CELLS, STATES = 5, {"ext_nmda": "g", "ext_fire": "m", "ext_watch": "on", "ext_sum": "sum"}


def network(gaps=True):
    """Detectors, artificial cells, trains, ions; a ring of gap junctions over all cells.

    Without `gaps` the junctions are within cells, and events come later.
    """
    rng, ours = np.random.default_rng(3), mod_files.ours
    n = 6 * CELLS
    parent = np.tile([-1, 0, 1, 2, 3, 4], CELLS) + 6 * np.repeat(np.arange(CELLS), 6)
    parent[::6] = -1
    area = rng.uniform(300, 1500, n)
    net = Network.from_arrays(
        parent, np.arange(0, n + 1, 6), area, rng.uniform(0.05, 0.2, n), 1e-5 * area
    )
    nodes, soma = np.arange(n), np.arange(0, n, 6)
    for name in ("hh", *map(ours, ("ext_cad", "ext_ca", "ext_kca", "ext_table"))):
        net.insert(name, nodes)
    at = {"ext_nmda": soma + 3, "ext_watch": soma[[1, 3]], "ext_sum": np.repeat(soma[:3] + 2, 2)}
    begins = {"ext_sum": {"sum": rng.uniform(0, 0.1, 6)}}  # a number for each instance
    groups = {name: net.add(ours(name), at[name], **begins.get(name, {})) for name in at}
    nmda, watch, added = groups.values()
    groups["ext_fire"] = fire = net.add_artificial(ours("ext_fire"), 4)
    net.set_pointer(
        net.add(ours("ext_gap"), soma + 5), "vgap", to=np.roll(soma + 5, 1) if gaps else soma + 3
    )
    net.add("iclamp", at=soma, delay=2.0, dur=40.0, amp=rng.uniform(0.1, 0.5, CELLS))
    net.play(net.add(ours("ext_clamp"), soma[[2]]), 0, "amp", [0, 5, 9.0], [0, 0.1, 0.2])
    spikes = net.add_detector(np.concatenate([soma, soma + 5]), -20.0, 3.0)
    weights = np.stack([rng.uniform(0.001, 0.004, 2 * CELLS), np.ones(2 * CELLS)], axis=1)
    delays = rng.uniform(0, 2, (2, 10)) + (0.0 if gaps else 0.5)
    net.connect(spikes, nmda, rng.integers(0, CELLS, 2 * CELLS), weights, delays[0])
    net.connect(spikes, fire, rng.integers(0, 4, 2 * CELLS), 0.5, delays[1])
    net.connect(fire, fire, [1, 2, 3], 0.7, 0.001, source_index=[0, 1, 2])
    net.connect(fire, added, [0, 2, 4, 5], 0.002, 0.3)
    net.connect(watch, fire, [0, 1], 1.2, 0.2)
    net.connect(
        net.spike_source([[1.0, 2.0, 5.0], [3.3]]), nmda, [0, CELLS - 1], [[0.003, 1.0]], 0.1
    )
    return net, groups


def found(folder, comm, engine):
    """Return digests of a run, and of a run that continues a state saved by one process."""
    net, groups = network(ENGINES[engine])
    sim = Simulation(net, 0.05, engine=engine, comm=comm, chunk=100)
    for name in ("v", "cai", "ica"):
        sim.record(name, np.arange(6 * CELLS))
    for name, state in STATES.items():
        sim.record(state, groups[name])
    first, file = sim.run(15.0), folder / f"{engine}.npz"
    if comm is None:
        sim.save(file)
    digests = [digest(first), digest(sim.run(5.0), sim.weights())]
    sim.restore(file)
    return [*digests, digest(sim.run(5.0), sim.weights()), len(first.spike_time)]


def digest(result, *more):
    """One number for all bits of a result."""
    bits = hashlib.sha256()
    for a in (*result.values, result.spike_time, result.spike_cell, *more):
        bits.update(np.ascontiguousarray(a).tobytes())
    return bits.hexdigest()[:16]


if __name__ == "__main__":
    where, world = Path(sys.argv[1]), mpi.world()
    digests = {engine: found(where, world, engine) for engine in ENGINES}
    assert all(other == digests for other in world.allgather(digests))
    if world.rank == 0:
        (where / f"found{world.size}.json").write_text(json.dumps(digests))

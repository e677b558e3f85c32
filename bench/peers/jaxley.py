"""Jaxley: its tree solver for the measure `peers`, and the ring network in it for `ring`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench import MissingError, ring
from bench.peers import ring as peer
from bench.peers.host import out_of_place
from bench.systems import Candidate
from bench.systems import Case as Batch
from clhines.simulator.cells.cable import Cable

JAXLEY_NODES = 1_500_000  # largest batch for Jaxley, which compiles each case anew
JAXLEY_LEVELS = 256  # levels in a GPU's solve, which unrolls them: 512 compile for a minute

# -- the tree solver ------------------------------------------------------------------------------


def jaxley_tree(case: Batch) -> Iterator[Candidate]:
    """Jaxley's tree solver alone, jitted: on a network of all cells, or mapped over equal ones."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave memory to the others
    try:
        import jax
        from jaxley.solver_voltage import _make_dhs_solve
    except ImportError as error:
        raise MissingError(str(error)) from error
    if case.forest.num_nodes > JAXLEY_NODES:
        raise MissingError(f"not run above {JAXLEY_NODES:,} nodes")
    jax.config.update("jax_enable_x64", True)
    where = jax.default_backend()
    for mapped in [False, True] if len(case.parents) == 1 else [False]:
        parent = case.parents[0] if mapped else case.forest.parent
        order = jaxley_order(parent, case.nodes, where != "cpu")
        levels = len(order["node_order_grouped"])
        if where != "cpu" and levels > JAXLEY_LEVELS:
            raise MissingError(f"not run above {JAXLEY_LEVELS} levels; these trees have {levels}")
        solve = _make_dhs_solve(order, where != "cpu", len(parent))
        solve = jax.jit(jax.vmap(solve) if mapped else solve)
        name = f"Jaxley on {where.upper()}, {'vmap' if mapped else 'network'}"
        yield jaxley_candidate(name, solve, case, mapped, jax.numpy.asarray)


def jaxley_candidate(name: str, solve: Any, case: Batch, mapped: bool, to_jax: Any) -> Candidate:
    cells = case.cells if mapped else 1

    def arrays(k: int) -> list[Any]:
        ends = ((0, 0), (0, 1))  # the solver wants one more node, for padding to point at
        d, u, b = (
            np.pad(a.reshape(cells, -1), ends, constant_values=fill)
            for a, fill in zip(case.sets[k], (1, 0, 0))
        )
        return [to_jax(a if mapped else a[0]) for a in (d, u, u, b)]

    def solver(k: int) -> Any:
        inputs = arrays(k)
        return lambda: solve(*inputs).block_until_ready()

    made = out_of_place(name, [solver(k) for k in range(len(case.sets))])
    padded = made.result
    made.result = lambda k: padded(k).reshape(cells, -1)[:, :-1].reshape(-1)
    return made


def jaxley_order(parent: np.ndarray, nodes: int, gpu: bool) -> dict[str, Any]:
    """Return the order in which Jaxley's solver works: node after node, or on a GPU by depth.

    On a GPU Jaxley takes at most 32 nodes of a cell at a time.
    """
    child = np.flatnonzero(parent >= 0)
    level = np.arange(len(child))
    if gpu:
        cell, depth = np.arange(len(parent)) // nodes, np.zeros(len(parent), np.int64)
        for i in range(1, nodes):
            here = np.arange(i, len(parent), nodes)
            depth[here] = depth[parent[here]] + 1
        key = cell[child] * nodes + depth[child]
        by_key = np.argsort(key, kind="stable")
        first = np.searchsorted(key[by_key], key[by_key])
        rank = np.empty_like(key)
        rank[by_key] = np.arange(len(key)) - first
        level = np.unique(depth[child] * nodes + rank // 32, return_inverse=True)[1]
    edges = np.stack([child, parent[child]], axis=1).astype(np.int32)
    by_level = np.argsort(level, kind="stable")
    cuts = np.flatnonzero(np.diff(level[by_level])) + 1
    groups = np.split(edges[by_level], cuts)
    return {
        "node_order_grouped": groups if gpu else edges.reshape(-1, 1, 2),
        "all_children": edges[by_level, 0],
        "all_parents": edges[by_level, 1],
        "parent_lookup": np.append(parent, -1),
    }


# -- the ring network ---------------------------------------------------------------------------


def jaxley_cell(jx: Any, channels: Any, cable: Cable, hh_everywhere: bool) -> Any:
    """Return Jaxley's cell: a branch a section, compartments that are cylinders."""
    ours = cable.sections
    part = jx.Compartment()
    branches = [jx.Branch(part, ncomp=int(count)) for count in cable.nseg]
    cell = jx.Cell(branches, parents=ours.parent.tolist())
    counts = cable.nseg
    length = np.repeat(ours.length / counts, counts)
    cell.set("length", length)
    cell.set("radius", cable.area[cable.area > 0] / (2 * np.pi * length))
    cell.set("axial_resistivity", cable.Ra)
    cell.set("capacitance", cable.cm)
    cell.set("v", ring.V_INIT)
    if hh_everywhere:
        cell.insert(channels.HH())
    else:
        cell.branch(0).insert(channels.HH())
        leak = channels.Leak()
        leak.channel_params |= {"Leak_gLeak": ring.G_PAS, "Leak_eLeak": ring.E_PAS}
        cell.branch(list(range(1, ours.num_sections))).insert(leak)
    return cell


def jaxley_start(case: peer.Case) -> peer.Running:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    jax.config.update("jax_enable_x64", True)
    import jaxley as jx
    from jaxley import channels

    clock = peer.Clock()
    cables = case.cables()
    with clock.part("build"), peer.printed_to(sys.stderr):
        cells = [jaxley_cell(jx, channels, cable, case.hh == "all") for cable in cables]
        turns = [cells[c % len(cells)] for c in range(case.cells)]
        network = jx.Network(turns)
        soma = network.cell(0).branch(0).loc(0.5)
        soma.record("v")
        soma.stimulate(jx.step_current(ring.START, 1.0, 1.0, case.dt, case.duration))
        network.to_jax()
    ready: dict[int, Any] = {}

    def prepare(steps: int) -> None:
        if steps not in ready:
            with clock.part("plan"):
                end = (steps - 0.5) * case.dt
                run = jax.jit(lambda: jx.integrate(network, delta_t=case.dt, t_max=end))
                ready[steps] = run.lower().compile()

    def advance(steps: int) -> None:
        ready[steps]().block_until_ready()

    compartments = peer.totals(case, cables)
    return peer.Running(
        name=f"Jaxley {jx.__version__}",
        where=f"CPU, JAX {jax.__version__}",
        compartments=compartments,
        nodes=compartments,
        advance=advance,
        spikes=None,
        prepare=prepare,
        built=clock.parts,
        notes=[
            "no connections, as its synapses have no delay: a current into the first cell; "
            "cylinders with the areas of the others; each piece begins at t = 0"
        ],
    )

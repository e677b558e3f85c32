"""Run the ring network in one simulator, in a process of its own, and time its steps.

    python bench/ring_peers.py NEURON '{"cells": 16}' result.json

`bench_ring.py` starts this for each simulator, so that none has the threads, the memory or the
crashes of another. The result is one row, or the reason why there is none.

Every simulator gets the same cells (`clhines.ring.ring_cables`): the same sections, cut into the
same numbers of compartments, with the same areas and resistances as far as it takes them. Time
goes in pieces of equal numbers of steps; a piece, divided by its steps, is one timing.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from clhines.cells.cable import Cable
from clhines.network import ring

WARM = 8  # steps before any is timed
LEAST, MOST = 3, 25  # timed pieces
CELSIUS = 6.3


class MissingError(Exception):
    """A simulator that cannot be timed here; the message is the reason."""


@dataclass(frozen=True)
class Case:
    """One network and how long it may take.

    Attributes
    ----------
    cells : int
    shapes : int
        Different cells, repeated in turn.
    hh : str
        ``soma``: HH there and passive dendrites; ``all``: HH in every compartment.
    levels, branching, compartments, seed
        Of `clhines.ring.ring_cables`.
    dt, duration : float, ms
        A step, and the longest time that is simulated.
    seconds : float
        For the timed pieces.
    threads : int
        Of simulators that run on the host.
    dtype, engine, device : str
        Of clhines.
    """

    cells: int
    shapes: int = ring.SHAPES
    hh: str = "soma"
    levels: int = ring.LEVELS
    branching: float = ring.BRANCHING
    compartments: int = ring.COMPARTMENTS
    seed: int = 0
    dt: float = 0.025
    duration: float = 200.0
    seconds: float = 10.0
    threads: int = 2
    dtype: str = "float64"
    engine: str = "auto"
    device: str | None = None

    def cables(self) -> list[Cable]:
        """Return the different cells; cell c of the network is number ``c % len(...)``."""
        shapes = min(self.shapes, self.cells)
        return ring.ring_cables(
            shapes, self.levels, self.branching, self.compartments, seed=self.seed
        )


@dataclass
class Running:
    """A simulation that is ready for its first step.

    Attributes
    ----------
    name : str
    where : str
        What it runs on.
    compartments, nodes : int
        Those with membrane, and all rows of the matrices.
    advance : callable
        ``advance(steps)`` goes on and waits. It returns the seconds taken by a clock of the
        simulator, and None where wall time is meant.
    spikes : callable or None
        Times [ms] and cells of all spikes so far.
    prepare : callable
        ``prepare(steps)`` compiles, outside the clock, what ``advance(steps)`` needs.
    built : dict of str -> float
        Seconds of each part of the set-up.
    notes : list of str
        What differs from the other simulators.
    keep : object
        What must live as long as the simulation.
    """

    name: str
    where: str
    compartments: int
    nodes: int
    advance: Callable[[int], float | None]
    spikes: Callable[[], tuple[np.ndarray, np.ndarray]] | None
    prepare: Callable[[int], object] = lambda steps: None
    built: dict[str, float] = field(default_factory=dict)
    dtype: str = "float64"
    notes: list[str] = field(default_factory=list)
    keep: Any = None


class Clock:
    """Seconds of the parts of a set-up."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the time of the block to a part."""
        begin = time.perf_counter()
        yield
        self.parts[name] = self.parts.get(name, 0.0) + time.perf_counter() - begin


def totals(case: Case, cables: list[Cable]) -> int:
    """Count the compartments of the network."""
    each = [int(cable.nseg.sum()) for cable in cables]
    return int(np.resize(each, case.cells).sum())


# -- NEURON and CoreNEURON ---------------------------------------------------------------------


def neuron_cell(h: Any, cable: Cable, hh_everywhere: bool) -> list[Any]:
    """Return NEURON's sections of a cell; the first holds the soma."""
    ours, found = cable.sections, []
    for s in range(ours.num_sections):
        section = h.Section(name=f"s{s}")
        for point in ours.points[ours.offsets[s] : ours.offsets[s + 1]].tolist():
            section.pt3dadd(*point)
        section.nseg, section.Ra, section.cm = int(cable.nseg[s]), cable.Ra, cable.cm
        if s:
            section.connect(found[ours.parent[s]](float(ours.parent_x[s])), 0)
        if s == 0 or hh_everywhere:
            section.insert("hh")
        else:
            section.insert("pas")
            section.g_pas, section.e_pas = ring.G_PAS, ring.E_PAS
        found.append(section)
    return found


def neuron_ring(h: Any, pc: Any, case: Case, cables: list[Cable]) -> list[Any]:
    """Make the cells and connect them; what must be kept, connections from cell c at ``[c]``."""
    cells, sources = [], []
    for gid in range(case.cells):
        sections = neuron_cell(h, cables[gid % len(cables)], case.hh == "all")
        soma = sections[0](0.5)
        synapse = h.ExpSyn(soma)
        synapse.tau, synapse.e = ring.TAU, ring.REVERSAL
        pc.set_gid2node(gid, pc.id())
        source = h.NetCon(soma._ref_v, None, sec=sections[0])
        source.threshold = ring.THRESHOLD
        pc.cell(gid, source)
        sources.append(source)
        cells.append((sections, synapse))
    into = []
    for gid in range(case.cells):
        connection = pc.gid_connect((gid - 1) % case.cells, cells[gid][1])
        connection.weight[0], connection.delay = ring.WEIGHT, ring.DELAY
        into.append(connection)
    return [into, cells, sources]


def neuron_start(case: Case, core: bool) -> Running:
    """Return the ring in NEURON's fixed step, or the same model handed to CoreNEURON."""
    from neuron import __version__, coreneuron, h

    clock = Clock()
    cables = case.cables()
    with clock.part("build"):
        h.load_file("stdrun.hoc")
        pc = h.ParallelContext()
        kept = neuron_ring(h, pc, case, cables)
        pc.nthread(case.threads)
        times, cells = h.Vector(), h.Vector()
        pc.spike_record(-1, times, cells)
        h.celsius, h.dt, h.secondorder = CELSIUS, case.dt, 0
        h.cvode.active(0)
        pc.set_maxstep(10)
        h.finitialize(ring.V_INIT)
        kept[0][0].event(ring.START)
    steps_done = 0
    if core:
        coreneuron.enable, coreneuron.verbose = True, 2  # it says then how long it took

    def advance(steps: int) -> float | None:
        nonlocal steps_done
        steps_done += steps
        end = steps_done * case.dt
        if not core:
            pc.psolve(end)
            return None
        with tempfile.TemporaryFile() as said:
            with printed_to(said):
                pc.psolve(end)
            said.seek(0)
            found = re.findall(rb"Solver Time : ([0-9.eE+-]+)", said.read())
        if len(found) != 1:
            raise MissingError("CoreNEURON did not say how long its solver took")
        return float(found[0])

    def spikes() -> tuple[np.ndarray, np.ndarray]:
        return np.array(times), np.array(cells).astype(int)

    nodes = sum(1 + c.sections.num_sections + int(c.nseg.sum()) for c in cables)
    notes = [
        "a node without membrane at the end of each section, tips and roots too; rates of HH from "
        "tables, linearly interpolated"
    ]
    if core:
        notes.append("the time that its solver prints; copying the model to it is in plan s")
    return Running(
        name=f"{'CoreNEURON' if core else 'NEURON'} {__version__}",
        where=f"{case.threads} threads",
        compartments=totals(case, cables),
        nodes=round(nodes * case.cells / len(cables)),
        advance=advance,
        spikes=spikes,
        built=clock.parts,
        notes=notes,
        keep=kept,
    )


@contextmanager
def printed_to(file: Any) -> Iterator[None]:
    """Send what libraries print to a file."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(file.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def neuron(case: Case) -> Running:
    """NEURON."""
    return neuron_start(case, core=False)


def coreneuron(case: Case) -> Running:
    """CoreNEURON, in memory."""
    return neuron_start(case, core=True)


# -- Arbor -------------------------------------------------------------------------------------


def arbor_cell(arbor: Any, cable: Cable, hh_everywhere: bool) -> Any:
    """Return Arbor's description of a cell: one segment, and so one control volume, a compartment.

    Segments lie along one axis, as only their lengths and radii count.
    """
    units, ours = arbor.units, cable.sections
    tree, last = arbor.segment_tree(), []
    for s in range(ours.num_sections):
        points = slice(*ours.offsets[s : s + 2])
        cut = np.linspace(0.0, ours.length[s], cable.nseg[s] + 1)
        radius = np.interp(cut, ours.arc[points], ours.points[points, 3] / 2.0)
        above = last[ours.parent[s]] if s else arbor.mnpos
        ends = [arbor.mpoint(x, 0, 0, r) for x, r in zip(cut.tolist(), radius.tolist())]
        for begin, end in zip(ends[:-1], ends[1:]):
            above = tree.append(above, begin, end, 3 if s else 1)
        last.append(above)
    decor = arbor.decor()
    decor.set_property(
        Vm=ring.V_INIT * units.mV,
        cm=0.01 * cable.cm * units.F / units.m2,
        rL=cable.Ra * units.Ohm * units.cm,
        tempK=(273.15 + CELSIUS) * units.Kelvin,
    )
    if hh_everywhere:
        decor.paint("(all)", arbor.density("hh"))
    else:
        decor.paint("(tag 1)", arbor.density("hh"))
        passive = arbor.density(f"pas/e={ring.E_PAS}", {"g": ring.G_PAS})
        decor.paint("(tag 3)", passive)
    synapse = arbor.synapse("expsyn", {"tau": ring.TAU, "e": ring.REVERSAL})
    decor.place("(root)", synapse, "synapse")
    decor.place("(root)", arbor.threshold_detector(ring.THRESHOLD * units.mV), "detector")
    policy = arbor.cv_policy_every_segment("(all)")
    return arbor.cable_cell(tree, decor, arbor.label_dict(), policy)


def arbor_recipe(arbor: Any, case: Case, cables: list[Cable]) -> Any:
    """Return the network as Arbor asks for it."""
    units = arbor.units
    cells = [arbor_cell(arbor, cable, case.hh == "all") for cable in cables]

    class Ring(arbor.recipe):
        def __init__(self) -> None:
            arbor.recipe.__init__(self)
            self.cells, self.properties = cells, arbor.neuron_cable_properties()

        def num_cells(self) -> int:
            return case.cells

        def cell_kind(self, gid: int) -> Any:
            return arbor.cell_kind.cable

        def cell_description(self, gid: int) -> Any:
            return cells[gid % len(cells)]

        def global_properties(self, kind: Any) -> Any:
            return self.properties

        def connections_on(self, gid: int) -> list[Any]:
            source = ((gid - 1) % case.cells, "detector")
            return [arbor.connection(source, "synapse", ring.WEIGHT, ring.DELAY * units.ms)]

        def event_generators(self, gid: int) -> list[Any]:
            if gid:
                return []
            when = arbor.explicit_schedule([ring.START * units.ms])
            return [arbor.event_generator("synapse", ring.WEIGHT, when)]

    return Ring()


def arbor_start(case: Case) -> Running:
    """Arbor on threads, without a GPU."""
    import arbor

    clock = Clock()
    cables = case.cables()
    with clock.part("build"):
        recipe = arbor_recipe(arbor, case, cables)
        nodes = [arbor.cv_data(cell).num_cv for cell in recipe.cells]
    with clock.part("plan"):
        context = arbor.context(threads=case.threads)
        simulation = arbor.simulation(
            recipe, context, arbor.partition_load_balance(recipe, context)
        )
        simulation.record(arbor.spike_recording.all)
    unit, steps_done = arbor.units.ms, 0

    def advance(steps: int) -> None:
        nonlocal steps_done
        steps_done += steps
        simulation.run(steps_done * case.dt * unit, case.dt * unit)

    def spikes() -> tuple[np.ndarray, np.ndarray]:
        found = simulation.spikes()
        return found["time"], found["source"]["gid"].astype(int)

    return Running(
        name=f"Arbor {arbor.__version__}",
        where=f"{case.threads} threads",
        compartments=totals(case, cables),
        nodes=int(np.resize(nodes, case.cells).sum()),
        advance=advance,
        spikes=spikes,
        built=clock.parts,
        notes=[
            "dendrites begin at the end of the soma, not at its middle; a compartment with a "
            "sample inside is one frustum between its ends; times of spikes between steps"
        ],
    )


# -- Jaxley ------------------------------------------------------------------------------------


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


def jaxley_start(case: Case) -> Running:
    """Jaxley on the CPU: unconnected cells, as its synapses have no delay."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    jax.config.update("jax_enable_x64", True)
    import jaxley as jx
    from jaxley import channels

    clock = Clock()
    cables = case.cables()
    with clock.part("build"), printed_to(sys.stderr):
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

    compartments = totals(case, cables)
    return Running(
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


# -- clhines -----------------------------------------------------------------------------------


def clhines_start(case: Case) -> Running:
    """Start clhines on the device of the case."""
    import clhines
    from clhines.device import devices, program

    clock = Clock()
    cables = case.cables()
    queue = devices.make_queue(devices.choose(case.device, np.dtype(case.dtype)))
    early = len(program.build_seconds)
    with clock.part("build"):
        network = ring.ring_network(cables, case.cells, hh=case.hh)
    with clock.part("plan"):
        simulation = clhines.Simulation(
            network,
            dt=case.dt,
            v_init=ring.V_INIT,
            dtype=case.dtype,
            queue=queue,
            engine=case.engine,
        )
    clock.parts["compile"] = sum(program.build_seconds[early:])
    clock.parts["plan"] -= clock.parts["compile"]
    times: list[np.ndarray] = []
    cells: list[np.ndarray] = []

    def advance(steps: int) -> None:
        result = simulation.run(steps * case.dt)
        times.append(result.spike_time)
        cells.append(result.spike_cell)

    return Running(
        name=f"clhines ({simulation.engine}), {case.dtype}",
        where=devices.label(queue.device),
        compartments=totals(case, cables),
        nodes=network.forest.num_nodes,
        advance=advance,
        spikes=lambda: (np.concatenate(times), np.concatenate(cells)),
        built=clock.parts,
        dtype=case.dtype,
        keep=simulation,
    )


# -- timing ------------------------------------------------------------------------------------

OWN = "clhines"
PEERS: dict[str, Callable[[Case], Running]] = {
    OWN: clhines_start,
    "NEURON": neuron,
    "CoreNEURON": coreneuron,
    "Arbor": arbor_start,
    "Jaxley": jaxley_start,
}


def timed(running: Running, steps: int) -> tuple[float, float]:
    """Advance; seconds a step by the simulator's clock or the wall's, and wall seconds in all."""
    running.prepare(steps)
    begin = time.perf_counter()
    own = running.advance(steps)
    wall = time.perf_counter() - begin
    return (wall if own is None else own) / steps, wall


def measure(running: Running, case: Case) -> dict[str, Any]:
    """Time pieces of the simulation until the seconds or the time simulated are used up."""
    total = round(case.duration / case.dt)
    if total < 2 * WARM + LEAST:
        raise MissingError(f"{total} steps; expected at least {2 * WARM + LEAST}")
    warm = min(WARM, (total - LEAST) // 2)
    first, wall = timed(running, warm)
    if wall > 2 * first * warm:  # what the simulator's own clock leaves out
        running.built["plan"] = running.built.get("plan", 0.0) + wall - first * warm
    step, _ = timed(running, warm)
    pieces = max(LEAST, 9)
    left = total - 2 * warm
    steps = int(np.clip(case.seconds / pieces / step, WARM, max(left // pieces, 1)))
    taken: list[float] = []
    used = 0.0
    while len(taken) < MOST and (len(taken) + 1) * steps <= left:
        if len(taken) >= LEAST and used > case.seconds:
            break
        step, wall = timed(running, steps)
        taken.append(step)
        used += wall
    done = 2 * warm + steps * len(taken)
    result = row(running, case, taken)
    result |= {"first_steps_s": first * warm, "piece_steps": steps, "simulated_ms": done * case.dt}
    return result


def row(running: Running, case: Case, taken: list[float]) -> dict[str, Any]:
    """Return one line of the results."""
    step = float(np.median(taken))
    spikes = None
    if running.spikes is not None:
        times, cells = running.spikes()
        order = np.lexsort((cells, times))
        spikes = {"time": np.round(times[order], 6).tolist(), "cell": cells[order].tolist()}
    return {
        "name": running.name,
        "where": running.where,
        "cells": case.cells,
        "hh": case.hh,
        "shapes": min(case.shapes, case.cells),
        "dtype": running.dtype,
        "compartments": running.compartments,
        "nodes": running.nodes,
        "seconds": step,
        "best_seconds": min(taken),
        "pieces": len(taken),
        "taken": taken,
        "ns_per_compartment": step / running.compartments * 1e9,
        "setup_s": {k: round(v, 4) for k, v in running.built.items()},
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "spikes": spikes,
        "notes": running.notes,
    }


def run(name: str, case: Case) -> dict[str, Any]:
    """Return the row of one simulator, or its ``reason`` for having none."""
    try:
        return measure(PEERS[name](case), case)
    except ImportError as error:
        reason = f"not installed: {error}"
    except MissingError as error:
        reason = str(error)
    except Exception as error:  # whatever a simulator does, the others are timed
        reason = f"{type(error).__name__}: {error}"
    return {"name": name, "cells": case.cells, "reason": first_line(reason)}


def first_line(text: str) -> str:
    """Return the first line of a text, shortened."""
    return (text.strip().splitlines() or ["no reason"])[0][:200]


def main() -> None:
    """Run one simulator and write its row."""
    name, case, out = sys.argv[1:]
    result = run(name, Case(**json.loads(case)))
    Path(out).write_text(json.dumps(result), "utf-8")


def arguments_of(case: Case) -> str:
    """Return a case as the text that `main` reads."""
    return json.dumps(asdict(case))


if __name__ == "__main__":
    main()

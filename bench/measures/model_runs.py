"""One model of `model_cases` in this process: by NEURON, this package, or CoreNEURON."""

from __future__ import annotations

import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NoReturn

import numpy as np

from bench import nrn
from bench.measures.model_cases import Case

EQUAL_V = 1e-6  # mV: voltages that differ less are called equal
MOST_VECTORS = 50  # voltages that are compared; with more cells, the spikes
THREADS = 2
DT, LATER = 0.025, 1e-10  # ms; NEURON's spikes are so much later than their step
ROUNDS, WARM, PIECES = 3, 200, 3  # warm rounds; steps in a run with copies; one-step pieces
INSTRUCTIONS = {  # pattern -> its approximate float64 instructions
    r"[-+*] |\bfma\(": 1, r" / ": 9, r"\bexp\w*\(": 16, r"\blog\w*\(": 22, r"\bpow\w*\(": 45,
}  # fmt: skip
Taken = tuple[list[np.ndarray], list[np.ndarray]]


def began(case: Case) -> tuple[Any, list[Any], float, object]:
    from neuron import h

    h.load_file("stdrun.hoc")
    sections, v_init, kept = case.build(h)
    h.cvode_active(0)
    h.dt, h.steps_per_ms = DT, 40
    return h, sections, v_init, kept


class Measured:
    def __init__(self, case: Case) -> None:
        self.h, sections, self.v_init, self.kept = began(case)
        h = self.h
        self.voltages = [section(0.5)._ref_v for section in sections[:MOST_VECTORS]]
        self.vectors = [h.Vector().record(v) for v in self.voltages]
        self.spikes, self.netcons = list[Any](), list[Any]()
        for section in sections:
            self.netcons.append(h.NetCon(section(0.5)._ref_v, None, sec=section))
            self.netcons[-1].threshold = -20
            self.spikes.append(h.Vector())
            self.netcons[-1].record(self.spikes[-1])

    def run(self, way: Callable[[float], object], until: float) -> tuple[float, Taken]:
        self.h.finitialize(self.v_init)
        begin = time.perf_counter()
        way(until)
        spent = time.perf_counter() - begin
        return spent, ([np.array(v) for v in self.vectors], [np.array(s) for s in self.spikes])

    def nudged(self, until: float) -> None:
        """Run by NEURON, the voltages that are recorded an ulp nearer to 0 after each step."""
        h, voltages = self.h, self.voltages
        for _ in range(math.ceil((until - h.t) / h.dt - 0.5)):
            h.fadvance()
            for v in voltages:
                v[0] = math.nextafter(v[0], 0.0)

    def reordered(self, until: float) -> tuple[float, Taken]:
        """Run by NEURON with its nodes in another order."""
        pc = self.h.ParallelContext()
        pc.optimize_node_order(1)
        result = self.run(self.h.continuerun, until)
        pc.optimize_node_order(0)
        return result


WAYS = ("neuron", "clhines", "reordered", "nudged")


def by_texts(case: Case, device: str | None, dtype: str) -> Callable[[float], tuple[float, Taken]]:
    """Return a function that runs a case's network from the start, as `Measured.run` does.

    Spikes get the time that NEURON assigns to spikes in their step.
    """
    from clhines import Simulation
    from clhines.neuron.calls import clock

    assert case.network is not None
    sim = Simulation(case.network(), dt=DT, dtype=dtype, device=device)
    num_cells = sim.network.num_cells
    voltages = sim.record("v", at="soma")

    def run(until: float) -> tuple[float, Taken]:
        sim.reset()
        begin = time.perf_counter()
        result = sim.run(until)
        spent = time.perf_counter() - begin
        times = clock(0.0, DT, sim.step)[np.rint(result.spike_time / DT).astype(int)] + LATER
        spikes = [times[result.spike_cell == c] for c in range(num_cells)]
        return spent, (list(result[voltages].T[:MOST_VECTORS]), spikes)

    return run


def mechanisms(h: Any) -> int:
    sections = list(h.allsec())
    count = sum(len(h.List(name)) > 0 for name in nrn.mechanism_names(h, True))
    for name in nrn.mechanism_names(h, False):
        if name not in ("morphology", "capacitance") and not name.endswith("_ion"):
            count += any(s.has_membrane(name) for s in sections)
    return count


def operations(model: Any) -> float:
    """Estimate the float64 instructions per step from the texts of the model's functions.

    An operator counts as one, except for the operations in `INSTRUCTIONS`. Loops count once. A node
    is eliminated and substituted by ten instructions and a division.
    """
    count = model.forest.num_nodes * (10.0 + INSTRUCTIONS[r" / "])
    for kind in model.kinds:
        program = kind.mechanism
        blocks = [b for b in ("current", "advance") if b in program.program.blocks]
        text = "".join(program.functions("double", (), [block]) for block in blocks)
        count += kind.count * sum(n * len(re.findall(p, text)) for p, n in INSTRUCTIONS.items())
    return count


def one_way(
    case: Case, way: str, stop: float, device: str | None, dtype: str = "float64",
    rounds: int = ROUNDS,
) -> tuple[dict[str, Any], Taken]:  # fmt: skip
    """Run this folder's model in one of `WAYS`; return its row and its records.

    After two steps NEURON runs `rounds` times, this package `ROUNDS` times, the others once.
    Seconds are for the first run, microseconds per step for the fastest.
    """
    import clhines

    model = Measured(case)
    h = model.h
    said: dict[str, Any] = {"stop_ms": stop}
    begin = time.perf_counter()
    runs = {
        "neuron": partial(model.run, h.continuerun),
        "clhines": partial(model.run, partial(clhines.neuron.run, device=device, dtype=dtype)),
        "nudged": partial(model.run, model.nudged),
        "reordered": model.reordered,
    }
    run = by_texts(case, device, dtype) if way == "clhines" and case.network else runs[way]
    run(2 * h.dt)  # builds kernels; in NEURON some models start from the last run's state
    if way == "clhines":
        said["first_step_s"] = time.perf_counter() - begin
    many = {"neuron": rounds, "clhines": ROUNDS}.get(way, 1)
    times, all_records = zip(*(run(stop) for _ in range(many)), strict=True)
    if way in ("neuron", "clhines"):
        said[f"{way}_us"] = 1e6 * min(times) / round(stop / h.dt)
    if way == "clhines" and not case.network:
        simulation = clhines.from_neuron(dtype, device).simulation
        said["operations"] = operations(simulation.model)
    spent, records = times[0], all_records[0]
    said |= {
        "dt": float(h.dt),
        "cells": sum(s.parentseg() is None for s in h.allsec()),
        "compartments": sum(s.nseg for s in h.allsec()),
        "mechanisms": mechanisms(h),
        "spikes": sum(map(len, records[1])),
        f"{way}_s": spent,
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
    }
    return said, records


def first_steps(
    case: Case, copies: list[int], dtype: str, device: str | None
) -> Iterator[dict[str, Any]]:
    import clhines

    h, _, v_init, kept = began(case)
    h.finitialize(v_init)
    for count in copies:
        begin = time.perf_counter()
        if case.network is not None:
            sim = clhines.Simulation(case.network(), dt=DT, dtype=dtype, device=device)
            sim = sim.replicate(count)
        else:
            model = clhines.from_neuron(dtype, device, copies=count)
            sim = model.simulation
        built = time.perf_counter()
        sim.run(sim.model.dt)
        stepped = time.perf_counter()
        sim.run(sim.model.dt)
        second = time.perf_counter()
        warm = []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            sim.run(WARM * sim.model.dt)
            warm.append((time.perf_counter() - begun) / WARM)
        yield {
            "copies": count, "dtype": dtype, "nodes": sim.network.forest.num_nodes,
            "engine": sim.engine, "built_s": built - begin, "first_step_s": stepped - begin,
            "second_s": second - stepped, "warm_us": 1e6 * min(warm),
        }  # fmt: skip
        del sim
    assert kept is not None


def whole_run(
    case: Case, stop: float, device: str | None
) -> tuple[dict[str, Any], tuple[np.ndarray, np.ndarray]]:
    """Time a whole model: NEURON's building and initialisation, the first run, pieces, and one run.

    It runs two steps, then `PIECES` times one step, and then until `stop`. NEURON runs as many
    single steps. Return the row, and times and gids of all spikes.
    """
    from neuron import h as neuron

    import clhines

    times = [time.perf_counter()]
    neuron(case.whole)
    h, sections, v_init, kept = began(case)
    spikes, gids = h.Vector(), h.Vector()
    h.ParallelContext().spike_record(-1, spikes, gids)
    times.append(time.perf_counter())
    h.finitialize(v_init)
    times.append(time.perf_counter())
    memory = {"neuron_mib": resident("VmHWM")}
    run = partial(clhines.neuron.run, device=device)
    neuron_steps, pieces = list[float](), list[float]()
    run(2 * h.dt)
    times.append(time.perf_counter())
    memory["peak_mib"] = resident("VmHWM")
    for spent, step in ((pieces, lambda: run(h.t + h.dt)), (neuron_steps, h.fadvance)):
        for _ in range(PIECES):
            begin = time.perf_counter()
            step()
            spent.append(time.perf_counter() - begin)
    run(h.t + 2 * h.dt)  # copies the results from NEURON's steps to the device again
    begin, from_ms = time.perf_counter(), h.t
    run(stop)
    times.append(time.perf_counter())
    assert kept is not None
    said = {
        "stop_ms": stop, "cells": len(sections), "spikes": len(spikes),
        "netcons": sum(1 for _ in h.List("NetCon")),
        "compartments": sum(s.nseg for s in h.allsec()), **memory,
        "build_s": times[1] - times[0], "init_s": times[2] - times[1],
        "first_s": times[3] - times[2],
        "piece_s": min(pieces), "neuron_step_s": min(neuron_steps),
        "run_s": times[4] - begin, "us": 1e6 * (times[4] - begin) / round((stop - from_ms) / h.dt),
        "load": os.getloadavg()[0], "cores": os.cpu_count(),
    }  # fmt: skip
    return said, (np.array(spikes), np.array(gids))


class OnRanks:
    """A whole model on the MPI ranks, one of which is this; all its spikes are recorded."""

    def __init__(self, case: Case) -> None:
        from neuron import h as neuron

        neuron.nrnmpi_init()
        self.begun = time.perf_counter()
        neuron(case.whole)
        self.h, self.sections, self.v_init, self.kept = began(case)
        self.pc, self._recorded = self.h.ParallelContext(), (self.h.Vector(), self.h.Vector())
        self.pc.spike_record(-1, *self._recorded)
        self.pc.set_maxstep(10)

    def between(self, run: Callable[[], object]) -> tuple[float, float]:
        """Run, and return the times at which all ranks begin and have ended."""
        self.pc.barrier()
        begin = time.perf_counter()
        run()
        self.pc.barrier()
        return begin, time.perf_counter()

    def spikes(self) -> tuple[np.ndarray, np.ndarray] | None:
        every = self.pc.py_gather(tuple(map(np.array, self._recorded)), 0)
        if self.pc.id():
            return None
        times, gids = (np.concatenate(x) for x in zip(*every, strict=True))
        return times, gids


def ranked(
    case: Case, stop: float, is_nudged: bool
) -> tuple[dict[str, Any], tuple[np.ndarray, np.ndarray]] | None:
    """Return how long NEURON takes on the MPI ranks, one of which is this, and all spikes.

    With `is_nudged` each root's voltage is an ulp nearer to 0 at the begin. Only rank 0 returns
    something.
    """
    model = OnRanks(case)
    model.h.finitialize(model.v_init)
    for section in model.sections if is_nudged else ():
        section(0.5).v = math.nextafter(section(0.5).v, 0.0)
    begun, ended = model.between(partial(model.pc.psolve, stop))
    spikes = model.spikes()
    if spikes is None:
        return None
    said = {
        "ranks": int(model.pc.nhost()), "cores": os.cpu_count(), "build_s": begun - model.begun,
        "run_s": ended - begun,
    }  # fmt: skip
    return said, spikes


def spread(
    case: Case, stop: float, device: str | None
) -> tuple[dict[str, Any], tuple[np.ndarray, np.ndarray]] | None:
    """Time a whole model on this process's MPI ranks, with one device per rank.

    It runs two steps, and then from the start until `stop`. Only rank 0 returns the row and all
    spikes; `exchange_s` and `message_s` are means over all ranks.
    """
    import clhines

    model, times = OnRanks(case), list[tuple[float, float]]()
    with exchanging() as spent:
        for end in (2 * model.h.dt, stop):
            model.h.finitialize(model.v_init)
            spent.update(dict.fromkeys(spent, 0.0))
            times.append(model.between(partial(clhines.neuron.run, end, device=device)))
    every = model.pc.py_gather(spent, 0)
    spikes = model.spikes()
    if spikes is None:
        return None
    (first, first_end), (begin, ended) = times
    said = {
        "stop_ms": stop, "devices": int(model.pc.nhost()), "spikes": len(spikes[0]),
        "cores": os.cpu_count(), "build_s": first - model.begun, "first_s": first_end - first,
        "run_s": ended - begin, "load": os.getloadavg()[0],
        **{name: float(np.mean([one[name] for one in every])) for name in spent},
    }  # fmt: skip
    return said, spikes


@contextmanager
def exchanging() -> Iterator[dict[str, float]]:
    """Count this rank's exchanges in the block, and time them without the wait for its device.

    `message_s` is the part that messages take, waiting for slower ranks included.
    """
    from clhines.simulator.ranks.joints import JoinedExchange
    from clhines.simulator.ranks.mpi import Ranks

    spent = dict.fromkeys(("exchanges", "exchange_s", "message_s"), 0.0)
    owns = JoinedExchange._tell, Ranks.exchange

    def tell(exchange: JoinedExchange, *given: Any) -> None:
        begin = time.perf_counter()
        owns[0](exchange, *given)
        spent["exchanges"] += 1
        spent["exchange_s"] += time.perf_counter() - begin

    def message(ranks: Ranks, *given: Any) -> list[np.ndarray]:
        begin = time.perf_counter()
        result = owns[1](ranks, *given)
        spent["message_s"] += time.perf_counter() - begin
        return result

    with ExitStack() as stack:
        names = (JoinedExchange, "_tell"), (Ranks, "exchange")
        for (of, name), original, timed in zip(names, owns, (tell, message), strict=True):
            setattr(of, name, timed)
            stack.callback(setattr, of, name, original)
        yield spent


def leave_ranks() -> NoReturn:
    """End the process by NEURON's quit: its ranks leave MPI, as some launchers require."""
    from neuron import h

    h.ParallelContext().barrier()
    sys.stdout.flush()
    h.quit()
    raise SystemExit


def by_gid(
    mine: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return two runs' spike times by gid, for each gid that either has."""
    gids = np.union1d(mine[1], other[1])

    def parted(times: np.ndarray, numbers: np.ndarray) -> list[np.ndarray]:
        order = np.lexsort((times, numbers))
        ends = np.searchsorted(numbers[order], gids, "right")[:-1]
        return np.split(times[order], ends)

    return parted(*mine), parted(*other)


def resident(what: str) -> float:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what)) / 1024


def together(found: dict[str, tuple[dict[str, Any], Taken]]) -> dict[str, Any]:
    said, truth = found["neuron"]
    row = dict(said)
    for way in [w for w in WAYS[1:] if w in found]:
        other, records = found[way]
        row["elsewhere"] = row.get("elsewhere", False) or other["cores"] != said["cores"]
        row |= {k: v for k, v in other.items() if k not in row}
        row["load"] = max(row["load"], other["load"])
        row[way] = compared(truth, records, said["dt"])
    return row


def compared(truth: Taken, other: Taken, dt: float) -> dict[str, Any]:
    pairs = [np.abs(a - b) for a, b in zip(truth[0], other[0], strict=True)]
    last = min(len(p) for p in pairs)
    until = min([last, *(int(np.argmax(p > EQUAL_V)) for p in pairs if (p > EQUAL_V).any())])
    return {
        "equal_spikes": all(map(np.array_equal, truth[1], other[1])),
        "same_step": near(truth[1], other[1], 0.5 * dt),
        "within_1_ms": near(truth[1], other[1], 1.0),
        "spikes_differ_at_ms": first_spike(truth[1], other[1], dt),
        "equal_until_ms": until * dt,
        "largest_mv": max(float(p.max()) for p in pairs),
    }


def near(truth: list[np.ndarray], other: list[np.ndarray], most: float) -> int:
    """Return how many spikes in a model, n-th by n-th from each source, differ by `most` ms."""
    pairs = zip(truth, other, strict=True)
    return sum(int((np.abs(a[: len(b)] - b[: len(a)]) <= most).sum()) for a, b in pairs)


def first_spike(truth: list[np.ndarray], other: list[np.ndarray], dt: float) -> float | None:
    """Return when the first spike occurs that is in another step or missing; None for none."""
    times = []
    for a, b in zip(truth, other, strict=True):
        both = min(len(a), len(b))
        wrong = np.flatnonzero(np.abs(a[:both] - b[:both]) > 0.5 * dt)
        times += [a[k] for k in wrong[:1]] or [*a[both : both + 1], *b[both : both + 1]]
    return min(map(float, times), default=None)


def core(case: Case, stop: float) -> dict[str, Any]:
    """Run a model by CoreNEURON, by NEURON's one step that hands it over."""
    from neuron import coreneuron

    h, sections, v_init, kept = began(case)
    pc = h.ParallelContext()
    netcons = []
    for k, section in enumerate(sections):
        netcons.append(h.NetCon(section(0.5)._ref_v, None, sec=section))
        if netcons[-1].srcgid() < 0:
            gid = 10**7 + k
            pc.set_gid2node(gid, pc.id())
            pc.cell(gid, netcons[-1])
            pc.threshold(gid, -20)
    times, numbers = h.Vector(), h.Vector()
    pc.spike_record(-1, times, numbers)
    pc.set_maxstep(10)
    pc.nthread(min(THREADS, sum(s.parentseg() is None for s in h.allsec())))
    coreneuron.enable = True
    h.finitialize(v_init)
    begin = time.perf_counter()
    pc.psolve(stop)
    assert kept is not None
    return {"stop_ms": stop, "core_s": time.perf_counter() - begin, "core_spikes": len(times)}

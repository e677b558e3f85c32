"""Figures of the 2018 report: F. Huber, Efficient tree solver for Hines matrices on the GPU.

Its cells are those of the ring network: random branches, shorter outwards. What they are made of
is in `clhines.ring`; here only the trees count, as the time of a solve does not depend on values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

import clhines
from bench import plot, systems, table
from bench.measures import peers
from bench.measures.options import judged as judged_plan
from bench.papers import cases, pictures
from bench.papers.batch import add, found
from bench.papers.cases import SEQUENTIAL_ENTRY, Entry, Run, timed
from bench.systems import Candidate, Case
from clhines.cells.shapes import random_binary_tree
from clhines.cells.synthetic import ring_cell
from clhines.device import devices
from clhines.network.ring import BRANCHING, COMPARTMENTS, LEVELS, STEMS
from clhines.plan.plan import Limits

COUNTS = (16, 64, 256, 1024, 4096, 16_384, 65_536)
SHAPES = 256
BRANCHINGS = {"high": 0.9, "medium": BRANCHING, "low": 0.2}
OLD, FINE, SPLIT = "old", "fine", "fine, split"
PACKED = ", packing counted"


def trees(run: Run, branching: float) -> list[np.ndarray]:
    """Different cells of the ring network."""
    cells = (ring_cell(LEVELS, branching, COMPARTMENTS, k, stems=STEMS) for k in range(shapes(run)))
    return [cell.parent for cell in cells]


def shapes(run: Run) -> int:
    """Return how many different cells there are."""
    return 16 if run.quick else SHAPES


def about(run: Run, **more: str) -> dict[str, Any]:
    """Return the result of a figure without rows, and what its cells are."""
    return found(
        run,
        cells=f"ring cells, {shapes(run)} different ones in turn: {LEVELS} levels of branches of "
        f"{COMPARTMENTS} compartments, {STEMS} at the soma",
        **more,
    )


def lanes(run: Run) -> int:
    """Work-items of a block of `fine`, as by default; on a CPU asked for, or it takes vectors."""
    return 16 if run.is_host else 64


def entries(run: Run) -> list[tuple[str, str, dict[str, Any], bool]]:
    """Name, method, options of each solver, and whether the report does not have it."""
    group = {"work_group": lanes(run)}
    return [
        (OLD, "flat", {}, False),
        (FINE, "fine", group, False),
        (SPLIT, "fine", {**group, "split": "mean"}, False),
        ("contraction", "contraction", {}, True),
        ("auto", "auto", {}, True),
    ]


# -- packing counted ---------------------------------------------------------------------------


def packing(case: Case, method: str, name: str, **options: Any) -> Candidate:
    """Return a method as a candidate from natural order to natural order.

    As in the report, what changes in every step is packed: `d`, `b` and back `x`; `u` is not. The
    time is that of the kernels: on a GPU the sum over them, on a CPU from the first to the end.
    Plans that read natural order need no packing.
    """
    queue = case.queue
    solver = clhines.Solver(case.forest, method, case.dtype, queue=queue, **options)
    resident = solver.engine.loaded  # pack() has no `out`, and memory is not what is timed
    natural = [[cla.to_device(queue, a) for a in arrays] for arrays in case.sets]
    edges = [solver.pack(u) for _, u, _ in natural]
    d, b, x = (cla.empty_like(edges[0]) for _ in range(3))
    out = [cla.empty_like(s[2]) for s in natural]
    direct = resident.takes_natural

    def launch(k: int) -> float | None:
        if direct:
            solver.solve(*natural[k], out=out[k], check=False)
            events = list(solver.kernel_events)
        else:
            events = _in_and_out(solver, natural[k], (d, edges[k], b, x), out[k])
        queue.finish()
        return None if systems.on_host(queue.device) else kernel_seconds(events)

    wall = systems.on_host(queue.device)
    clock = "wall" if wall else "device"
    return Candidate(name, launch, lambda k: out[k].get(), clock=clock)


def _in_and_out(solver: Any, natural: list[Any], packed: tuple[Any, ...], out: Any) -> list[Any]:
    """Pack, solve and unpack; the events of all kernels."""
    d, u, b, x = packed
    events = []
    for source, target in ((natural[0], d), (natural[2], b)):
        solver.engine.loaded.permute(source, target, True)
        events.append(target.events[-1])
    solver.enqueue(d, u, b, out=x, packed=True)
    events += solver.kernel_events
    solver.unpack(x, out=out)
    return [*events, out.events[-1]]


def kernel_seconds(events: list[cl.Event]) -> float:
    """Sum of the times of kernels [s]."""
    return sum(e.profile.end - e.profile.start for e in events) * 1e-9


# -- figure 7.1 --------------------------------------------------------------------------------


def measure_7_1(run: Run) -> dict[str, Any]:
    """Time of old, fine, and fine with splitting, packing not counted and counted."""
    result = about(run, branching=f"probability {BRANCHING}", time="of one solve, not of a run")
    asked = [SEQUENTIAL_ENTRY]
    for name, method, options, new in entries(run):
        asked.append(cases.method(name, method, new, **options))
        asked.append(packed_entry(name + PACKED, method, new, options))
    cells = trees(run, BRANCHING)
    add(run, result, cells, COUNTS, asked, "ring", "ring cells")
    return {**result, "rows": over_old(result["rows"])}


def packed_entry(name: str, method: str, new: bool, options: dict[str, Any]) -> Entry:
    """Return a method with packing and unpacking counted."""
    return Entry(name, lambda case: [packing(case, method, name, **options)], True, new)


def over_old(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add to each row the speed-up over the old solver, packed alike."""
    base = {}
    for r in rows:
        if r["name"] in (OLD, OLD + PACKED):
            base[r["panel"], r["cells"], r["name"].endswith(PACKED)] = r["seconds"]
    return [
        {**r, "over_old": base[r["panel"], r["cells"], r["name"].endswith(PACKED)] / r["seconds"]}
        for r in rows
    ]


def draw_7_1(figure: Any, result: dict[str, Any]) -> None:
    """Time and speed-up over the old solver; packing counted above, not counted below."""
    axes = pictures.panels(figure, 2, 2)
    everything = result["rows"]
    shared = [r for r in everything if r["name"] in ("memory floor", cases.SEQUENTIAL)]
    counted = [r for r in everything if r["name"].endswith(PACKED)]
    counted = [{**r, "name": r["name"].removesuffix(PACKED)} for r in counted]
    plain = [r for r in everything if not r["name"].endswith(PACKED) and r not in shared]
    halves = ((counted, "packing counted"), (plain, "packing not counted"))
    for (rows, title), (left, right) in zip(halves, (axes[:2], axes[2:])):
        pictures.lines(left, [*shared, *rows], "seconds", "time in kernels of a solve")
        left.set_title(f"time, {title}")
        faster = [r for r in rows if r["name"] != OLD]
        pictures.lines(right, faster, "over_old", "speed-up over old", linear=True)
        right.axhline(1, color=pictures.look(OLD)["color"], lw=1)
        right.set_title(f"speed-up, {title}")
    pictures.legend(figure, axes)


# -- figure 7.2 --------------------------------------------------------------------------------

FEWER = (64, 512, 4096, 32_768)


def measure_7_2(run: Run) -> dict[str, Any]:
    """Speed-up of fine with splitting over old, for high, medium and low branching."""
    said = ", ".join(f"{name} {p}" for name, p in BRANCHINGS.items())
    result = about(run, branching=f"probabilities {said}", time="packing not counted")
    asked = [cases.method(n, m, new, **options) for n, m, options, new in entries(run)]
    for name, probability in BRANCHINGS.items():
        panel = f"{name} branching"
        add(run, result, trees(run, probability), FEWER, [SEQUENTIAL_ENTRY, *asked], panel)
    return {**result, "rows": over_old(result["rows"])}


def draw_7_2(figure: Any, result: dict[str, Any]) -> None:
    """Speed-ups over old on the left, times of low branching in the middle, and what is new."""
    axes = pictures.panels(figure, 1, 3)
    rows = result["rows"]

    def of(name: str) -> list[dict[str, Any]]:
        return [{**r, "name": r["panel"]} for r in rows if r["name"] == name]

    pictures.lines(axes[0], of(SPLIT), "over_old", "speed-up over old", linear=True)
    axes[0].set_title("fine, split")
    low = [r for r in rows if r["panel"] == "low branching"]
    pictures.lines(axes[1], low, "seconds", "time of a solve")
    axes[1].set_title("low branching")
    pictures.lines(axes[2], of("auto"), "over_old", "speed-up over old", linear=True)
    axes[2].set_title("and what is new: auto")
    pictures.legend(figure, axes)


# -- figure 4.1 --------------------------------------------------------------------------------

WARPS = (4, 8, 16, 32, 64)
BLOCK = 128  # work-items
SHOWN = 4, 4  # warps and lanes of the block that is drawn, as in the report


def measure_4_1(run: Run) -> dict[str, Any]:
    """Idle lanes with the branches of a level sorted by length and in the order of the cells.

    Counted in the tables of a plan of `fine`, the same for every device: a lane is idle in every
    step that another lane of its warp still takes.
    """
    count = 64 if run.quick else 1024
    result = about(run, lanes=f"{BLOCK} a block, blocks filled in turn", count=f"{count:,} cells")
    for name, probability in BRANCHINGS.items():
        forest = clhines.Forest.repeated(trees(run, probability), count)
        options = {"work_group": BLOCK, "max_cells": count}
        plan = clhines.make_plan(forest, "fine", np.float64, Limits(), **options)
        levels = both_orders(plan)
        for warp in WARPS:
            row = {"panel": f"{name} branching", "cells": count, "warp": warp}
            row |= {f"idle_{how}": idle(levels[how], warp) for how in ("sorted", "unsorted")}
            result["rows"].append(row)
    return {**result, "shown": shown(levels)}


def both_orders(plan: clhines.Plan) -> dict[str, list[list[int]]]:
    """Return the branch lengths of all levels of all blocks, sorted and in the order of cells."""
    tables = plan.parts[0].tables
    start, length = tables["level_branches"], tables["branch_length"]
    order = np.lexsort((tables["branch_rank"], tables["branch_slot"]))  # within a cell its own
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    sorted_, unsorted = [], []
    repeats = np.bincount(tables["block_template"])
    template = np.repeat(np.arange(len(repeats)), np.diff(tables["template_levels"]))
    for level, times in enumerate(repeats[template].tolist()):
        here = slice(start[level], start[level + 1])
        sorted_ += [length[here].tolist()] * times
        unsorted += [length[here][np.argsort(place[here])].tolist()] * times
    return {"sorted": sorted_, "unsorted": unsorted}


def idle(levels: list[list[int]], warp: int) -> float:
    """Share of the steps of all lanes of started warps in which a lane has nothing to do."""
    busy = steps = 0
    for lengths in levels:
        for k in range(0, len(lengths), warp):
            some = lengths[k : k + warp]
            busy += sum(some)
            steps += max(some) * warp
    return 1 - busy / steps


def shown(levels: dict[str, list[list[int]]]) -> dict[str, list[int]]:
    """Return the lengths of 16 branches of one level, that with the most different ones."""
    number = SHOWN[0] * SHOWN[1]
    some = [lengths[:number] for lengths in levels["unsorted"] if len(lengths) >= number]
    mixed = max(some or levels["unsorted"], key=lambda lengths: (len(set(lengths)), lengths))
    return {"unsorted": list(mixed), "sorted": sorted(mixed, reverse=True)}


def draw_4_1(figure: Any, result: dict[str, Any]) -> None:
    """Sixteen branches in four warps, unsorted and sorted, and the idle share of whole batches."""
    axes = pictures.panels(figure, 1, 3)
    for each, how in zip(axes, ("unsorted", "sorted")):
        draw_warps(each, result["shown"][how])
        each.set_title(f"{SHOWN[0] * SHOWN[1]} branches of one level, {how}")
    for name, r in {r["panel"]: r for r in result["rows"]}.items():
        some = [r for r in result["rows"] if r["panel"] == name]
        style = pictures.look(name)
        for how, ls in (("unsorted", ":"), ("sorted", "-")):
            x, y = [r["warp"] for r in some], [100 * r[f"idle_{how}"] for r in some]
            axes[2].plot(x, y, **{**style, "ls": ls}, label=f"{name}, {how}")
    axes[2].set_xscale("log", base=2)
    axes[2].set_xticks(WARPS, [str(w) for w in WARPS])
    axes[2].set(ylim=(0, 100), xlabel="lanes of a warp", ylabel="idle lanes [%]")
    axes[2].set_title("all levels of all blocks")
    axes[2].grid(True, **plot.GRID)
    axes[2].legend(fontsize=7, frameon=False)


def draw_warps(axes: Any, lengths: list[int]) -> None:
    """One column a lane: busy steps in the colour of its warp, idle ones grey."""
    colors = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
    for k, length in enumerate(lengths):
        warp = k // SHOWN[1]
        longest = max(lengths[warp * SHOWN[1] : (warp + 1) * SHOWN[1]])
        axes.bar(k, length, 0.9, color=colors[warp % 4], ec="black", lw=0.4)
        axes.bar(k, longest - length, 0.9, bottom=length, color="0.85", ec="0.6", lw=0.4)
    axes.set_xticks(
        np.arange(SHOWN[1] / 2 - 0.5, len(lengths), SHOWN[1]),
        [f"warp {w}" for w in range(-(-len(lengths) // SHOWN[1]))],
    )
    axes.set_ylabel("elimination steps (grey: idle)")


def table_4_1(result: dict[str, Any]) -> str:
    """Return the idle shares as text."""
    head = f"{'cells':<20} {'lanes of a warp':>16} {'idle unsorted %':>16} {'idle sorted %':>16}"
    lines = [
        f"{r['panel']:<20} {r['warp']:>16} {100 * r['idle_unsorted']:>16.1f} "
        f"{100 * r['idle_sorted']:>16.1f}"
        for r in result["rows"]
    ]
    return table.ruled(head, lines)


# -- what each step of the work distribution buys ----------------------------------------------

OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "balanced": {"reroot": True},
    "split, mean": {"split": "mean"},
    "split, block": {"split": "block"},
    "packed, sorted": {"packing": "sorted"},
    "packed, best fit": {"packing": "best_fit"},
    "levels shifted": {"level_shift": True},
    "all": {"reroot": True, "split": "block", "packing": "sorted", "level_shift": True},
}


def measure_options(run: Run) -> dict[str, Any]:
    """Plans and times of fine with each option of sections 4, 6 and 8."""
    result = about(run, lanes=f"{lanes(run)} a block", gain="time without options over time with")
    result["setup"]["all"] = "balanced, split by blocks, sorted packing, levels shifted"
    names = ["none", "split, mean", "all"] if run.quick else list(OPTIONS)
    asked = [cases.method(n, "fine", work_group=lanes(run), **OPTIONS[n]) for n in names]
    kinds = {f"{name} branching": trees(run, p) for name, p in BRANCHINGS.items()}
    kinds["random trees"] = [random_binary_tree(512, 50, k) for k in range(shapes(run))]
    result["setup"]["random trees"] = "512 nodes, 50 branches, not balanced as ring cells are"
    count = 16_384 if not run.is_host else 8192
    for panel, cells in kinds.items():
        nodes = float(np.mean([len(t) for t in cells]))
        (number,) = run.counts((count,), nodes, result["scaled"])
        cases.say(f"  {panel}: {number:,} cells")
        case = cases.batch(run, cells, number, panel)
        rows = timed(run, case, asked, result["missing"], panel=panel)
        none = next(r["seconds"] for r in rows if r["name"] == "none")
        for r in rows:
            if r["name"] != peers.FLOOR:
                r |= judged(run, case, r["name"]) | {"gain": none / r["seconds"]}
                result["rows"].append(r)
    return result


def judged(run: Run, case: Case, name: str) -> dict[str, Any]:
    """Return levels, idle lanes, padding and barriers of a plan."""
    limits = devices.limits(run.queue.device)
    forest, options, _ = systems.rooted(case.forest, OPTIONS[name])
    group = lanes(run)
    plan = clhines.make_plan(forest, "fine", np.float64, limits, work_group=group, **options)
    return judged_plan(plan)


def draw_options(figure: Any, result: dict[str, Any]) -> None:
    """Gain in time above, idle lanes below, a group of bars for each kind of cells."""
    axes = pictures.panels(figure, 2, 1)
    figure.set_size_inches(10.5, 7)
    names = pictures.names_of(result["rows"])
    rows = [{**r, "idle": 100 * r["idle_lanes"]} for r in result["rows"]]
    pictures.bars(axes[0], rows, "gain", "speed-up over fine without options", "panel", names)
    axes[0].axhline(1, color="black", lw=0.8)
    pictures.bars(axes[1], rows, "idle", "idle lanes of blocks [%]", "panel", names)
    pictures.legend(figure, axes[:1])


def table_options(result: dict[str, Any]) -> str:
    """Return the options as text."""
    head = (
        f"{'cells':<17} {'options':<17} {'levels':>6} {'steps':>6} {'idle %':>6} {'padding %':>9} "
        f"{'barriers':>8} {'us':>9} {'gain':>5}"
    )
    lines = [
        f"{r['panel']:<17} {r['name']:<17} {r['levels']:>6} {r['steps']:>6} "
        f"{100 * r['idle_lanes']:>6.1f} {100 * r['padding']:>9.1f} {r['barriers']:>8} "
        f"{table.narrow(r['seconds'] * 1e6, 9, 1)} {r['gain']:>5.2f}"
        for r in result["rows"]
    ]
    return table.ruled(head, lines)

"""Figures of the 2018 report: F. Huber, Efficient tree solver for Hines matrices on the GPU.

Its cells are the cells of the ring network, with random branches that get shorter outwards.
`bench.ring` describes their contents; here only the trees count, as the time of a solve does not
depend on values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

import clhines
from bench import plot, systems, table
from bench.cells import grow
from bench.made import number_nodes, random_binary_tree
from bench.measures import peers
from bench.papers import cases, pictures
from bench.papers.batch import add, found
from bench.papers.cases import Entry, Run, timed
from bench.peers import old
from bench.ring import BRANCHING, COMPARTMENTS, LEVELS, STEMS
from bench.systems import Candidate, Case
from clhines.core.arrays import ranges, starts

COUNTS = (16, 64, 256, 1024, 4096, 16_384, 100_000)
FEWER = (64, 4096, 100_000)
SHAPES = 2048
BRANCHINGS = {"high": 0.9, "medium": BRANCHING, "low": 0.2}
SETTINGS = {
    "11 a branch": (COMPARTMENTS, COMPARTMENTS),
    "5 a branch": (5, 5),
    "20 to 2 a branch": (20, 2),
    "40 to 4 a branch": (40, 4),
}  # compartments in branches on the first and the last level
USUAL, FALLING = "11 a branch", "20 to 2 a branch"
OLD, FINE, SPLIT = "old", "fine", "fine, split"
PACKED = ", packing counted"


def judged_plan(plan: clhines.Plan) -> dict[str, Any]:
    statistics = [part.statistics for part in plan.parts]
    levels = [s.get("levels", s.get("steps")) for s in statistics]
    counts = [n for n in levels if n is not None]
    row = {
        "levels": max(counts) if counts else None,
        "steps": sum(s.get("dependent_steps", 0) for s in statistics),
        "barriers": sum(s.get("barriers", 0) for s in statistics),
        "padding": plan.packed_size / plan.forest.num_nodes - 1,
        "cells_per_block": plan.forest.num_cells / sum(part.num_groups for part in plan.parts),
    }
    lane_steps = 0.0
    for s, part in zip(statistics, plan.parts):
        number = part.tables["cell_number"]
        nodes = plan.forest.sizes[number[number >= 0]].sum()
        lane_steps += nodes / (1 - s["idle_lanes"])
    return {**row, "idle_lanes": 1 - plan.forest.num_nodes / lane_steps}


def trees(run: Run, branching: float, setting: str = USUAL, ends: bool = False) -> list[np.ndarray]:
    """Return different cells in the ring network, as in `ring_cell` or, with `ends`, in Arbor."""
    first, last = SETTINGS[setting]
    long = np.floor(np.linspace(first, last, LEVELS) + 0.5).astype(np.int64)
    cells = []
    for k in range(shapes(run)):
        rng = np.random.default_rng(k)
        parent, level = (
            grow_with_ends(rng, branching) if ends else grow(rng, LEVELS, branching, STEMS)
        )
        cells.append(number_nodes(parent, long[level] + (parent < 0), soma_nodes=1))
    return cells


def grow_with_ends(rng: np.random.Generator, branching: float) -> tuple[np.ndarray, np.ndarray]:
    """Grow branches as `grow` does, but draw each of two children separately, with one probability.

    So a branch ends with ``(1 - branching) ** 2``, as in Arbor's example of the ring network.
    """
    parents, total = [np.full(STEMS, -1, np.int64)], 0
    for _ in range(LEVELS - 1):
        here = parents[-1].size
        children = rng.binomial(2, branching, here)
        parents.append(np.repeat(np.arange(total, total + here), children))
        total += here
    sizes = [each.size for each in parents]
    return np.concatenate(parents), np.repeat(np.arange(len(sizes)), sizes)


def shapes(run: Run) -> int:
    if run.quick:
        return 16
    return 256 if run.is_host else SHAPES


def about(run: Run, compartments: str = USUAL, **more: str) -> dict[str, Any]:
    return found(
        run,
        cells=f"ring cells, {shapes(run)} drawn, in turn: {LEVELS} levels of branches of "
        f"compartments: {compartments}; {STEMS} at the soma",
        **more,
    )


def lanes(run: Run) -> int:
    """Work-items per block in `fine`: Arbor's; on a CPU asked for, or it takes vectors."""
    return 16 if run.is_host else BLOCK


def entries(run: Run) -> list[tuple[str, str, dict[str, Any], bool]]:
    """Name, method, options for each solver of ours, and whether the report does not have it."""
    group = {"work_group": lanes(run)}
    return [
        (FINE, "fine", group, False),
        (SPLIT, "fine", {**group, "split": "mean"}, False),
        ("auto", "auto", {}, True),
    ]


# -- solvers, packing counted or not -----------------------------------------------------------


def entry(
    name: str,
    method: str,
    options: dict[str, Any],
    new: bool = False,
    packed: bool = False,
    plans: dict[str, clhines.Plan] | None = None,
) -> Entry:
    """Return a method as a line in a figure; `plans` takes its plan."""
    plain = cases.method(name, method, new, **options)

    def make(case: Case) -> Iterator[Candidate]:
        if packed:
            yield packing(case, method, name, **options)
            return
        for candidate in plain.make(case):
            if plans is not None and candidate.solver is not None:
                plans[name] = candidate.solver.plan
            yield candidate

    return Entry(name, make, True, new)


def old_entry(packed: bool = False) -> Entry:
    name = OLD + PACKED * packed
    return Entry(name, lambda case: [old.solver(case, name, packed)], True)


def packing(case: Case, method: str, name: str, **options: Any) -> Candidate:
    """Return a method as a candidate from natural order to natural order.

    As in the report, only the arrays that change in every step are packed: `d`, `b` and back `x`;
    `u` is not. The time is for the kernels: on a GPU their sum, on a CPU from the first to the end.
    Plans that read natural order need no packing.
    """
    queue = case.queue
    solver = clhines.Solver(case.forest, method, case.dtype, queue=queue, **options)
    resident = solver.engine.loaded  # pack() has no `out`, and memory is not timed
    natural = list(case.on_device())
    edges = [solver.to_device_order(u) for _, u, _ in natural]
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
    return Candidate(name, launch, lambda k: case.solution(out[k]), clock=clock)


def _in_and_out(solver: Any, natural: list[Any], packed: tuple[Any, ...], out: Any) -> list[Any]:
    d, u, b, x = packed
    events = []
    for source, target in ((natural[0], d), (natural[2], b)):
        solver.engine.loaded.permute(source, target, True)
        events.append(target.events[-1])
    solver.enqueue(d, u, b, out=x, packed=True)
    events += solver.kernel_events
    solver.from_device_order(x, out=out)
    return [*events, out.events[-1]]


def kernel_seconds(events: list[cl.Event]) -> float:
    return sum(e.profile.end - e.profile.start for e in events) * 1e-9


# -- figure 7.1 --------------------------------------------------------------------------------


def measure_7_1(run: Run) -> dict[str, Any]:
    said = ", ".join(SETTINGS)
    result = about(
        run, said, branching=f"probability {BRANCHING}", time="of one solve, not of a run", old=SAID
    )
    plain, entries_used = [old_entry()], [old_entry(), old_entry(packed=True)]
    for name, method, options, new in entries(run):
        plain.append(entry(name, method, options, new))
        entries_used += [plain[-1], entry(name + PACKED, method, options, new, packed=True)]
    for setting in run.some(list(SETTINGS)):
        usual = setting == USUAL
        cells, counts = trees(run, BRANCHING, setting), COUNTS if usual else FEWER
        add(run, result, cells, counts, entries_used if usual else plain, setting, "ring cells")
    return {**result, "rows": over_old(result["rows"])}


SAID = "Arbor's of 2018, bench/peers/old.py: a work-item a cell, interleaved in blocks of 32"


def over_old(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    base = {}
    for r in rows:
        if r["name"] in (OLD, OLD + PACKED):
            base[r["panel"], r["cells"], r["name"].endswith(PACKED)] = r["seconds"]
    return [
        {**r, "over_old": base[r["panel"], r["cells"], r["name"].endswith(PACKED)] / r["seconds"]}
        for r in rows
    ]


def draw_7_1(figure: Any, result: dict[str, Any]) -> None:
    axes = pictures.panels(figure, 2, 3)
    everything = result["rows"]
    usual = [r for r in everything if r["panel"] == USUAL]
    floors = [r for r in usual if r["name"] == "memory floor"]
    counted = [r for r in usual if r["name"].endswith(PACKED)]
    counted = [{**r, "name": r["name"].removesuffix(PACKED)} for r in counted]
    plain = [r for r in usual if not r["name"].endswith(PACKED) and r not in floors]
    halves = ((counted, "packing counted"), (plain, "packing not counted"))
    for (rows, title), (left, right) in zip(halves, (axes[:2], axes[3:5])):
        pictures.lines(left, [*floors, *rows], "seconds", "time in kernels of a solve")
        left.set_title(f"time, {title}")
        faster = [r for r in rows if r["name"] != OLD]
        pictures.lines(right, faster, "over_old", "speed-up over old", linear=True)
        right.axhline(1, color=pictures.look(OLD)["color"], lw=1)
        right.set_title(f"speed-up, {title}")
    for each, name in ((axes[2], SPLIT), (axes[5], "auto")):
        some = [{**r, "name": r["panel"]} for r in everything if r["name"] == name]
        pictures.lines(each, some, "over_old", "speed-up over old", linear=True)
        each.set_title(f"{name}, by compartments")
    pictures.legend(figure, axes)


def table_times(result: dict[str, Any]) -> str:
    head = f"{'panel':<34} {'cells':>7} {'solver':<30} {'us':>9} {'over old':>8} {'x floor':>7}"
    lines = [
        f"{r['panel']:<34} {r['cells']:>7} {r['name']:<30} "
        f"{table.narrow(r['seconds'] * 1e6, 9, 1)} {table.narrow(r['over_old'], 8, 2)} "
        f"{table.narrow(r['x_floor'], 7, 2)}"
        for r in result["rows"]
    ]
    text = table.ruled(head, lines, [(r["panel"], r["cells"]) for r in result["rows"]])
    if "reasons" not in result:
        return text
    head = (
        f"{'panel':<34} {'nodes':>7} {'steps old':>9} {'steps fine':>10} {'ratio':>6} "
        f"{'idle old %':>10} {'idle fine %':>11}"
    )
    lines = [
        f"{r['panel']:<34} {r['nodes']:>7.1f} {r['steps_old']:>9} {r['steps_fine']:>10} "
        f"{r['steps_old'] / r['steps_fine']:>6.2f} {100 * r['idle_old']:>10.1f} "
        f"{100 * r['idle_fine']:>11.1f}"
        for r in result["reasons"]
    ]
    return f"{text}\n\n{table.ruled(head, lines)}"


# -- figure 7.2 --------------------------------------------------------------------------------


def measure_7_2(run: Run) -> dict[str, Any]:
    return _branchings(run, (USUAL, FALLING))


def measure_ends(run: Run) -> dict[str, Any]:
    return _branchings(run, (USUAL,), ends=True)


def _branchings(run: Run, settings: Sequence[str], ends: bool = False) -> dict[str, Any]:
    said = ", ".join(f"{name} {p}" for name, p in BRANCHINGS.items())
    if ends:
        said += ", for each of two children of a branch"
    result = about(
        run,
        ", ".join(settings),
        branching=f"probabilities {said}",
        time="packing not counted",
        old=SAID,
        **({} if ends else {"flat, block-interleaved": "ours, with a work-item a cell, too"}),
        steps="in sequence, of the largest cell (old) and the longest block (fine, split)",
        idle="share of the steps of all lanes, of the largest batch",
    )
    plans: dict[str, clhines.Plan] = {}
    candidates = [old_entry()]
    candidates += [entry(n, m, o, new, plans=plans) for n, m, o, new in entries(run)]
    ours = [entry(n, m, o, new) for n, m, o, new in OURS]
    reasons = []
    for setting in settings:
        for name, probability in BRANCHINGS.items():
            panel = f"{name} branching, {setting}"
            cells = trees(run, probability, setting, ends)
            here = [*candidates, *ours] if setting == USUAL and not ends else candidates
            add(run, result, cells, FEWER, here, panel)
            forest, fine = plans[SPLIT].forest, judged_plan(plans[SPLIT])
            reasons.append(
                {
                    "panel": panel,
                    "nodes": forest.num_nodes / forest.num_cells,
                    "steps_old": 2 * int(forest.sizes.max()) - 1,
                    "steps_fine": fine["steps"],
                    "idle_old": old.idle(forest),
                    "idle_fine": fine["idle_lanes"],
                }
            )
    return {**result, "rows": over_old(result["rows"]), "reasons": reasons}


OURS: list[tuple[str, str, dict[str, Any], bool]] = [
    ("flat", "flat", {}, True),
    ("block-interleaved", "block_interleaved", {"block_size": 32, "vector_width": 1}, True),
]


def draw_7_2(figure: Any, result: dict[str, Any]) -> None:
    rows = result["rows"]
    settings = [s for s in (USUAL, FALLING) if any(r["panel"].endswith(s) for r in rows)]
    axes = pictures.panels(figure, len(settings), 3)
    for k, setting in enumerate(settings):
        three = axes[3 * k : 3 * k + 3]
        some = [r for r in rows if r["panel"].endswith(setting)]
        for each, name in ((three[0], SPLIT), (three[2], "auto")):
            of = [{**r, "name": r["panel"].split(",")[0]} for r in some if r["name"] == name]
            pictures.lines(each, of, "over_old", "speed-up over old", linear=True)
            each.set_title(f"{name}, {setting}")
        low = [r for r in some if r["panel"].startswith("low")]
        pictures.lines(three[1], low, "seconds", "time of a solve")
        three[1].set_title(f"low branching, {setting}")
    pictures.legend(figure, axes)


# -- figure 4.1 --------------------------------------------------------------------------------

WARPS = (4, 8, 16, 32, 64)
BLOCK = 128  # work-items
SHOWN = 4, 4  # the drawn block's warps and lanes, as in the report


def measure_4_1(run: Run) -> dict[str, Any]:
    """Idle lanes with the branches of a level sorted by length and in the order of the cells.

    A count that is the same for every device: a lane is idle in every step that another lane of its
    warp still needs. Blocks are filled as in the report, cell after cell.
    """
    count = 64 if run.quick else 100_000
    result = about(run, lanes=f"{BLOCK} a block, blocks filled in turn", count=f"{count:,} cells")
    for name, probability in BRANCHINGS.items():
        forest = clhines.Forest.repeat(trees(run, probability), count)
        unsorted, sorted_, start = both_orders(forest)
        for warp in WARPS:
            row = {"panel": f"{name} branching", "cells": count, "warp": warp}
            row |= {"idle_sorted": idle(sorted_, start, warp)}
            result["rows"].append(row | {"idle_unsorted": idle(unsorted, start, warp)})
    return {**result, "shown": shown(unsorted, start)}


def both_orders(forest: clhines.Forest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return branch lengths on all levels in all blocks, as the cells come and sorted."""
    trees = forest.trees
    tree, level = trees.branch_tree, trees.branch_level
    widths = np.zeros((trees.num_trees, int(level.max()) + 1), np.int64)
    np.add.at(widths, (tree, level), 1)
    block = blocks_in_turn(widths[forest.shape_of_cell].tolist())
    of_tree, counts = np.argsort(tree, kind="stable"), widths.sum(1)
    shape = forest.shape_of_cell
    branch = of_tree[ranges(starts(counts)[shape], counts[shape])]
    key = np.repeat(block, counts[shape]) * widths.shape[1] + level[branch]
    length = trees.branch_length[branch].astype(np.int64)
    unsorted = length[np.argsort(key, kind="stable")]
    sorted_ = length[np.lexsort((-length, key))]
    return unsorted, sorted_, starts(np.unique(key, return_counts=True)[1])


def blocks_in_turn(widths: list[list[int]]) -> np.ndarray:
    """Return the block of each cell, (num_cells,) int64; a cell that does not fit begins a block.

    Parameters
    ----------
    widths : list of lists
        Branches that each cell has on each level.
    """
    held, number, blocks = [0] * len(widths[0]), 0, []
    for width in widths:
        held = [h + w for h, w in zip(held, width)]
        if max(held) > BLOCK:
            held, number = width, number + 1
        blocks.append(number)
    return np.array(blocks)


def idle(lengths: np.ndarray, start: np.ndarray, warp: int) -> float:
    """Return the share of idle steps among all lanes of started warps.

    Parameters
    ----------
    lengths : (num_branches,) integer
        Lengths of the branches, level by level.
    start : (num_levels,) integer
        First branch of each level.
    """
    counts = np.diff(start, append=len(lengths))
    rank = np.arange(len(lengths)) - np.repeat(start, counts)
    longest = np.maximum.reduceat(lengths, np.flatnonzero(rank % warp == 0))
    return 1 - float(lengths.sum() / (longest.sum() * warp))


def shown(lengths: np.ndarray, start: np.ndarray) -> dict[str, list[int]]:
    """Return 16 branch lengths on one level, the one with the most different lengths."""
    number = SHOWN[0] * SHOWN[1]
    some = [each[:number].tolist() for each in np.split(lengths, start[1:LOOKED_AT])]
    most = max(map(len, some))
    mixed = max((e for e in some if len(e) == most), key=lambda each: (len(set(each)), each))
    return {"unsorted": mixed, "sorted": sorted(mixed, reverse=True)}


LOOKED_AT = 10_000  # levels


def draw_4_1(figure: Any, result: dict[str, Any]) -> None:
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
    head = f"{'cells':<20} {'lanes of a warp':>16} {'idle unsorted %':>16} {'idle sorted %':>16}"
    lines = [
        f"{r['panel']:<20} {r['warp']:>16} {100 * r['idle_unsorted']:>16.1f} "
        f"{100 * r['idle_sorted']:>16.1f}"
        for r in result["rows"]
    ]
    return table.ruled(head, lines)


# -- what each step in the work distribution gains -----------------------------------------------

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
    result = about(run, lanes=f"{lanes(run)} a block", gain="time without options over time with")
    result["setup"]["all"] = "balanced, split by blocks, sorted packing, levels shifted"
    names = ["none", "split, mean", "all"] if run.quick else list(OPTIONS)
    plans: dict[str, clhines.Plan] = {}
    group = {"work_group": lanes(run)}
    entries_used = [entry(n, "fine", {**group, **OPTIONS[n]}, plans=plans) for n in names]
    kinds = {f"{name} branching": trees(run, p) for name, p in BRANCHINGS.items()}
    kinds["random trees"] = [random_binary_tree(512, 50, k) for k in range(min(shapes(run), 256))]
    result["setup"]["random trees"] = "512 nodes, 50 branches, not balanced as ring cells are; 256"
    count = 8192 if run.is_host else 100_000
    for panel, cells in kinds.items():
        nodes = float(np.mean([len(t) for t in cells]))
        (number,) = run.counts((count,), nodes, result["scaled"])
        cases.say(f"  {panel}: {number:,} cells")
        case = cases.batch(run, cells, number, panel)
        rows = timed(run, case, entries_used, result["missing"], panel=panel)
        none = next(r["seconds"] for r in rows if r["name"] == "none")
        for r in rows:
            if r["name"] != peers.FLOOR:
                r |= judged_plan(plans[r["name"]]) | {"gain": none / r["seconds"]}
                result["rows"].append(r)
    return result


def draw_options(figure: Any, result: dict[str, Any]) -> None:
    axes = pictures.panels(figure, 2, 1)
    figure.set_size_inches(10.5, 7)
    names = pictures.names_of(result["rows"])
    rows = [{**r, "idle": 100 * r["idle_lanes"]} for r in result["rows"]]
    pictures.bars(axes[0], rows, "gain", "speed-up over fine without options", "panel", names)
    axes[0].axhline(1, color="black", lw=0.8)
    pictures.bars(axes[1], rows, "idle", "idle lanes of blocks [%]", "panel", names)
    pictures.legend(figure, axes[:1])


def table_options(result: dict[str, Any]) -> str:
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

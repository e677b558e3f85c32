"""Figures of the cuHinesBatch paper: Valero-Lara et al., Oil & Gas Science and Technology 2018."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import clhines
from bench import MissingError, plot, record, systems, table
from bench.made import chain, random_binary_tree
from bench.papers import accuracy, cases, pictures
from bench.papers.cases import MULTICORE, NEW, PEERS, SEQUENTIAL_ENTRY, Entry, Run, method, timed
from bench.systems import Candidate, Case
from clhines.solver.device import devices, timing

COUNTS = (256, 2560, 25_600, 256_000)
LARGE_COUNTS = (20, 200, 2000, 20_000)  # chain counts with at least 1,024 nodes
SMALL_CHAINS, LARGE_CHAINS = (64, 128, 256, 512), (1024, 2048, 4096, 8192)
CELLS = {
    "small-low": (76, 7, "299-DG-IN-Neuron2"),
    "small-high": (76, 29, "202-2-19nj"),
    "medium-low": (305, 30, "59D-40X"),
    "medium-high": (319, 157, "Culture-9-5"),
    "big-low": (695, 66, "28-2-2"),
    "big-high": (691, 341, "HSE-fluoro02"),
}  # Table 1: nodes, branches, and the name at NeuroMorpho.Org, whose files are NAME.CNG.swc
MEDIUM = "medium-high"  # as in figures 3 and 4
MULTI = 512  # nodes in the cells in figures 6 and 14
FLAT = method("flat", "flat")
FULL = "full-interleaved"
INTERLEAVED = method(FULL, "interleaved")
THOMAS = method("Thomas, interleaved", "interleaved")  # cuThomasBatch
CR_PCR = method("CR-PCR", "cr_pcr")
SPEEDUP = "speed-up over sequential execution"
CHAIN_CELLS = "random chains, diagonally dominant"


def cell(name: str, folder: Path | None = None) -> np.ndarray:
    """Return one of the six cells: a reconstruction from a folder, or a random tree with its size.

    A reconstruction has a node for each point in its file.
    """
    nodes, branches, _ = CELLS[name]
    file = swc_file(name, folder)
    if file is not None:
        return np.asarray(clhines.read_swc(file).parent, np.int32)
    return random_binary_tree(nodes, branches, record.SEED)


def swc_file(name: str, folder: Path | None) -> Path | None:
    paths = [folder / f"{CELLS[name][2]}{end}" for end in (".CNG.swc", ".swc")] if folder else []
    return next((path for path in paths if path.is_file()), None)


def origin(run: Run) -> str:
    files = [file.name for name in CELLS if (file := swc_file(name, run.cells))]
    made = "random binary trees of the nodes and branches of Table 1, seeded"
    if not files:
        return f"{made}, not its reconstructions"
    return f"{', '.join(files)}, a node for each point; the others {made}"


def found(run: Run, dtype: str = "float64", **setup: Any) -> dict[str, Any]:
    setup = {"nodes of a batch at most": f"{run.most_nodes:,}", **setup}
    return {"dtype": dtype, "setup": setup, "scaled": [], "missing": [], "rows": []}


def add(
    run: Run,
    result: dict[str, Any],
    trees: Sequence[np.ndarray],
    counts: Sequence[int],
    entries: Sequence[Entry],
    panel: str,
    kind: str = "1 shape",
) -> None:
    nodes = float(np.mean([len(t) for t in trees]))
    for cells in run.counts(counts, nodes, result["scaled"]):
        cases.say(f"  {panel}: {cells:,} cells")
        case = cases.batch(run, trees, cells, kind, result["dtype"])
        result["rows"] += timed(run, case, entries, result["missing"], panel=panel)


def six(name: str, folder: Path | None = None) -> str:
    tree = clhines.Forest.from_parents([cell(name, folder)])
    return f"{name} ({tree.num_nodes}, {tree.num_branches})"


# -- figures 3, 4 and 5: one shape -------------------------------------------------------------


def measure_3(run: Run) -> dict[str, Any]:
    """Multicore, flat and full-interleaved over the number of medium-high cells.

    Here the paper's host solvers get whole batches, too, and the methods that divide the cells
    among devices of one kind are timed.
    """
    panel = six(MEDIUM, run.cells)
    result = found(run, cell=f"{panel}: nodes, branches", table=origin(run))
    shared = {"flat": "flat", FULL: "interleaved", "auto": "auto"}
    several = [
        on_devices(f"{name}, {count} {pictures.DEVICES}", row, count)
        for count in (1, 2, 4, 8)
        if 1 < len(devices.alike(run.queue.device, np.float64)) >= count
        for name, row in shared.items()
    ]
    if not several:
        result["missing"].append({"name": "2 devices", "reason": "there is one device"})
    whole = [replace(entry, on_host=False) for entry in (SEQUENTIAL_ENTRY, MULTICORE)]
    entries = [*whole, FLAT, INTERLEAVED, *NEW, *several]
    entries += PEERS[3:4] if run.quick else PEERS
    add(run, result, [cell(MEDIUM, run.cells)], COUNTS, entries, panel)
    return result


def peers_for(run: Run) -> list[Entry]:
    """Return the peers to draw: beside a GPU those that run on it; with ``--quick`` one."""
    return PEERS[3:4] if run.quick else [p for p in PEERS if run.is_host or not p.on_host]


def on_devices(name: str, row: str, count: int) -> Entry:
    """Return a method that shares out the cells to so many devices, by the wall clock."""

    def make(case: Case) -> Iterator[Candidate]:
        some = devices.alike(case.queue.device, case.dtype)[:count]
        queues = [devices.make_queue(d) for d in some]
        yield on_queues(name, row, case, queues)

    return Entry(name, make, True)


def on_queues(name: str, row: str, case: Case, queues: list[Any]) -> Candidate:
    """Return a method on a case's cells, in device order, shared out to some queues."""
    runs, forest = [], case.forest
    for queue, cells in zip(queues, np.array_split(np.arange(forest.num_cells), len(queues))):
        part = forest.subset(cells)
        solver = clhines.Solver(part, row, case.dtype, queue=queue)
        start = int(forest.cell_offsets[cells[0]])
        sets = (
            [timing.repeated(queue, np.roll(a, -start), part.num_nodes) for a in values]
            for values in case.values
        )
        runs.append((queue, *systems.on_device(solver, sets)))

    def launch(k: int) -> None:
        for queue, enqueue, _ in runs:
            enqueue(k)
            queue.flush()
        for queue, _, _ in runs:
            queue.finish()

    def result(k: int) -> np.ndarray | systems.Repeats:
        return case.solution(np.concatenate([solution(k).get() for _, _, solution in runs]))

    return Candidate(name, launch, result)


def draw_3(figure: Any, result: dict[str, Any]) -> None:
    left, right = pictures.panels(figure, 1, 2)
    skipped = cases.SEQUENTIAL, *(f"{n}, 1 {pictures.DEVICES}" for n in ("flat", "auto", FULL))
    rows = [r for r in result["rows"] if r["name"] not in skipped]
    bars = [r for r in rows if not r["new"] and r["name"].partition(",")[0] not in ("flat", "auto")]
    bars += [r for r in rows if r["name"] == "flat"]
    pictures.bars(left, bars, "speedup", SPEEDUP)
    left.set(xlabel="number of neurons", title="as in the paper")
    pictures.lines(right, rows, "speedup", SPEEDUP, "number of neurons")
    right.set_title("and what is new")
    pictures.legend(figure, [left, right])


BLOCKS = (32, 64, 128, 256, 512)
WORK_GROUP = 128


def measure_4(run: Run) -> dict[str, Any]:
    panel = six(MEDIUM, run.cells)
    result = found(
        run,
        cell=f"{panel}: nodes, branches",
        table=origin(run),
        work_group=f"{WORK_GROUP} for block-interleaved, as in the paper",
        block_shared="as many cells a block as local memory holds",
    )
    vector = {"vector_width": 1, "work_group": WORK_GROUP}
    blocks = [
        method(f"block-interleaved {size}", "block_interleaved", block_size=size, **vector)
        for size in run.some(BLOCKS)
    ]
    shared = method("block-shared", "block_local")
    entries = [SEQUENTIAL_ENTRY, *blocks, shared, FLAT, INTERLEAVED, MULTICORE, *NEW]
    if run.is_host:
        entries.append(method("block-interleaved, vectors", "block_interleaved", new=True))
    add(run, result, [cell(MEDIUM, run.cells)], COUNTS[-1:], entries, panel)
    return result


def draw_4(figure: Any, result: dict[str, Any]) -> None:
    left, right = pictures.panels(figure, 1, 2, width_ratios=[1, 1.5])
    width, height = figure.get_size_inches()
    figure.set_size_inches(width + 1.5, height)
    rows = [r for r in result["rows"] if r["name"] != cases.SEQUENTIAL]
    blocks = [r for r in rows if r["name"].split()[-1].isdigit()]
    named = [{**r, "name": "block-interleaved", "BS": int(r["name"].split()[-1])} for r in blocks]
    pictures.bars(left, named, "speedup", SPEEDUP, "BS")
    left.set(xlabel="block size BS", title="(a) block-interleaved")
    others = [r for r in rows if r not in blocks]
    best = max(blocks, key=lambda r: r["speedup"])
    others.sort(key=lambda r: r["new"])
    others.insert(2, best)
    single_bars(right, others)
    right.set_title("(b) the others; hatched: not in the paper")
    cells = f"{rows[0]['cells']:,} cells of {rows[0]['nodes']} nodes"
    right.set_xlabel(cells)


def single_bars(axes: Any, rows: Sequence[dict[str, Any]]) -> None:
    for k, r in enumerate(rows):
        look = pictures.bar_look(r["name"]) | {"hatch": "//" if r["new"] else None}
        drawn = axes.bar(k, r["speedup"], 0.7, **look)
        text = f"{r['speedup']:.1f}" if r["speedup"] < 100 else f"{r['speedup']:.0f}"
        axes.bar_label(drawn, [text], fontsize=7, padding=1)
    names = [r["name"].replace("C/OpenMP, cell by cell", "multicore") for r in rows]
    axes.set_xticks(range(len(rows)), names, rotation=30, ha="right")
    axes.set_ylabel(SPEEDUP)
    pictures.log_scale(axes)
    axes.margins(y=0.12)
    axes.grid(True, axis="y", **plot.GRID)
    axes.set_axisbelow(True)


def measure_5(run: Run) -> dict[str, Any]:
    result = found(run, cells="size-branches (nodes, branches)", table=origin(run))
    entries = [SEQUENTIAL_ENTRY, MULTICORE, INTERLEAVED, *NEW, *peers_for(run)]
    for name in run.some(list(CELLS)):
        add(run, result, [cell(name, run.cells)], COUNTS, entries, six(name, run.cells))
    return result


def draw_panels(
    figure: Any, result: dict[str, Any], columns: int = 3, what: str = "neurons"
) -> None:
    names = list(dict.fromkeys(r["panel"] for r in result["rows"]))
    columns = min(columns, len(names))
    axes = pictures.panels(figure, -(-len(names) // columns), columns, sharey=True)
    rows = [r for r in result["rows"] if r["name"] != cases.SEQUENTIAL]
    for letter, name, each in zip("abcdefghijkl", names, axes):
        some = [r for r in rows if r["panel"] == name]
        pictures.lines(each, some, "speedup", SPEEDUP, f"number of {what}")
        each.set_title(f"({letter}) {name}", fontsize=9)
    for each in axes[len(names) :]:
        each.set_axis_off()
    pictures.outer(axes)
    pictures.legend(figure, axes)


# -- figures 6 and 14: many shapes, and the branch levels one by one ---------------------------


def measure_6(run: Run) -> dict[str, Any]:
    nodes = MULTI
    result = found(run, cells=f"{nodes} nodes; multi: all different")
    counts = run.counts(COUNTS[2:3], nodes, result["scaled"])
    entries = [SEQUENTIAL_ENTRY, MULTICORE, FLAT, INTERLEAVED]
    entries += [method("block-interleaved", "block_interleaved", vector_width=1)]
    entries += [method("block-shared", "block_local"), *NEW, *peers_for(run)]
    for share in (0.1, 0.5):
        for kind in ("mono", "multi"):
            shapes = 1 if kind == "mono" else counts[0]
            branches = round(nodes * share)
            trees = [random_binary_tree(nodes, branches, k) for k in range(shapes)]
            add(run, result, trees, counts, entries, f"{kind} {share:.0%}")
    return result


def draw_6(figure: Any, result: dict[str, Any]) -> None:
    (axes,) = pictures.panels(figure, 1, 1)
    figure.set_size_inches(10.5, 5)
    rows = [r for r in result["rows"] if r["name"] != cases.SEQUENTIAL]
    order = [*dict.fromkeys(r["name"] for r in sorted(rows, key=lambda r: r["new"]))]
    pictures.bars(axes, rows, "speedup", SPEEDUP, "panel", order, log=True)
    axes.set_xlabel(f"{rows[0]['cells']:,} neurons of {rows[0]['nodes']} nodes; share of branches")
    pictures.legend(figure, [axes])


def level_tree(levels: int, nodes: int = MULTI) -> np.ndarray:
    """Return the parents of a cell with half of its nodes in the first branch.

    Level k has 2^k branches of one length (section 4.2). The paper's lengths do not add up to its
    512 nodes; here every further level gets the same share of the other half, and the remainder
    goes to the first branch.
    """
    share = nodes // 2 // (levels - 1)
    lengths = [[share // (1 << k)] * (1 << k) for k in range(1, levels)]
    first = nodes - sum(map(sum, lengths))
    parent, ends = list(range(-1, first - 1)), [first - 1]
    for level in lengths:
        above, ends = ends, []
        for k, length in enumerate(level):
            start = len(parent)
            parent += [above[k // 2], *range(start, start + length - 1)]
            ends.append(start + length - 1)
    return np.array(parent, np.int32)


def measure_14(run: Run) -> dict[str, Any]:
    result = found(
        run,
        cells="512 nodes; half of them in the first branch, 2, 4 and 8 branches on the next levels",
        lengths="the paper's add up to other sizes than 512; here all levels but the first have "
        "equal shares of the other half",
    )
    levels = method("levels", "levels", padding="compute")
    entries = [SEQUENTIAL_ENTRY, MULTICORE, levels, INTERLEAVED, *NEW, *peers_for(run)]
    for n in run.some((2, 3, 4)):
        add(run, result, [level_tree(n)], COUNTS, entries, f"{n} levels")
    return result


def draw_14(figure: Any, result: dict[str, Any]) -> None:
    names = list(dict.fromkeys(r["panel"] for r in result["rows"]))
    axes = pictures.panels(figure, -(-(1 + len(names)) // 2), 2, sharey=True)
    rows = [r for r in result["rows"] if r["name"] != cases.SEQUENTIAL]
    multi = [{**r, "name": r["panel"]} for r in rows if r["name"] == "levels"]
    olds = [r for r in rows if r["panel"] == names[-1] and r["name"] != "levels" and not r["new"]]
    pictures.lines(axes[0], [*olds, *multi], "speedup", SPEEDUP, "number of neurons")
    axes[0].set_title("as in the paper")
    for name, each in zip(names, axes[1:]):
        some = [r for r in rows if r["panel"] == name]
        some = [{**r, "name": name if r["name"] == "levels" else r["name"]} for r in some]
        pictures.lines(each, some, "speedup", SPEEDUP, "number of neurons")
        each.set_title(f"and what is new, {name}")
    for each in axes[1 + len(names) :]:
        each.set_axis_off()
    pictures.outer(axes)
    pictures.legend(figure, axes)


# -- figures 9 to 11: chains -------------------------------------------------------------------


def chain_rows(run: Run, sizes: Sequence[int], dtype: str) -> dict[str, Any]:
    key = "chains", tuple(sizes), dtype
    if key not in run.shared:
        result = found(run, dtype, systems=CHAIN_CELLS)
        entries = [THOMAS, CR_PCR, *NEW, *PEERS[:2]]
        if dtype == "float64":
            on_host = [p for p in peers_for(run) if p.on_host and not run.quick]
            entries = [SEQUENTIAL_ENTRY, MULTICORE, *entries, *on_host]
        counts = COUNTS if sizes[0] < LARGE_CHAINS[0] else LARGE_COUNTS
        for nodes in sizes[:1] if run.quick else sizes:
            add(run, result, [chain(nodes)], counts, entries, f"{nodes} nodes", "chains")
        run.shared[key] = result
    return run.shared[key]


def measure_9(run: Run) -> dict[str, Any]:
    result = found(run, "float32 and float64", systems=CHAIN_CELLS)
    result["setup"]["CR-PCR"] = "clhines' row cr_pcr, after cuSPARSE gtsvStridedBatch"
    for dtype in ("float32", "float64"):
        for sizes in (SMALL_CHAINS, LARGE_CHAINS):
            some = chain_rows(run, sizes, dtype)
            result["scaled"] += some["scaled"]
            result["missing"] += some["missing"]
            result["rows"] += [
                {**r, "panel": f"{dtype}, {r['panel']}"}
                for r in some["rows"]
                if r["name"] not in (cases.SEQUENTIAL, MULTICORE.name)
            ]
    return result


def draw_9(figure: Any, result: dict[str, Any]) -> None:
    axes = pictures.panels(figure, 2, 2)
    corners = itertools.product(("float32", "float64"), (SMALL_CHAINS, LARGE_CHAINS))
    for letter, each, (dtype, sizes) in zip("abcd", axes, corners):
        rows = [r for r in result["rows"] if r["dtype"] == dtype and r["nodes"] in sizes]
        ratios(each, rows, sizes)
        each.set_title(f"({letter}) {dtype}, {sizes[0]} to {sizes[-1]} nodes")
        if letter in "ab":
            each.legend(fontsize=7, frameon=False)


def ratios(axes: Any, rows: Sequence[dict[str, Any]], sizes: Sequence[int]) -> None:
    base = {(r["nodes"], r["cells"]): r["seconds"] for r in rows if r["name"] == THOMAS.name}
    looks = {CR_PCR.name: ("o", "-", ""), PEERS[0].name: ("x", ":", ", cuSPARSE")}
    shades = dict(zip(sizes, ("#56B4E9", "#0072B2", "#E69F00", "#D55E00")))
    for (name, (mark, style, more)), (nodes, color) in itertools.product(
        looks.items(), shades.items()
    ):
        some = [r for r in rows if r["name"] == name and r["nodes"] == nodes]
        points = [(r["cells"], r["seconds"] / base[nodes, r["cells"]]) for r in some]
        if points:
            label = f"{nodes:,} nodes{more}"
            axes.plot(*zip(*points), color=color, marker=mark, ls=style, label=label)
    axes.axhline(1, color="black", lw=0.8, ls="--")
    axes.set(xlabel="number of systems", ylabel="time of CR-PCR / time of Thomas")
    pictures.counts(axes, [r["cells"] for r in rows])
    pictures.log_scale(axes)
    axes.grid(True, **plot.GRID)


def measure_10(run: Run) -> dict[str, Any]:
    return chain_rows(run, SMALL_CHAINS, "float64")


def measure_11(run: Run) -> dict[str, Any]:
    return chain_rows(run, LARGE_CHAINS, "float64")


def draw_chains(figure: Any, result: dict[str, Any]) -> None:
    draw_panels(figure, result, 2, "systems")


# -- figure 12: accuracy and memory ------------------------------------------------------------

SYSTEMS = 20_000
FEW = 64  # chains to plan; a plan's cost is proportional to their number


def measure_12(run: Run) -> dict[str, Any]:
    result = found(run, systems=CHAIN_CELLS, chains=f"{accuracy.CELLS} for the errors")
    limits = devices.limits(run.queue.device)
    for nodes in run.some((*SMALL_CHAINS, *LARGE_CHAINS)):
        cases.say(f"  {nodes} nodes")
        result["rows"] += accuracy.errors(run.queue, nodes, "float64")
    rows = {"Thomas": "interleaved", "CR-PCR": "cr_pcr", "contraction": "contraction"}
    result["memory"] = [
        {"name": name, "nodes": nodes, "bytes": memory(method_name, nodes, limits)}
        for nodes in run.some(LARGE_CHAINS)
        for name, method_name in rows.items()
    ]
    result["memory"] += [
        {"name": "cuSPARSE gtsvStridedBatch", "nodes": nodes, "bytes": strided_bytes(nodes)}
        for nodes in run.some(LARGE_CHAINS)
    ]
    for r in result["rows"]:
        if not r["largest"] < systems.TOLERANCE["float64"]:
            raise MissingError(f"{r['row']}, {r['nodes']} nodes: error {r['largest']:.3g}")
    return result


def memory(name: str, nodes: int, limits: Any) -> float:
    """Bytes on the device for 20,000 chains in float64: d, u, b, x and all that the row adds."""
    plan = clhines.make_plan(systems.chains(FEW, nodes), name, np.float64, limits)
    return plan.bytes_needed(8, arrays=4 + plan.needs_factor) * SYSTEMS / FEW


def strided_bytes(nodes: int) -> float:
    """Bytes in three diagonals, the right-hand sides and the buffer that section 4.1.2 gives."""
    return 8.0 * SYSTEMS * (4 * nodes + 4 * nodes + 2048)


def draw_12(figure: Any, result: dict[str, Any]) -> None:
    left, right = pictures.panels(figure, 1, 2)
    accuracy.panel(left, result["rows"], "float64")
    left.set_title("(a) accuracy, float64")
    left.legend(fontsize=7, frameon=False, loc="lower center", ncols=5, columnspacing=1)
    rows = [{**r, "GB": r["bytes"] / 1e9} for r in result["memory"]]
    for name in dict.fromkeys(r["name"] for r in rows):
        some = [r for r in rows if r["name"] == name]
        style = pictures.look(name)
        right.plot([r["nodes"] for r in some], [r["GB"] for r in some], label=name, **style)
    places = sorted({r["nodes"] for r in rows})
    right.set_xscale("log", base=2)
    right.set_xticks(places, [f"{n:,}" for n in places])
    right.set(ylim=(0, None), xlabel="size of the systems", ylabel="memory for 20,000 systems [GB]")
    right.set_title("(b) memory, float64")
    right.grid(True, **plot.GRID)
    right.legend(fontsize=7, frameon=False)


def table_12(result: dict[str, Any]) -> str:
    head = f"{'solver':<28} {'nodes':>6} {'largest':>10} {'median':>10} {'GB of 20,000':>13}"
    lines = [
        f"{r['row']:<28} {r['nodes']:>6} {r['largest']:>10.2e} {r['median']:>10.2e} {'':>13}"
        for r in result["rows"]
    ]
    lines += [
        f"{r['name']:<28} {r['nodes']:>6} {'':>10} {'':>10} {r['bytes'] / 1e9:>13.2f}"
        for r in result["memory"]
    ]
    return table.ruled(head, lines)


# -- figure 13: padding ------------------------------------------------------------------------


def measure_13(run: Run) -> dict[str, Any]:
    low, high = (32, 64) if run.quick else (256, 512)
    result = found(run, systems=f"chains of {low} to {high} nodes, sizes uniform")
    rng = np.random.default_rng(record.SEED)
    sizes = rng.integers(low, high + 1, cases.PERIOD)
    ways = [
        method("padding skipped", "levels", padding="skip"),
        method("padding computed", "levels", padding="compute"),
    ]
    mixed = [chain(int(n)) for n in sizes]
    add(run, result, mixed, COUNTS, [*ways, *NEW], f"{low} to {high} nodes", "ragged chains")
    for n in (low, high):
        entries = [method(f"all of {n} nodes", "interleaved")]
        add(run, result, [chain(n)], COUNTS, entries, f"{n} nodes", "chains")
    return result


def draw_13(figure: Any, result: dict[str, Any]) -> None:
    (axes,) = pictures.panels(figure, 1, 1)
    mixed = result["rows"][0]["panel"]
    floors = [r for r in result["rows"] if r["name"] == "memory floor" and r["panel"] != mixed]
    rows = [r for r in result["rows"] if r not in floors]
    pictures.lines(axes, rows, "seconds", "time of a solve", "number of systems")
    pictures.legend(figure, [axes])

"""Time a step of the ring network beside other simulators, over numbers of cells.

    python -m bench ring [--device SPEC] [--cells 16 64 256 ...] [--hh soma all]

The cells are random trees of about 300 compartments in a ring, as in the 2018 report, 64 different
ones in turn or all different. Each soma has a synapse; delays are 5 ms, steps 0.025 ms, and one
event starts the ring. HH is in the soma, with passive dendrites, or everywhere. Each simulator runs
in its own process, one after another. A row counts only if its spikes equal those of the first
simulator of the list that has any. A simulator that is missing, or too slow for ``--most``, gets a
line with the reason. Writes ``ring-<device>.json`` and ``.txt`` and, with matplotlib, the picture
``ring-<device>.svg``.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bench import child, plot, record, ring, systems, table
from bench.peers import ring as ring_peers
from bench.peers.ring import OWN, PEERS, Case

APART = 0.1  # ms, largest difference in a spike time, for each cell that the ring has gone round
GOOD_CHOICE = 1.1  # times the fastest engine
SHOWN = {"soma": "HH in the soma, passive dendrites", "all": "HH in every compartment"}


def start(name: str, case: Case, most: float) -> dict[str, Any]:
    result = child.run("peers.ring", [name, ring_peers.arguments_of(case)], most)
    return {"name": name, "cells": case.cells, **result}


def turns(args: argparse.Namespace) -> list[tuple[str, Case]]:
    """Give each simulator, and clhines once per dtype and engine, with a case without cells."""
    base = Case(
        0,
        levels=args.levels,
        branching=args.branching,
        compartments=args.compartments,
        seed=record.SEED,
        duration=args.duration,
        seconds=args.seconds,
        threads=args.threads,
        device=args.device,
        least_steps=args.least_steps,
    )
    own_cases = [(OWN, replace(base, dtype=t, engine=p)) for p in args.engines for t in args.dtype]
    return [*((name, base) for name in args.peers if name != OWN), *own_cases]


def measured(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    cases = list(itertools.product(args.hh, args.shapes))
    total = len(cases) * len(turns(args)) * len(args.cells) * args.rounds
    with tqdm(total=total, disable=None) as bar:
        for hh, shapes in cases:
            for row in measured_case(args, hh, shapes, bar):
                yield {**row, "case": title(hh, shapes)}


def title(hh: str, shapes: str) -> str:
    return f"{SHOWN[hh]}; {shapes} different trees"


def measured_case(
    args: argparse.Namespace, hh: str, shapes: str, bar: Any
) -> Iterator[dict[str, Any]]:
    every = turns(args)
    gone: dict[int, str] = {}  # a listed simulator -> why it is not tried any more
    cost: dict[int, dict[int, float]] = {}  # by simulator: cells -> untimed seconds
    for cells in sorted(args.cells):
        rows_of: dict[int, list[dict[str, Any]]] = {k: [] for k in range(len(every))}
        for k in list(range(len(every))) * args.rounds:  # in turns, as noise comes and goes
            name, base = every[k]
            different = cells if shapes == "all" else int(shapes)
            case = replace(base, cells=cells, hh=hh, shapes=different)
            bar.set_description(f"{cells} cells, {label(name, case)}")
            if k not in gone and foreseen(cost.get(k, {}), cells) > args.most:
                gone[k] = f"more cells would take more than {args.most:.0f} s"
            if k not in gone:
                begin = time.perf_counter()
                row = start(name, case, args.most)
                # The timed part lasts equally long for any cell count.
                used = max(time.perf_counter() - begin - args.seconds, 0.0)
                cost.setdefault(k, {})[cells] = used
                rows_of[k].append(row)
                if "reason" in row:
                    gone[k] = row["reason"]
            bar.update()
        for k, (name, base) in enumerate(every):
            if k in gone:
                yield {"name": label(name, base), "cells": cells, "reason": gone[k]}
            else:
                yield together(rows_of[k])


def foreseen(cost: dict[int, float], cells: int) -> float:
    """Return the seconds that more cells will take, by the line through the last two sizes."""
    sizes = [n for n in sorted(cost) if n < cells][-2:]
    if len(sizes) < 2:  # a process's start alone says nothing about the cells
        return 0.0
    (few, more), last = sizes, cost[sizes[-1]]
    return last + max(last - cost[few], 0.0) * (cells - more) / (more - few)


def label(name: str, case: Case) -> str:
    return f"{name}, {case.engine}, {case.dtype}" if name == OWN else name


def together(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge a simulator's rounds into one row, with the median over all pieces."""
    row = max(rows, key=lambda r: r["simulated_ms"])
    pieces = [t for r in rows for t in r["taken"]]
    seconds = float(np.median(pieces))
    each = seconds / row["compartments"] * 1e9
    return {
        **row,
        "taken": pieces,
        "pieces": len(pieces),
        "seconds": seconds,
        "best_seconds": min(pieces),
        "ns_per_compartment": each,
    }


def compare(rows: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    """Compare each row's spikes with the first row in its case; return the differences."""
    first: dict[tuple[str, int], dict[str, Any]] = {}
    for r in rows:
        if r["spikes"] is None:
            yield r, ""
            continue
        truth = first.setdefault((r["case"], r["cells"]), r)
        r["spikes_of"] = truth["name"]
        yield r, difference(r, truth)


def difference(r: dict[str, Any], truth: dict[str, Any]) -> str:
    """Compare two rows' spikes up to the shorter time; keep the largest difference."""
    common_ms = min(r["simulated_ms"], truth["simulated_ms"])
    # So much before the end a spike may be there in one and not yet in another.
    edge = APART * (1 + sum(t < common_ms for t in truth["spikes"]["time"]))
    end = common_ms - edge
    expected = [(t, c) for t, c in zip(truth["spikes"]["time"], truth["spikes"]["cell"]) if t < end]
    got = list(zip(r["spikes"]["time"], r["spikes"]["cell"]))
    early = sum(t < end - edge for t, _ in got)
    if len(got) < len(expected) or early > len(expected):
        return f"{early} spikes up to {end - edge:.1f} ms, {truth['name']} has {len(expected)}"
    got = got[: len(expected)]
    if [c for _, c in got] != [c for _, c in expected]:
        return f"other cells spike than in {truth['name']}"
    gaps = np.array([t - s for (t, _), (s, _) in zip(got, expected)])
    r["spikes_compared"] = len(expected)
    if len(gaps):
        r["spikes_apart_ms"] = float(np.abs(gaps).max())
    bound = APART * (1 + np.arange(len(gaps)))
    if (np.abs(gaps) > bound).any():
        k = int(np.argmax(np.abs(gaps) > bound))
        return f"spike {k} is {gaps[k]:.3f} ms from that of {truth['name']}"
    return ""


def text(result: dict[str, Any]) -> str:
    rows = result["ring"]
    head = (
        f"{'cells':>6} {'simulator':<28} {'compartments':>12} {'step us':>10} {'ns/comp.':>9} "
        f"{'build s':>8} {'plan s':>7} {'spikes':>6} {'apart':>6}"
    )
    parts: list[str] = []
    for case in dict.fromkeys(r["case"] for r in rows):
        some = [r for r in rows if r["case"] == case]
        some.sort(key=lambda r: (r["cells"], r["seconds"]))
        shown = table.ruled(head, [line(r) for r in some], [r["cells"] for r in some])
        parts += [case, "", shown, ""]
    missing = [
        (m["name"], m["reason"], f"{m['cells']} cells ({m['case']})") for m in result["missing"]
    ]
    return "\n".join([*parts, *explanation(rows), *[""][: len(missing)], *table.missing(missing)])


def line(r: dict[str, Any]) -> str:
    spikes = "-" if r["spikes"] is None else str(len(r["spikes"]["time"]))
    apart = f"{r['spikes_apart_ms']:.3f}" if "spikes_apart_ms" in r else "-"
    setup = r["setup_s"]
    plan = sum(v for k, v in setup.items() if k != "build")
    return (
        f"{r['cells']:>6} {r['name']:<28} {r['compartments']:>12,} "
        f"{r['seconds'] * 1e6:>10.1f} {r['ns_per_compartment']:>9.4g} "
        f"{setup.get('build', 0.0):>8.2f} {plan:>7.2f} {spikes:>6} {apart:>6}"
    )


def explanation(rows: list[dict[str, Any]]) -> list[str]:
    texts = [
        "step us: median of the pieces; ns/comp.: the same over the compartments with membrane; "
        "build s: the network's description; plan s: all else before the first step; spikes: in "
        "the time simulated; apart: largest difference [ms] of a spike's time from the first row "
        "of the case, of those that both have."
    ]
    return table.wrapped([*texts, *table.about(rows), *about_choices(rows)])


def about_choices(rows: list[dict[str, Any]]) -> list[str]:
    own_rows = [r for r in rows if r["name"].startswith(OWN) and "asked" in r]
    ratios = []
    for key in dict.fromkeys((r["case"], r["cells"], r["dtype"]) for r in own_rows):
        some = [r for r in own_rows if (r["case"], r["cells"], r["dtype"]) == key]
        chosen = [r["name"] for r in some if r["asked"] == "auto"]
        if not chosen or len({r["name"] for r in some}) < 2:
            continue
        least = min(r["seconds"] for r in some if r["name"] == chosen[0])
        ratios.append(least / min(r["seconds"] for r in some))
    if not ratios:
        return []
    good = sum(ratio <= GOOD_CHOICE for ratio in ratios)
    return [
        f"auto: within {GOOD_CHOICE - 1:.0%} of the fastest engine in {good} of {len(ratios)} "
        f"cases, at worst {max(ratios):.2f} times it."
    ]


# -- the picture -------------------------------------------------------------------------------

OWN_STYLES: dict[str, dict[str, Any]] = {  # by dtype, and by engine
    "float64": {"color": "#D55E00", "lw": 2.5},
    "float32": {"color": "#E69F00", "lw": 2.5},
    "epochs": {"marker": "o"},
    "steps": {"marker": "x", "ls": "--"},
}


def style(name: str) -> dict[str, Any]:
    if not name.startswith("clhines"):
        return plot.style(name)
    look: dict[str, Any] = {"ms": 5, "zorder": 5}
    for word, how in OWN_STYLES.items():
        look |= how if word in name else {}
    return look


def draw(result: dict[str, Any], path: Path) -> None:
    rows = result["ring"]
    cases = list(dict.fromkeys(r["case"] for r in rows))
    with plot.picture(path) as figure:
        grid = plot.grid(figure, len(cases), (4.6, 4.0), (3.9, 0.9), sharex=True, sharey=True)
        drawn: dict[str, Any] = {}
        for axes, case in zip(grid, cases):
            drawn |= panel(axes, [r for r in rows if r["case"] == case])
            axes.set_title(case, fontsize=10)
        plot.few_ticks(grid[0].yaxis)
        plot.legend(figure, drawn)
        each = {r["compartments"] / r["cells"] for r in rows}
        figure.supxlabel(f"number of cells, {min(each):.0f} to {max(each):.0f} compartments each")
        figure.supylabel("time of a step of 0.025 ms")
        device = f"{result['record']['device']} ({result['record']['platform']})"
        others = sorted({r["where"] for r in rows if not r["name"].startswith(OWN)})
        head = f"clhines: {device}" + (f"; others: {', '.join(others)}" if others else "")
        figure.suptitle(head)


def panel(axes: Any, rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(r["name"] for r in rows)
    points = {n: [(r["cells"], r["seconds"]) for r in rows if r["name"] == n] for n in names}
    drawn = plot.lines(axes, points, style)
    cells = sorted({r["cells"] for r in rows})
    axes.set_xticks(cells, [f"{c:,}" for c in cells], rotation=45 if len(cells) > 4 else 0)
    axes.minorticks_off()
    return drawn


# ----------------------------------------------------------------------------------------------


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = record.parser("ring", __doc__)
    add = parser.add_argument
    add("--cells", type=int, nargs="+", default=[16, 64, 256, 1024, 4096, 16384])
    add("--hh", nargs="+", choices=list(SHOWN), default=list(SHOWN))
    add("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    add("--dtype", nargs="+", default=["float64", "float32"])
    add("--engines", nargs="*", default=["auto"], help="of clhines; none leaves it out")
    add("--shapes", nargs="+", default=[str(ring.SHAPES), "all"], help="different trees")
    add("--levels", type=int, default=ring.LEVELS)
    add("--branching", type=float, default=ring.BRANCHING)
    add("--compartments", type=int, default=ring.COMPARTMENTS, help="of a branch")
    add("--duration", type=float, default=200.0, help="ms simulated at most")
    add("--seconds", type=float, default=5.0, help="of timed steps for each simulator and size")
    add("--least-steps", type=int, default=ring_peers.WARM, help="of a timed piece")
    add("--most", type=float, default=180.0, help="seconds of a simulator and size, all in all")
    add("--rounds", type=int, default=1, help="in which the simulators take turns")
    add("--threads", type=int, default=record.cores(), help="of simulators on the host")
    args = parser.parse_args(arguments)
    systems.check_shapes(parser, args.shapes)
    return args


def main(arguments: Sequence[str]) -> None:
    args = parsed(arguments)
    rows: list[dict[str, Any]] = []
    missing: list[dict[str, Any]] = []
    queue = record.queue(args.device)
    try:
        for row in measured(args):
            (missing if "reason" in row else rows).append(row)
    except KeyboardInterrupt:
        print("stopped: the table has what was done before")
    good = []
    for r, wrong in compare(rows):
        if wrong and r["name"].startswith(OWN):
            sys.exit(f"{r['name']}, {r['cells']} cells ({r['case']}): {wrong}")
        if wrong:
            missing.append({**{k: r[k] for k in ("name", "cells", "case")}, "reason": wrong})
        else:
            good.append(r)
    result = {"ring": good, "missing": missing}
    record.write("ring", queue, arguments, result, text, args.out, draw)

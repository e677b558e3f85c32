"""Run the experiments of three papers, and draw their figures.

    python -m bench papers [FIGURE ...] [--quick] [--nodes N] [--seconds S]
                           [--cells FOLDER] [--device SPEC] [--out FOLDER]

Figures belong to Huber 2018 (report-...), Valero-Lara et al. 2018 (batch-...) and Brette and
Goodman 2012 (review-...); without a name all are run. Each becomes ``FIGURE.json``, ``.txt`` and,
with matplotlib, ``.svg`` in ``papers-<device>``, as soon as it is measured. Solutions are checked
before they are timed, and wrong ones end their figure. Speed-ups are over the C baseline of hines.c
with one thread, in the same run. FOLDER has the SWC files of cuHinesBatch's Table 1, by the names
in `batch.CELLS`; random trees of the same sizes replace missing files.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import plot, record
from bench.papers import (
    batch,
    cases,
    claims,
    padding,
    patterns,
    pictures,
    report,
    report_claims,
    spikes,
    traffic,
)
from bench.papers.cases import Run
from bench.peers import host


@dataclass(frozen=True)
class Figure:
    """One experiment."""

    title: str
    measure: Callable[[Run], dict[str, Any]]
    draw: Callable[[Any, dict[str, Any]], None]
    table: Callable[[dict[str, Any]], str] = cases.text


FIGURES: dict[str, Figure] = {
    "report-2.1": Figure(
        "Huber 2018, figures 1.1 and 2.1: a cell and its Hines matrix",
        patterns.measure_2_1,
        patterns.draw_2_1,
        patterns.table_2_1,
    ),
    "report-4.1": Figure(
        "Huber 2018, figure 4.1: idle lanes, sorted and unsorted",
        report.measure_4_1,
        report.draw_4_1,
        report.table_4_1,
    ),
    "report-7.1": Figure(
        "Huber 2018, figure 7.1: old, fine, and fine with splitting",
        report.measure_7_1,
        report.draw_7_1,
        report.table_times,
    ),
    "report-7.2": Figure(
        "Huber 2018, figure 7.2: high, medium and low branching",
        report.measure_7_2,
        report.draw_7_2,
        report.table_times,
    ),
    "report-options": Figure(
        "Huber 2018, sections 4, 6 and 8: what each step of the work distribution buys",
        report.measure_options,
        report.draw_options,
        report.table_options,
    ),
    "report-ends": Figure(
        "Huber 2018, section 7, with Arbor's cells, whose branches end at random",
        report.measure_ends,
        report.draw_7_2,
        report.table_times,
    ),
    "batch-2": Figure(
        "Valero-Lara 2018, figure 2: layouts in memory",
        patterns.measure_2,
        patterns.draw_2,
        patterns.table_2,
    ),
    "batch-3": Figure(
        "Valero-Lara 2018, figure 3: medium-high neurons", batch.measure_3, batch.draw_3
    ),
    "batch-4": Figure(
        "Valero-Lara 2018, figures 4a and 4b: block sizes, local memory",
        batch.measure_4,
        batch.draw_4,
    ),
    "batch-5": Figure(
        "Valero-Lara 2018, figure 5: six morphologies", batch.measure_5, batch.draw_panels
    ),
    "batch-6": Figure(
        "Valero-Lara 2018, figure 6: one shape against many", batch.measure_6, batch.draw_6
    ),
    "batch-7": Figure(
        "Valero-Lara 2018, figure 7: one shape, and many shapes level by level",
        patterns.measure_7,
        patterns.draw_7,
        patterns.table_7,
    ),
    "batch-8": Figure(
        "Valero-Lara 2018, figure 8: rows that CR and PCR read",
        patterns.measure_8,
        patterns.draw_8,
        patterns.table_8,
    ),
    "batch-9": Figure(
        "Valero-Lara 2018, figure 9: cyclic reduction over Thomas", batch.measure_9, batch.draw_9
    ),
    "batch-10": Figure(
        "Valero-Lara 2018, figure 10: tridiagonal systems of 64 to 512 rows",
        batch.measure_10,
        batch.draw_chains,
    ),
    "batch-11": Figure(
        "Valero-Lara 2018, figure 11: tridiagonal systems of 1,024 to 8,192 rows",
        batch.measure_11,
        batch.draw_chains,
    ),
    "batch-12": Figure(
        "Valero-Lara 2018, figure 12: accuracy and memory",
        batch.measure_12,
        batch.draw_12,
        batch.table_12,
    ),
    "batch-13": Figure(
        "Valero-Lara 2018, figure 13: padding computed and skipped", batch.measure_13, batch.draw_13
    ),
    "batch-14": Figure(
        "Valero-Lara 2018, figure 14: cells of 2, 3 and 4 branch levels",
        batch.measure_14,
        batch.draw_14,
    ),
    "batch-padding": Figure(
        "Valero-Lara 2018, section 4.1.3: padding computed and skipped, also for trees",
        padding.measure,
        padding.draw,
        padding.text,
    ),
    "review-4": Figure(
        "Brette and Goodman 2012, figure 4: delivery of spikes",
        spikes.measure,
        spikes.draw,
        spikes.text,
    ),
}


def make(run: Run, name: str, known: dict[str, Any], folder: Path) -> None:
    figure = FIGURES[name]
    begin = time.perf_counter()
    cases.say(f"{name}: {figure.title}")
    known = {**known, "load_before": load()}
    result = figure.measure(run)
    known["peers"] = host.versions()  # the imported peers' versions
    result = {"figure": name, "title": figure.title, "record": known, **result}
    result["seconds"] = time.perf_counter() - begin
    head = f"{figure.title}\n{plot.device_name(known)}, commit {known['commit']}"
    record.files(folder / f"{name}.json", result, f"{head}\n\n{text(result)}\n", draw)


def text(result: dict[str, Any]) -> str:
    claim_text = claims.of_result(result, {**claims.CLAIMS, **report_claims.CLAIMS})
    parts = claim_text, FIGURES[result["figure"]].table(result), cases.notes(result)
    return "\n\n".join(filter(None, parts))


def draw(result: dict[str, Any], path: Path) -> None:
    figure = FIGURES[result["figure"]]
    pictures.sheet(result, path, figure.draw, figure.title)


def load() -> float:
    return float(os.getloadavg()[0]) if hasattr(os, "getloadavg") else 0.0


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = record.parser("papers", __doc__)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--quick", action="store_true", help="a few small batches only")
    parser.add_argument("--cells", help="folder with SWC files of cuHinesBatch's Table 1")
    parser.add_argument("--nodes", type=float, help="of a batch at most; default by the device")
    parser.add_argument("--seconds", type=float, help="of rounds a case of 12 solvers; default 1")
    args = parser.parse_args(arguments)
    for name in args.figures:
        if name not in FIGURES:
            parser.error(f"no figure {name!r}; there are {', '.join(FIGURES)}")
    if args.cells is not None and not Path(args.cells).is_dir():
        parser.error(f"--cells {args.cells}: expected a folder")
    for name in ("nodes", "seconds"):
        value = getattr(args, name)
        if value is not None and not 0 < value < float("inf"):
            parser.error(f"--{name} {value}: expected a positive number")
    return args


def main(arguments: Sequence[str]) -> int:
    args = parsed(arguments)
    queue = record.queue(args.device, ["float64"])
    traffic.ask_for_registers(queue.device)
    most = cases.most_nodes(queue, args.nodes, args.quick)
    seconds = args.seconds or (0.02 if args.quick else 1.0)
    cells = Path(args.cells) if args.cells else None
    run = Run(queue, args.quick, most, seconds, cases.host_nodes(queue), cells)
    folder = Path(args.out) / f"papers-{record.slug(queue.device)}"
    run_record, failed = record.record(queue, "papers", arguments), {}
    for name in args.figures or FIGURES:
        try:
            make(run, name, run_record, folder)
        except (Exception, SystemExit) as error:  # the other figures are run all the same
            failed[name] = f"{type(error).__name__}: {error}"
            cases.say(f"{name} failed: {failed[name]}")
    for name, why in failed.items():
        print(f"failed: {name}: {why}", file=sys.stderr)
    return 1 if failed else 0

"""Figures of the page on papers: statements of papers beside what was found on an H200."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bench.figures import Figure, Quote
from bench.papers import claims, report, report_claims
from bench.quoted.entries import PAPERS, Row, prose, said

HERE = "papers-nvidia-h200"
REPORT, BATCH, REVIEW = (
    f"### What differs in {name}" for name in ("the report", "cuHinesBatch", "the review")
)
KNOWN = {**claims.CLAIMS, **report_claims.CLAIMS}


def papers() -> Iterator[Quote]:
    """Yield what the page says of each figure."""
    yield from of_report()
    yield from of_batch()
    review = f"{HERE}/review-4"
    yield prose(
        PAPERS,
        REVIEW,
        "Here VPO is, in {} of {} cases",
        said(review, r"vpo is best in (\d+) of"),
        said(review, r"vpo is best in \d+ of (\d+)"),
    )
    most = said(review, r"slowest over fastest of the review's three: up to ([\d.]+)")
    yield prose(PAPERS, REVIEW, "takes up to {} times as long as the fastest", most)
    cores = "papers-pocl-intel-r-xeon-r-processor/review-4"
    yield prose(
        PAPERS,
        REVIEW,
        "VPO is best in {} of {} cases, and the slowest takes up to {} times",
        said(cores, r"vpo is best in (\d+) of"),
        said(cores, r"vpo is best in \d+ of (\d+)"),
        said(cores, r"slowest over fastest of the review's three: up to ([\d.]+)"),
    )


def found(name: str, begins: str, near: bool = False) -> Figure:
    """Return what a statement has under "here"; with `near` the number in brackets."""

    def shown(result: Row) -> str:
        for claim in KNOWN[name](dict(result)):
            if claim.text.startswith(begins):
                inside = re.search(r"\(~(.*)\)", claim.here)
                return inside[1] if near and inside else claim.here
        return "-"

    return Figure(f"{HERE}/{name}", shown, {})


# -- the report --------------------------------------------------------------------------------


def speed_up(branching: str, setting: str, cells: int, solver: str = report.SPLIT) -> Figure:
    """Return a speed-up of figure 7.2 over the old solver, or of `fine` over another one."""

    def shown(result: Row) -> str:
        here = {
            r["name"]: r["seconds"]
            for r in result["rows"]
            if (r["panel"], r["cells"]) == (f"{branching} branching, {setting}", cells)
        }
        other = report.OLD if solver == report.SPLIT else solver
        ratio = here[other] / here[report.SPLIT]
        return f"{ratio:.1f}" if cells == 64 and ratio >= 3 else f"{ratio:.2f}"

    return Figure(f"{HERE}/report-7.2", shown, {})


def reason(branching: str, show: Any) -> Figure:
    """Return what was counted for a branching, of the usual cells."""

    def shown(result: Row) -> str:
        panel = f"{branching} branching, {report.USUAL}"
        return str(show(next(r for r in result["reasons"] if r["panel"] == panel)))

    return Figure(f"{HERE}/report-7.2", shown, {})


def gain(panel: str, name: str) -> Figure:
    """Return what an option of `fine` gains."""
    where = {"panel": panel, "name": name}
    return Figure(f"{HERE}/report-options", lambda r: f"{r['gain']:.2f}", where)


def of_report() -> Iterator[Quote]:
    """Yield the figures of the report."""
    high, medium, low = report.BRANCHINGS
    most, few = 100_000, 64
    yield prose(
        PAPERS,
        REPORT,
        "it is {} for high, {} for medium and {} for low branching ({}, {} and {} where",
        *(
            speed_up(b, s, most)
            for s in (report.USUAL, report.FALLING)
            for b in (high, medium, low)
        ),
    )
    yield prose(
        PAPERS,
        REPORT,
        "but with 64 cells {}, {} and {}",
        *(speed_up(b, report.USUAL, few) for b in (high, medium, low)),
    )
    yield prose(
        PAPERS,
        REPORT,
        "the old solver takes {}, {} and {} times as many steps",
        *(
            reason(b, lambda r: f"{r['steps_old'] / r['steps_fine']:.1f}")
            for b in (high, medium, low)
        ),
    )
    yield prose(
        PAPERS,
        REPORT,
        "in the report: {}, {} and {} % of them",
        *(reason(b, lambda r: f"{100 * r['idle_fine']:.1f}") for b in (high, medium, low)),
    )
    yield prose(
        PAPERS,
        REPORT,
        "for large batches, too: {}, {} and {}.",
        *(speed_up(b, report.USUAL, most, "flat") for b in (high, medium, low)),
    )
    yield prose(
        PAPERS,
        REPORT,
        "its time per cell is still {} of that with 16,384",
        found("report-7.1", "old: time per cell"),
    )
    yield prose(
        PAPERS,
        REPORT,
        "is ahead by {} with 16 cells and by {} with 100,000",
        found("report-7.1", "fewest cells: time of old"),
        found("report-7.1", "most cells: time of old"),
    )
    panels = ("high branching", "medium branching", "random trees")
    yield prose(
        PAPERS,
        REPORT,
        "gains {}, {} and {} for high and medium branching and random trees, and loses for low"
        " branching ({})",
        *(gain(p, "split, mean") for p in (*panels, "low branching")),
    )
    yield prose(
        PAPERS,
        REPORT,
        "and {} for random trees; best-fit packing and shifting levels lose, down to {} and {}",
        gain("random trees", "balanced"),
        gain("random trees", "packed, best fit"),
        gain("random trees", "levels shifted"),
    )
    where = {"panel": "medium branching", "warp": 32}
    yield prose(
        PAPERS,
        "### All of the report",
        "the same: {} % idle in warps of 32 instead of {}",
        Figure(f"{HERE}/report-4.1", lambda r: f"{100 * r['idle_sorted']:.1f}", where),
        Figure(f"{HERE}/report-4.1", lambda r: f"{100 * r['idle_unsorted']:.1f}", where),
    )


# -- cuHinesBatch ------------------------------------------------------------------------------


def of_batch() -> Iterator[Quote]:
    """Yield the figures of the cuHinesBatch paper."""
    for words, figures in (
        (
            "Full-interleaved is {} and {} times as fast as sequential execution with 25,600 and"
            " 256,000 cells [20 and 25], flat at best {} [2]",
            [
                found("batch-3", "full-interleaved, 25,600"),
                found("batch-3", "full-interleaved, 256,000"),
                found("batch-3", "flat, at best"),
            ],
        ),
        ("Two GPUs are {} times as fast as one", [found("batch-3", "full-interleaved, 2 devices")]),
        ("The best cell gains {} times as much", [found("batch-5", "best cell over worst")]),
        (
            "in float64 near ~{} for 64 rows and ~{} for 512",
            [
                found("batch-9", f"float64, {n} rows: Thomas ahead of CR-PCR", near=True)
                for n in (64, 512)
            ],
        ),
        (
            "CR-PCR takes at most {} times as long as Thomas [3], in float32 {} [4]",
            [found("batch-9", f"{t}: time of CR-PCR") for t in ("float64", "float32")],
        ),
        (
            "Thomas is {} and {} times as fast as sequential execution [25], CR-PCR {} and {} [10]",
            [
                found(f"batch-{n}", f"{who}, at best")
                for who in ("Thomas", "CR-PCR")
                for n in (10, 11)
            ],
        ),
        (
            "error is at most {} times that of Thomas [4], and gtsvStridedBatch takes {} times as",
            [
                found("batch-12", "error of CR-PCR"),
                found("batch-12", "memory of gtsvStridedBatch"),
            ],
        ),
        ("skipping takes {} of the time", [found("batch-13", "most systems: time of padding")]),
        (
            "Here it is slower: {} of its speed at best, with {} levels [4]",
            [
                found("batch-14", "time of mono over"),
                found("batch-14", "fastest number of levels"),
            ],
        ),
    ):
        yield prose(PAPERS, BATCH, words, *figures)

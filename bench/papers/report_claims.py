"""Claims of the 2018 report about each figure, beside the measurements here.

Its text has no numbers; they stand in pictures only. So the claims compare which solver is faster,
and where the report says that a ratio grows or falls.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from bench.papers import claims
from bench.papers.claims import CLOSE, NEAR, Claim, Claims, Rows, at, number, of, over
from bench.papers.report import BRANCHINGS, FALLING, OLD, PACKED, SPLIT, USUAL

order = partial(claims.order, least=CLOSE)  # two equal runs differ by less


def claims_4_1(result: dict[str, Any]) -> Iterator[Claim]:
    for r in result["rows"]:
        if r["warp"] == 32:
            ratio = r["idle_unsorted"] / max(r["idle_sorted"], 1e-12)
            yield from order(f"{r['panel']}, warps of 32: idle lanes, unsorted over sorted", ratio)


def claims_7_1(result: dict[str, Any]) -> Iterator[Claim]:
    rows = [r for r in result["rows"] if r["panel"] == USUAL]
    old, fine = OLD + PACKED, SPLIT + PACKED
    few, many = (over(rows, old, fine, place) for place in (0, -1))
    yield from order("fewest cells: time of old over fine, split", few)
    yield from order("most cells: time of old over fine, split", many)
    yield from order("that speed-up with fewest cells over most", few and many and few / many)
    if not rows:  # other cells only
        return
    places = {name: linear_from(of(rows, name)) for name in (old, fine)}
    for name, label in ((old, "old"), (fine, "fine, split")):
        some = of(rows, name)
        if len(some) > 1:
            each = [r["seconds"] / r["cells"] for r in some[-2:]]
            yield from number(
                f"{label}: time per cell, most cells over the size before", 1.0, each[1] / each[0]
            )
    said = "cells from which time grows linearly, fine, split before old"
    yield Claim(said, "fewer", f"{places[fine]:,}/{places[old]:,}", places[fine] < places[old])


def linear_from(rows: Rows) -> int:
    """Return the cell count from which on the time per cell is near its last value."""
    last, count = rows[-1]["seconds"] / rows[-1]["cells"], rows[-1]["cells"]
    for r in reversed(rows):
        if r["seconds"] / r["cells"] > NEAR * last:
            break
        count = r["cells"]
    return int(count)


def claims_7_2(result: dict[str, Any]) -> Iterator[Claim]:
    rows = result["rows"]
    for setting in (USUAL, FALLING):
        speed = {
            name: {
                r["cells"]: r["over_old"]
                for r in of(rows, SPLIT, panel=f"{name} branching, {setting}")
            }
            for name in BRANCHINGS
        }
        for cells in sorted(set.intersection(*map(set, speed.values()))):
            for lower, higher in (("low", "medium"), ("medium", "high")):
                yield from order(
                    f"{setting}, {cells:,} cells: speed-up of {lower} over {higher}",
                    speed[lower][cells] / speed[higher][cells],
                )
        for name in BRANCHINGS:
            gain = at(rows, SPLIT, "over_old", panel=f"{name} branching, {setting}")
            yield from order(f"{setting}, {name}, most cells: time of old over fine, split", gain)


def claims_options(result: dict[str, Any]) -> Iterator[Claim]:
    for r in result["rows"]:
        if r["name"] != "none":
            yield from order(f"{r['panel']}, {r['name']}: gain in time", r["gain"])


CLAIMS: dict[str, Claims] = {
    "report-4.1": claims_4_1,
    "report-7.1": claims_7_1,
    "report-7.2": claims_7_2,
    "report-options": claims_options,
}

"""Claims of the cuHinesBatch paper about each figure, in numbers, beside the measurements here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench import table
from bench.papers import traffic
from bench.papers.pictures import short

Rows = list[dict[str, Any]]
NEAR, CLOSE = 1.25, 1.05  # times larger or smaller: still as in the paper
MULTICORE, FULL, THOMAS = "C/OpenMP, cell by cell", "full-interleaved", "Thomas, interleaved"
CYCLIC = {"CR-PCR": "CR-PCR", "cuSPARSE gtsv2StridedBatch": "cuSPARSE"}


@dataclass(frozen=True)
class Claim:
    """One statement in a paper."""

    text: str
    paper: str
    here: str
    holds: bool


def number(text: str, paper: float, here: float | None, near: float = NEAR) -> Iterator[Claim]:
    """Give a claim with a number; it holds within the factor `near`. None was not measured."""
    if here is not None:
        yield Claim(text, short(paper), short(here), paper / near <= here <= paper * near)


def order(text: str, ratio: float | None, least: float = 1) -> Iterator[Claim]:
    """Give the claim that a ratio is above 1; one below `least` is not clearly so."""
    if ratio is not None:
        yield Claim(text, "> 1", short(ratio), ratio > least)


def text(claims: Iterator[Claim], title: str = "Beside the paper") -> str:
    ordered = sorted(claims, key=lambda c: c.holds)
    if not ordered:
        return ""
    head = f"{title + ':':<64} {'paper':>6} {'here':>16}  outcome"
    lines = [
        f"{c.text:<64} {c.paper:>6} {c.here:>16}  {'as there' if c.holds else 'differs'}"
        for c in ordered
    ]
    return table.ruled(head, lines)


Claims = Callable[[dict[str, Any]], Iterator[Claim]]


# -- row parts ---------------------------------------------------------------------------------


def of(rows: Rows, name: str, **labels: Any) -> Rows:
    some = [r for r in rows if r["name"] == name and labels.items() <= r.items()]
    return sorted(some, key=lambda r: r["cells"])


def at(rows: Rows, name: str, key: str, place: int = -1, **labels: Any) -> float | None:
    some = of(rows, name, **labels)
    return some[place][key] if some else None


def best(rows: Rows, name: str, **labels: Any) -> float | None:
    return max((r["speedup"] for r in of(rows, name, **labels)), default=None)


def over(rows: Rows, slow: str, fast: str, place: int = -1, **labels: Any) -> float | None:
    """Return the ratio between two solvers' times, for the largest batch or the batch `place`."""
    times = [at(rows, name, "seconds", place, **labels) for name in (slow, fast)]
    return None if None in times else times[0] / times[1]  # type: ignore[operator]


def bandwidth(rows: Rows, name: str) -> float | None:
    """Return the largest share that a solver has in the memory floor's bandwidth."""
    shares = []
    for r in of(rows, name):
        floors = [f for f in rows if f["name"] == "memory floor" and same_point(f, r)]
        rates = [traffic.gb_per_s(each) for each in (r, *floors)]
        if len(rates) == 2 and rates[0] is not None and rates[1] is not None:
            shares.append(rates[0] / rates[1])
    return max(shares, default=None)


def same_point(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return all(a[k] == b[k] for k in ("panel", "cells", "dtype"))


# -- the figures -------------------------------------------------------------------------------


def claims_3(result: dict[str, Any]) -> Iterator[Claim]:
    rows = result["rows"]
    counts = sorted({r["cells"] for r in rows})
    yield from number(
        "multicore (there 16 cores), fewest cells", 2, at(rows, MULTICORE, "speedup", 0)
    )
    yield from number("multicore (there 16 cores), most cells", 6, at(rows, MULTICORE, "speedup"))
    yield from number("flat, at best", 2, best(rows, "flat"))
    if 25_600 in counts:
        rate = at(rows, FULL, "speedup", cells=25_600)
        yield from number("full-interleaved, 25,600 cells", 20, rate)
    yield from number(f"full-interleaved, {counts[-1]:,} cells", 25, at(rows, FULL, "speedup"))
    yield from order(
        "fewest cells: time of full-interleaved over multicore", over(rows, FULL, MULTICORE, 0)
    )
    yield from order("most cells: time of flat over full-interleaved", over(rows, "flat", FULL))
    for count in (2, 4):
        one, some = (f"{FULL}, {n} of the devices" for n in (1, count))
        yield from number(
            f"full-interleaved, {count} devices over 1, most cells",
            0.95 * count,
            over(rows, one, some),
        )
    yield from number("full-interleaved: bandwidth over the floor's", 1.0, bandwidth(rows, FULL))


def claims_4(result: dict[str, Any]) -> Iterator[Claim]:
    rows = result["rows"]
    blocks = [r for r in rows if r["name"].startswith("block-interleaved")]
    times = [r["seconds"] for r in blocks if r["name"].split()[-1].isdigit()]
    full = at(rows, FULL, "seconds")
    yield from number(
        "full-interleaved over the best block size", 1.02, full and full / min(times), CLOSE
    )
    yield from number("slowest block size over the best", 1.02, max(times) / min(times), CLOSE)
    yield from order("time of flat over block-shared", over(rows, "flat", "block-shared"))
    yield from order("time of block-shared over full-interleaved", over(rows, "block-shared", FULL))


def claims_5(result: dict[str, Any]) -> Iterator[Claim]:
    rows = result["rows"]
    panels = list(dict.fromkeys(r["panel"] for r in rows))
    fastest = [best(rows, FULL, panel=p) for p in panels]
    rates = [r for r in fastest if r is not None]
    yield from number("best cell over worst, full-interleaved", 55 / 47, max(rates) / min(rates))
    yield from number("multicore, at best", 6, best(rows, MULTICORE))
    yield from number("full-interleaved, at best", 25, best(rows, FULL))


def claims_6(result: dict[str, Any]) -> Iterator[Claim]:
    rows = result["rows"]
    for share in ("10%", "50%"):
        one, many = (at(rows, FULL, "seconds", panel=f"{k} {share}") for k in ("mono", "multi"))
        if one and many:
            ratio = many / one
            said = f"{share} branches: many shapes over one, full-interleaved"
            yield Claim(said, "> 1", short(ratio), ratio > NEAR)


def claims_9(result: dict[str, Any]) -> Iterator[Claim]:
    rows = result["rows"]
    for dtype, peak in (("float32", 4.0), ("float64", 3.0)):
        for name, short_name in CYCLIC.items():
            lengths = [
                r["seconds"] / t["seconds"]
                for r in of(rows, name, dtype=dtype)
                for t in of(rows, THOMAS, dtype=dtype, nodes=r["nodes"], cells=r["cells"])
            ]
            said = f"{dtype}: time of {short_name} over Thomas, at most"
            yield from number(said, peak, max(lengths, default=None))
    for dtype in ("float32", "float64"):
        for nodes in sorted({r["nodes"] for r in rows}):
            for name, short_name in CYCLIC.items():
                said = f"{dtype}, {nodes:,} rows: Thomas ahead of {short_name} from"
                yield from _crossing(of(rows, name, dtype=dtype, nodes=nodes), rows, said)


def _crossing(others: Rows, rows: Rows, said: str) -> Iterator[Claim]:
    """Give the least number of systems from which on Thomas is always ahead.

    Beside this measured number stands, in brackets, the intersection of the two lines of times on
    logarithmic axes.
    """
    if not others:
        return
    paper, first, crossed = 2560 if others[0]["nodes"] < 1024 else 2000, None, 0.0
    later = 0.0
    for r in reversed(others):
        thomas = of(rows, THOMAS, dtype=r["dtype"], nodes=r["nodes"], cells=r["cells"])
        if not thomas:
            break
        lead = math.log(r["seconds"] / thomas[0]["seconds"])
        if lead <= 0:
            if first:
                crossed = first * (r["cells"] / first) ** (later / (later - lead))
            break
        first, later = r["cells"], lead
    here = f"{first:,}" if first else f"> {others[-1]['cells']:,}"
    here += f" (~{float(f'{crossed:.2g}'):,.0f})" if crossed else ""
    yield Claim(said, f"{paper:,}", here, first == paper)


def claims_chains(result: dict[str, Any]) -> Iterator[Claim]:
    rows = result["rows"]
    yield from number("Thomas, at best", 25, best(rows, THOMAS))
    yield from number("CR-PCR, at best", 10, best(rows, "CR-PCR"))
    panels = list(dict.fromkeys(r["panel"] for r in rows))
    behind = [over(rows, THOMAS, MULTICORE, 0, panel=p) for p in panels]
    ratios = [b for b in behind if b is not None]
    yield from order(
        "fewest systems: time of Thomas over multicore, at most", max(ratios, default=None)
    )
    yield from number("Thomas: bandwidth over the floor's, at best", 0.8, bandwidth(rows, THOMAS))
    filled = [r["occupancy"] for r in of(rows, THOMAS) if "occupancy" in r]
    yield from number("Thomas: occupancy, at best [%]", 92, max(filled, default=None))


def claims_12(result: dict[str, Any]) -> Iterator[Claim]:
    rows, memory = result["rows"], result["memory"]
    errors = {(r["row"], r["nodes"]): r["largest"] for r in rows}
    sizes = {n for _, n in errors}
    ratios = [errors["CR-PCR", n] / errors["Thomas", n] for n in sizes]
    yield from number("error of CR-PCR over Thomas, at most", 4, max(ratios))
    bytes_of = {(m["name"], m["nodes"]): m["bytes"] for m in memory}
    last = max(n for _, n in bytes_of)
    ratio = bytes_of["cuSPARSE gtsvStridedBatch", last] / bytes_of["Thomas", last]
    yield from number(f"memory of gtsvStridedBatch over Thomas, {last:,} rows", 2, ratio)


def claims_13(result: dict[str, Any]) -> Iterator[Claim]:
    rows = [{**r, "seconds": r["seconds"] / r["cells"]} for r in result["rows"]]  # time per system
    ratio = over(rows, "padding skipped", "padding computed")
    yield from order("most systems: time of padding skipped over computed", ratio)
    names = [r["name"] for r in rows if r["name"].startswith("all of")]
    if names:
        ratio = over(rows, "padding computed", names[-1])
        yield from number(f"time of computed over {names[-1]}, most systems", 1, ratio)
    rows = result["rows"]
    skipped, computed = (bandwidth(rows, f"padding {k}") for k in ("skipped", "computed"))
    if skipped and computed:
        yield from number("bandwidth, computed over skipped", 70 / 28, computed / skipped)


def claims_14(result: dict[str, Any]) -> Iterator[Claim]:
    rows = result["rows"]
    panels = list(dict.fromkeys(r["panel"] for r in rows))
    yield from number("level by level, at best", 25, best(rows, "levels"))
    yield from number("full-interleaved (mono), at best", 12, best(rows, FULL))
    gains = {p: over(rows, FULL, "levels", panel=p) for p in panels}
    measured = {p: g for p, g in gains.items() if g is not None}
    yield from number(
        "time of mono over level by level, most cells, at best", 2, max(measured.values())
    )
    times = {p: at(rows, "levels", "seconds", panel=p) for p in measured}
    if "4 levels" in times:
        fastest = min(times, key=lambda p: times[p] or 0)
        said = "fastest number of levels, most cells"
        yield Claim(said, "4", fastest.split()[0], fastest == "4 levels")


CLAIMS: dict[str, Claims] = {
    "batch-3": claims_3,
    "batch-4": claims_4,
    "batch-5": claims_5,
    "batch-6": claims_6,
    "batch-9": claims_9,
    "batch-10": claims_chains,
    "batch-11": claims_chains,
    "batch-12": claims_12,
    "batch-13": claims_13,
    "batch-14": claims_14,
}


def of_result(result: dict[str, Any], known: dict[str, Claims] | None = None) -> str:
    make = (known or CLAIMS).get(result["figure"])
    return "" if make is None else text(make(result))

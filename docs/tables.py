"""Tables of pages, printed from the JSON of `bench/results` when the site is built.

A page has a table without its numbers:

    | copies | clhines :: name=clhines* | NEURON :: name=NEURON* |
    | 1 :: copies=1 |
    | 16 :: copies=16 |

Behind `::` stand the conditions of a line or of a column, set apart by semicolons. A cell of the
table is taken from the first row of the result that meets the conditions of its line and of its
column; `*` at the end of a text stands for any text. Three words are no conditions: `show` is the
field that is shown (`show=seconds*1e6`, `show=agreement.whole.neuron:,`), `file` another result,
and `in` the list of the result that has the rows. A column without `::` has plain text.
"""

from __future__ import annotations

import functools
import json
import math
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from clhines.neuron.switch import cost

RESULTS = Path(__file__).parents[1] / "bench/results"
SEGMENTS = 1, 10, 100, 1000, 10_000, 100_000
HH_TEXT = 3000  # characters of hh.mod
SHOWN = re.compile(r"(?P<field>[^*:]+)(?:\*(?P<factor>[\d.e-]+))?(?::(?P<form>.+))?")


class TableError(ValueError):
    """A table cannot be printed from its result."""


@functools.cache
def result_of(name: str) -> dict[str, Any]:
    """Read a JSON file of `bench/results`."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        raise TableError(f"{name}: no such file in bench/results")
    result: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return result


def rows_of(name: str, only: str = "") -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a result: of one of its lists, or of all."""
    for key, value in result_of(name).items():
        if isinstance(value, list) and (key == only if only else True):
            yield from (row for row in value if isinstance(row, dict))


def conditions(text: str) -> dict[str, str]:
    """Return the conditions of a line or column by name."""
    parts = [part.strip().partition("=") for part in text.split(";") if part.strip()]
    for name, equals, _ in parts:
        if not equals:
            raise TableError(f"{name!r} is no condition; expected NAME=VALUE")
    return {name.strip(): value.strip() for name, _, value in parts}


def meets(value: object, wanted: str) -> bool:
    """Whether a field of a row meets a condition."""
    if isinstance(value, str):
        return value.startswith(wanted[:-1]) if wanted.endswith("*") else value == wanted
    if isinstance(value, bool) or value is None:
        return str(value).lower() == wanted.lower()
    try:
        return float(str(value)) == float(wanted)
    except ValueError:
        return False


def shown(row: Mapping[str, Any], how: str) -> str:
    """Return a field of a row as text; `-` if the row lacks it."""
    match = SHOWN.fullmatch(how)
    if match is None:
        raise TableError(f"show={how}: expected FIELD, FIELD*FACTOR or FIELD:FORMAT")
    value: Any = row
    field = match["field"]
    while isinstance(value, Mapping) and field:  # a name of a field may have points itself
        name, _, more = (field, "", "") if field in value else field.partition(".")
        value, field = value.get(name), more
    if value is None:
        return "-"
    if match["factor"]:
        value = value * float(match["factor"])
    if match["form"]:
        return format(value, match["form"])
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def cell(given: Mapping[str, str]) -> str:
    """Return the text of one cell from the conditions of its line and column."""
    wanted = {k: v for k, v in given.items() if k not in ("file", "show", "in")}
    for row in rows_of(given["file"], given.get("in", "")):
        if all(k in row and meets(row[k], v) for k, v in wanted.items()):
            return shown(row, given["show"])
    return "-"


@functools.cache
def changes(commit: str) -> str:
    """Return how many commits have changed kernels since; `?` if git cannot tell.

    Of several commits of one result the oldest counts.
    """
    counts = []
    for found in re.findall(r"\b[0-9a-f]{7,12}\b", commit):
        words = ["git", "rev-list", "--count", f"{found}..HEAD", "--", "kernels"]
        try:
            done = subprocess.run(
                words, cwd=RESULTS.parents[1], capture_output=True, text=True, check=False
            )
        except OSError:
            return "?"
        if done.returncode:
            return "?"
        counts.append(int(done.stdout))
    return str(max(counts)) if counts else "-"


def split(line: str) -> list[tuple[str, dict[str, str] | None]]:
    """Return the cells of a line: texts, and conditions by name, or None."""
    cells = [part.partition("::") for part in line.strip().strip("|").split("|")]
    return [(text.strip(), conditions(more) if mark else None) for text, mark, more in cells]


def printed(name: str, where: str, lines: list[str]) -> list[str]:
    """Return a table of a page as lines of Markdown, with its numbers.

    Parameters
    ----------
    name : str
        Of the result, a file of `bench/results` without ending.
    where : str
        Conditions of all cells.
    lines : list of str
        The head and the lines of the table, as the page has them.
    """
    always = {"file": name, **conditions(where)}
    head, *others = [split(line) for line in lines if line.strip()]
    columns = [given for _, given in head if given is not None]
    labels = len(head) - len(columns)
    table = [[text for text, _ in head], ["---"] * labels + ["---:"] * len(columns)]
    for line in others:
        texts, of_line = [text for text, _ in line], line[-1][1] or {}
        numbers = [cell({**always, **given, **of_line}) for given in columns]
        if len(texts) != labels or not set(numbers) - {"-"}:
            raise TableError(f"{name}: no number for the line {texts[0]!r}")
        table.append([*texts, *numbers])
    return [f"| {' | '.join(line)} |" for line in table]


def break_even(segments: int, is_compiled: bool, dt: float = 0.025) -> tuple[float, float]:
    """Return NEURON's seconds for 1 s of model time, and the shortest run that the device wins, ms.

    The switch's estimates for a cell with `hh` in each segment; infinite if NEURON always wins.
    """
    counts = cost.Counts(segments, (("hh", segments),), (("", HH_TEXT),), 0)
    with mock.patch.object(cost, "machine_factor", lambda: 1.0):

        def ledger() -> cost.Ledger:
            begin = counts.begin(is_compiled) + cost.MODULES
            return cost.Ledger(counts, {}, cost.Times(device_begin=begin), is_compiled)

        steps = 1
        while steps < 1 << 30 and not ledger().device_is_sooner(steps):
            steps *= 2
        low = steps // 2
        while steps - low > 1:
            middle = (low + steps) // 2
            low, steps = (low, middle) if ledger().device_is_sooner(middle) else (middle, steps)
        return 1000 / dt * ledger().neuron_step, steps * dt if steps < 1 << 30 else math.inf


def break_even_table() -> list[str]:
    """Return the lines of the table of `break_even`."""
    lines = ["| segments | NEURON, s per s | first run, from ms | next run, from ms |"]
    lines.append("| ---: | ---: | ---: | ---: |")
    for segments in SEGMENTS:
        (seconds, first), (_, later) = (break_even(segments, known) for known in (False, True))
        times = " | ".join("never" if math.isinf(t) else f"{t:,.0f}" for t in (first, later))
        lines.append(f"| {segments:,} | {float(f'{seconds:.2g}'):g} | {times} |")
    return lines

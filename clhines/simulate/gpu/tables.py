"""Tables of .mod files in epochs of networks with exact times: functions that read them in vectors.

A lane finds the row of its voltage once for each mechanism and loads that row and the next one as
a whole, before anything is computed. Mechanisms whose tables are of one range share the row: the
compiler sees one expression. Where a rate is 1/tau, with tau of a table, ``exp(-dt/tau) - 1`` is a
polynomial of only as many terms as the least tau of the table asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import factorial, log

import numpy as np

from clhines.simulate.gpu.rates import coefficients

_LINE = r"(?m)^    const real (\w+) = ([^;]+);\n"
_TURN = re.compile(r"node_grown_\(series__, (\w+) \* dt\)")
_INVERSE = re.compile(r"1\.0f? (?:\* node_inverse_\((\w+)\)|/ (\w+))")


def with_rows(source: str, prefix: str) -> str:
    """Return functions of `side_by_side` that load two rows of a table as a whole.

    Parameters
    ----------
    prefix : str
        Of the functions' names.
    """
    own = rf"(?m)^static \w+ {re.escape(prefix)}_(?:lookup|place)_\("
    functions = re.split(r"(?<=\n}\n)\n", source)
    return "\n".join(_with_rows(f, prefix) for f in functions if not re.search(own, f))


def _with_rows(function: str, prefix: str) -> str:
    """Return a function in which places are rows, and all loads come right after them."""
    own = re.escape(prefix)
    lookup = re.compile(rf"{own}_lookup_\(series__,\s+(\w+),\s+(\w+),\s+(\d+),\s+(\d+),\s+\d+\)")
    used = {(m[1], m[2], int(m[3]), int(m[4])) for m in lookup.finditer(function)}

    def column(found: re.Match[str]) -> str:
        at, low, high = _names(found[1], found[2])
        number, width = int(found[3]), _width(int(found[4]))
        vector, part = divmod(number, width)
        end = f"_{vector}.s{part}" if width > 1 else f"_{vector}"
        return f"node_between_({at}.share, {low}{end}, {high}{end})"

    def loads(found: re.Match[str]) -> str:
        at = f"{found[1]}__at"
        lines = [f"const node_row_ {at} = node_row_of_({found[2]}, {found[3]});"]
        for table in sorted({table for place, table, _, _ in used if place == found[1]}):
            _, low, high = _names(found[1], table)
            columns = next(c for p, t, _, c in used if (p, t) == (found[1], table))
            width = _width(columns)
            sort = f"real{width}" if width > 1 else "real"
            numbers = {n for p, t, n, _ in used if (p, t) == (found[1], table)}
            for vector in sorted({number // width for number in numbers}):
                for name, row in ((low, f"{at}.row"), (high, f"({at}.row + 1)")):
                    where = f"{table} + {row} * {columns} + {vector * width}"
                    lines.append(f"const {sort} {name}_{vector} = node_load{width}_({where});")
        return "    " + "\n    ".join(lines)

    place = rf"(?m)^    const real (\w+) = {own}_place_\(series__,\s+([^;]+),\s+(\d+)\);"
    return lookup.sub(column, re.sub(place, loads, function))


def _names(place: str, table: str) -> tuple[str, str, str]:
    """Names of a row, and of what is loaded from it and from the next one."""
    return f"{place}__at", f"{place}__low_{table}", f"{place}__high_{table}"


def _width(columns: int) -> int:
    """Numbers that one load takes of a row."""
    return next(width for width in (4, 2, 1) if columns % width == 0)


def with_few_terms(
    source: str, prefix: str, tables: Mapping[str, np.ndarray], dt: float, real: str
) -> str:
    """Return functions of `side_by_side` whose exponentials have the terms that tables ask for.

    Parameters
    ----------
    prefix : str
        Of the functions' names.
    tables : dict of str to (rows, columns) float64
        Of a mechanism.
    dt : float
        Of all steps, ms.
    real : str
        ``double`` or ``float``.
    """
    lookup = re.compile(rf"{re.escape(prefix)}_lookup_\(series__,\s+\w+,\s+(\w+)__table,\s+(\d+),")

    def of_function(function: str) -> str:
        known = dict(re.findall(_LINE, function))

        def turn(found: re.Match[str]) -> str:
            inverse = _INVERSE.fullmatch(known.get(known.get(found[1], "").removeprefix("-"), ""))
            tau = lookup.match(known.get((inverse[1] or inverse[2]) if inverse else "", ""))
            if tau is None or not known[found[1]].startswith("-"):
                return found[0]
            number = terms(dt, tables[tau[1]][:, int(tau[2])], real)
            return found[0].replace("grown_", f"grown_{number}_", 1) if number else found[0]

        return _TURN.sub(turn, function)

    return "\n".join(map(of_function, re.split(r"(?<=\n}\n)\n", source)))


def terms(dt: float, tau: np.ndarray, real: str) -> int:
    """Count the terms of ``(exp(-x) - 1) / x`` for ``x = dt/tau``; 0 where x can be too large.

    >>> terms(0.025, np.array([1.0, 2.0]), "double"), terms(0.025, np.array([0.01, 2.0]), "double")
    (8, 0)
    """
    if not (tau > 0).all():
        return 0
    most = dt / float(tau.min()) * (1 + 1e-6)
    if not most < log(2) / 2:
        return 0
    eps = float(np.finfo(np.float64 if real == "double" else np.float32).eps)
    every = sum(name.startswith("exp_") for name in coefficients(real))
    enough = (n for n in range(1, every) if most**n / factorial(n + 1) < eps / 4)
    return next(enough, every)


def counts_of_terms(sources: Iterable[str]) -> tuple[int, ...]:
    """Numbers of terms that functions of `with_few_terms` ask for, ascending."""
    found = (re.findall(r"node_grown_(\d+)_\(", source) for source in sources)
    return tuple(sorted({int(n) for numbers in found for n in numbers}))

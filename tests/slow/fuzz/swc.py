"""SWC files for the fuzz: lawful and mutated ones, a strict reader of its own, and areas."""

import math
import os
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np

from bench.measures.fuzz.common import WrongError, check_refusal, pick, shortened
from clhines.core.errors import ClhinesError, InputError, MorphologyError
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.swc import read_swc

REAL = Path(
    os.environ.get("CLHINES_MORPHOLOGIES")
    or Path(__file__).resolve().parents[3] / ".." / "shared" / "morphologies"
)
NUMBERS = """nan NaN inf -inf infinity 1e400 -1e400 1e-400 1e308 -1e308 1e39 1e38 1e30 1e19 1e9 1e6
    1e-9 1e-30 1e-45 1e-310 0 -0 0.0 00 -1 -2 1 2 3 1. .5 . - + +1 --1 1e 1e5 1E5 1e+0 1.0e+00 1_0
    0x10 1,5 1.5.5 2147483647 2147483648 9223372036854775807 9223372036854775808
    -9223372036854775809 1e18 1e999999999 1e-999999999 abc ?""".split()
NUMBERS += ["9" * 30, "9" * 400, "9" * 5000, "0." + "3" * 5000, "１", "٣", "−1", "½", "1\u00a0"]
RADIUS_TOLERANCE = 2e-5  # points are in single precision
_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
NODE_BYTES = 256  # allowed for each node of an accepted cell, beyond the limit for every case
_FOLDER = Path(".")
_NODES = [0]  # nodes of the cells accepted in a case


@dataclass(frozen=True)
class Case:
    data: bytes
    max_length: float | None
    roots: str
    path: str = ""  # in place of a file with `data`


# ---------------------------------------------------------------------------------- generation


def generate(rng):
    lines = _base(rng)
    many = int(pick(rng, [0, 0, 1, 1, 1, 2, 3, 4]))
    for _ in range(many):
        lines = pick(rng, LINE_MUTATIONS)(rng, lines or [""])
    end = pick(rng, ["\n"] * 6 + ["\r\n", "\r", "\n\n", "\n\r", "\x0b", "\x85", "\u2028"])
    last = end if rng.random() < 0.8 else ""
    data = (end.join(lines) + last).encode("utf-8", "surrogateescape")
    if rng.random() < 0.25:
        data = pick(rng, BYTE_MUTATIONS)(rng, data)
    length = pick(rng, [None, None, 5.0, 20.0, 100.0, 1e9, 1.0, 0.01])
    roots = "split" if rng.random() < 0.2 else "refuse"
    path = ""
    if rng.random() < 0.02:
        path = pick(rng, ["absent.swc", ".", "/dev/null", "/dev/zero", "", "a\0b", "x\ny.swc", "~"])
    return Case(data, length, roots, path)


def _base(rng):
    files = sorted((REAL / "good").glob("*.swc")) + sorted((REAL / "bad").glob("*.swc"))
    if files and rng.random() < 0.3:
        text = pick(rng, files).read_bytes().decode("utf-8", "surrogateescape")
        lines = text.splitlines()
        return lines[: int(rng.integers(5, 120))]
    return ["# made up", *_tree(rng)]


def _tree(rng):
    r = round(float(rng.uniform(3, 12)), 2)
    form = pick(rng, ["one", "one", "one", "three", "discs", "none", "outline"])
    rows = []
    if form in ("one", "three", "discs"):
        rows.append((1, 1, 0, 0, 0, r, -1))
    if form == "three":
        rows += [(2, 1, 0, -r, 0, r, 1), (3, 1, 0, r, 0, r, 1)]
    if form == "discs":
        rows += [(2, 1, 0, r, 0, 0.8 * r, 1), (3, 1, 0, 2 * r, 0, 0.5 * r, 2)]
    if form == "outline":
        rows = [
            (k + 1, 1, r * math.cos(k), r * math.sin(k), 0.0, 0.0, k if k else -1) for k in range(6)
        ]
    for _ in range(int(rng.integers(1, 5))):
        _neurite(rng, rows, r)
    return [f"{a[0]} {a[1]} {a[2]:.6g} {a[3]:.6g} {a[4]:.6g} {a[5]:.6g} {a[6]}" for a in rows]


def _neurite(rng, rows, r):
    kind = int(rng.integers(2, 5)) if rows else 2
    start = rng.normal(size=3)
    at = start / np.linalg.norm(start) * r
    above = 1 if rows else -1
    ends = [(at, above)]
    for k in range(int(rng.integers(1, 5))):
        place, above = pick(rng, ends) if k else ends[0]
        for _ in range(int(rng.integers(2, 6))):
            place = place + rng.normal(size=3) * 8
            number = len(rows) + 1
            radius = round(float(rng.uniform(0.2, 2)), 3)
            rows.append((number, kind, *(float(x) for x in place), radius, above))
            above = number
        ends.append((place, above))


def _row(rng, lines):
    return int(rng.integers(len(lines)))


def _set_number(rng, lines):
    k, fields = _row(rng, lines), []
    fields = lines[k].split()
    if not fields:
        return lines
    fields[int(rng.integers(len(fields)))] = pick(rng, NUMBERS)
    return [*lines[:k], " ".join(fields), *lines[k + 1 :]]


def _set_field(rng, lines, column, values):
    k = _row(rng, lines)
    fields = lines[k].split()
    if len(fields) != 7:
        return lines
    fields[column] = pick(rng, values)
    return [*lines[:k], " ".join(fields), *lines[k + 1 :]]


def _set_radius(rng, lines):
    return _set_field(rng, lines, 5, ["0", "-1", "1e-30", "1e9", "1e6", "1e38", "1e-3", "100"])


def _set_parent(rng, lines):
    return _set_field(rng, lines, 6, ["-1", "1", "2", "5", str(len(lines)), "-2", "0", "7"])


def _set_type(rng, lines):
    return _set_field(rng, lines, 1, ["0", "1", "1", "1", "2", "3", "4", "5", "-1", "99"])


def _set_place(rng, lines):
    k, j = _row(rng, lines), _row(rng, lines)
    a, b = lines[k].split(), lines[j].split()
    if len(a) != 7 or len(b) != 7:
        return lines
    return [*lines[:k], " ".join([*a[:2], *b[2:5], *a[5:]]), *lines[k + 1 :]]


def _far(rng, lines):
    return _set_field(
        rng, lines, int(rng.integers(2, 5)), ["1e6", "1e9", "1e15", "1e30", "3e38", "1e-40", "1e39"]
    )


def _permuted(rng, lines):
    return [lines[k] for k in rng.permutation(len(lines))]


def _dropped(rng, lines):
    k = _row(rng, lines)
    return lines[:k] + lines[k + 1 :]


def _doubled(rng, lines):
    k = _row(rng, lines)
    return [*lines[:k], lines[k], *lines[k:]]


def _columns(rng, lines):
    k = _row(rng, lines)
    new = pick(rng, [lines[k] + " 1", lines[k].rpartition(" ")[0], "", "1", "#", lines[k] * 2])
    return [*lines[:k], new, *lines[k + 1 :]]


def _commented(rng, lines):
    k = _row(rng, lines)
    note = pick(rng, [" # é日本", "#", " #\x00\x01", " # \udcff", "\t#x", " // x", " ; x"])
    return [*lines[:k], lines[k] + note, *lines[k + 1 :]]


LINE_MUTATIONS = [
    _set_number, _set_number, _set_number, _set_radius, _set_parent, _set_type, _set_type,
    _set_place, _far, _permuted, _dropped, _doubled, _columns, _commented,
    lambda rng, lines: lines[::-1], lambda rng, lines: [line.replace(" ", "\t ") for line in lines],
]  # fmt: skip


def _flipped(rng, data):
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        if changed:
            changed[int(rng.integers(len(changed)))] = int(rng.integers(256))
    return bytes(changed)


BYTE_MUTATIONS = [
    _flipped, _flipped,
    lambda rng, data: data[: int(rng.integers(len(data) + 1))],
    lambda rng, data: b"\xef\xbb\xbf" + data,
    lambda rng, data: b"\xff\xfe" + data.decode("latin-1").encode("utf-16-le"),
    lambda rng, data: data.replace(b"\n", b"\0"),
    lambda rng, data: data + b"\x1a",
    lambda rng, data: bytes(rng.integers(0, 256, 200, dtype=np.uint8)),
    lambda rng, data: b"",
    lambda rng, data: b"#" * 100_000 + b"\n" + data,
    lambda rng, data: b" " * 100_000 + data,
    lambda rng, data: data + b"1 " * 200_000,
]  # fmt: skip


# ------------------------------------------------------------------------------ reader of its own


def read_plainly(data):
    """Return samples by the documented rules, an error, or None if the rules are silent."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    rows = []
    for line in re.split(rb"\r\n|\n|\r", data.removeprefix(b"\xef\xbb\xbf")):
        text = line.partition(b"#")[0]
        if re.search(rb"[\x0b\x0c\x1c-\x1f]", text):
            return None  # documented are spaces and tabs
        fields = text.split()
        if not fields:
            continue
        if len(fields) != 7:
            return "columns"
        if not all(_NUMBER.fullmatch(f) for f in fields):
            return "not a number"
        if any(len(f) > 300 or abs(int(f.lower().partition(b"e")[2] or 0)) > 10**6 for f in fields):
            return None if all(_is_finite(f) for f in fields[2:6]) else "not finite"
        whole = [Decimal(fields[k].decode()) for k in (0, 1, 6)]
        if any(w != w.to_integral_value() or not -(2**63) <= w < 2**63 for w in whole):
            return "not whole"
        real = [float(f) for f in fields[2:6]]
        if not all(map(math.isfinite, real)) or whole[0] < 0:
            return "not finite or negative"
        rows.append((int(whole[0]), int(whole[1]), *real, int(whole[2])))
    return rows or "no samples"


def _is_finite(field):
    return math.isfinite(float(field))


def tree_problem(rows, roots):
    """Return the error in the tree of some samples, or nothing."""
    ids = {row[0]: k for k, row in enumerate(rows)}
    if len(ids) < len(rows):
        return "repeated id"
    if any(row[6] != -1 and row[6] not in ids for row in rows):
        return "absent parent"
    tops = sum(row[6] == -1 and -1 not in ids for row in rows)
    seen = set()
    for row in rows:
        path, here = set(), row[0]
        while here != -1 and here not in seen:
            if here in path:
                return "cycle"
            path.add(here)
            here = rows[ids[here]][6]
        seen |= path
    return "several roots" if tops > 1 and roots == "refuse" else ""


# -------------------------------------------------------------------------------------- checks


def most_memory(case):
    """Return the bytes that a case may take: over 200 MiB for large accepted cells."""
    return (200 << 20) + NODE_BYTES * _NODES[0]


def prepare(folder):
    global _FOLDER
    _FOLDER = folder


def check(case):
    _NODES[0] = 0
    path = case.path or str(_FOLDER / "case.swc")
    if not case.path:
        Path(path).write_bytes(case.data)
    plain = None if case.path else read_plainly(case.data)
    problem = plain if isinstance(plain, str) else tree_problem(plain, case.roots) if plain else ""
    try:
        cells = read_swc(path, roots=case.roots)
    except ClhinesError as error:
        text = check_refusal(error, hide=[path])
        if case.path:
            return "refused"
        if not isinstance(error, MorphologyError) or not re.match(
            re.escape(path) + r":\d+: ", text
        ):
            raise WrongError(f"refusal without file:line: {shortened(text)}") from None
        if plain is not None and not problem:
            raise WrongError(f"lawful file refused: {shortened(text)}") from None
        return "refused"
    if problem:
        raise WrongError(f"accepted although: {problem}")
    cells = cells if isinstance(cells, list) else [cells]
    if plain is not None and not isinstance(plain, str):
        _check_samples(cells, plain)
    return "accepted" if all([_check_cell(cell, case, path) for cell in cells]) else "refused"


def _check_samples(cells, rows):
    """Check that every sample appears unchanged, once, in the order of the file within its cell."""
    by_id = {row[0]: row for row in rows}
    if sum(len(c.id) for c in cells) != len(rows):
        raise WrongError("samples lost or made up")
    for cell in cells:
        for k, number in enumerate(cell.id.tolist()):
            _, kind, x, y, z, r, parent = by_id[number]
            got = (*cell.xyz[k].tolist(), float(cell.radius[k]), int(cell.type[k]))
            up = int(cell.parent[k])
            if got != (x, y, z, r, kind) or (int(cell.id[up]) if up >= 0 else -1) != parent:
                raise WrongError(f"another sample than written: id {number}: {got}")


def _check_cell(cell, case, path):
    """Discretise a cell; return whether it was accepted."""
    try:
        cable = discretise(cell, max_length=case.max_length)
    except ClhinesError as error:
        text = check_refusal(error, hide=[path])
        if not isinstance(error, InputError) and path not in text:
            raise WrongError(f"refusal without file: {shortened(text)}") from None
        return False
    n, parent = cable.num_nodes, cable.parent
    _NODES[0] += n
    if parent[0] != -1 or (
        n > 1 and not ((parent[1:] >= 0) & (parent[1:] < np.arange(1, n))).all()
    ):
        raise WrongError("nodes are no tree with parents first")
    for name in ("area", "g_axial", "xyz", "capacitance"):
        array = getattr(cable, name)
        if not np.isfinite(array).all():
            raise WrongError(f"not finite: {name} of an accepted cell")
    if (cable.area < 0).any() or not cable.area.sum() > 0 or (cable.g_axial < 0).any():
        raise WrongError("negative or no area or conductance of an accepted cell")
    if n > 1 and (cable.g_axial[1:] == 0).any():
        raise WrongError("nodes without a connection in an accepted cell")
    _check_matrix(cable)
    expected = plain_area(cell)
    if expected is not None:
        got = float(cable.area.sum())
        if abs(got - expected) > RADIUS_TOLERANCE * expected:
            raise WrongError(f"area: got {got:.8g}, expected {expected:.8g} um2")
    return True


def _check_matrix(cable):
    system = cable.system(0.025)
    d, u, parent = system.d, system.u, cable.parent
    off = np.abs(u)
    inner = np.flatnonzero(parent >= 0)
    rows = np.where(parent >= 0, off, 0) + np.bincount(
        parent[inner], off[inner], minlength=len(parent)
    )
    if not (np.isfinite(d).all() and np.isfinite(u).all() and np.isfinite(system.constant).all()):
        raise WrongError("not finite: the matrix of an accepted cell")
    if not (d > 0).all() or (d < rows * (1 - 1e-12)).any():
        raise WrongError("the matrix is not diagonally dominant")


def plain_area(cell):
    """Return the area of a simple cell, um2: at most one spherical soma sample, plain neurites.

    Return None for other cells, whose rules differ in more than this.
    """
    parent, kind, r, xyz = cell.parent, cell.type, cell.radius.tolist(), cell.xyz
    roots, n = [k for k, p in enumerate(parent.tolist()) if p < 0], len(parent)
    if len(roots) != 1 or n > 500 or not (cell.radius > 0).all():
        return None
    soma = kind == 1
    top = roots[0]
    if soma.sum() != 1 or not soma[top] or len(set(kind[~soma].tolist())) > 1:
        return None
    if np.abs(xyz).max() > 1e4 or max(r) > 1e3 or min(r) < 1e-3:
        return None
    children = np.bincount(parent[parent >= 0], minlength=n)
    total = 4 * math.pi * r[top] ** 2
    for k, up in enumerate(parent.tolist()):
        if up < 0:
            continue
        height = float(np.linalg.norm(xyz[k] - xyz[up]))
        if up == top:
            if children[k] != 1:
                return None  # a section of one sample at the soma
            continue
        if height < 1e-3:
            return None
        total += math.pi * (r[k] + r[up]) * math.hypot(height, r[k] - r[up])
    return total

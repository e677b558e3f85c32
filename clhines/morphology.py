"""Cells as they were measured: strict SWC reading and seeded synthetic trees.

Three kinds of cells come from here: :func:`read_swc` reads reconstructions, :func:`ring_cell` and
:func:`sample_cells` make up cells with coordinates and radii, and the rest (:func:`chain` ...
:func:`random_binary_tree`) are bare parent arrays for tests and benchmarks of the solvers.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from math import isfinite
from pathlib import Path
from typing import Literal, NoReturn, overload

import numpy as np

from clhines.checks import shown
from clhines.errors import InputError, MorphologyError
from clhines.files import path_text

Row = tuple[int, int, int, float, float, float, float]
Seed = int | np.random.Generator

_COLUMNS = ("id", "type", "x", "y", "z", "radius", "parent")
_INT64_END = 2**63
_MAX_NODES = 2**31 - 1  # parent arrays are int32
_MAX_BRANCHES = 2**22  # of a synthetic cell
MAX_FILE = 64  # MiB of an SWC file, a million samples
_MAX_LINES = 2**22


@dataclass(frozen=True, eq=False)
class Morphology:
    """One cell as a tree of samples, in the order of its file.

    Attributes
    ----------
    parent : (n,) int64
        Index of the parent sample in these arrays, -1 at the root; any order.
    xyz : (n, 3) float64, µm
        Position of each sample.
    radius : (n,) float64, µm
        Radius of each sample; may be zero or negative as read (`cable` refuses those).
    type : (n,) int64
        SWC type code (1 soma, 2 axon, 3 basal, 4 apical dendrite; others kept).
    id : (n,) int64
        Sample identifiers as written in the file.
    line : (n,) int64
        Line number of each sample in the file, from 1; 0 where there is no file.
    name : str
        File name or a label, for messages.
    repaired : (k,) int64
        Indices of the samples whose radius `read_swc` has interpolated; none without ``repair``.
    """

    parent: np.ndarray
    xyz: np.ndarray
    radius: np.ndarray
    type: np.ndarray
    id: np.ndarray
    line: np.ndarray
    name: str = "cell"
    repaired: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))


# ---------------------------------------------------------------------------------- SWC files


@overload
def read_swc(
    path: str | os.PathLike[str],
    roots: Literal["refuse"] = "refuse",
    repair: Literal["zero-radius"] | None = None,
) -> Morphology: ...


@overload
def read_swc(
    path: str | os.PathLike[str],
    roots: Literal["split"],
    repair: Literal["zero-radius"] | None = None,
) -> list[Morphology]: ...


def read_swc(
    path: str | os.PathLike[str],
    roots: Literal["refuse", "split"] = "refuse",
    repair: Literal["zero-radius"] | None = None,
) -> Morphology | list[Morphology]:
    """Read an SWC file and refuse whatever is not a tree of finite numbers.

    A sample is a line of seven columns, ``id type x y z radius parent``; blank lines and
    everything from ``#`` to the end of a line are skipped. Accepted: LF, CRLF and CR line ends, a
    UTF-8 byte-order mark, any bytes in comments, spaces and tabs, no newline at the end, ids from
    0 up in any order and with gaps, any type code, any number of children, parents after their
    children, and whole numbers written as floats (``1.0000000e+000``), which are read exactly.

    Parameters
    ----------
    path : str or path-like
        The file.
    roots : {"refuse", "split"}
        What to do with several roots (parent -1): refuse the file, or read one cell a root.
    repair : {"zero-radius"}, optional
        Interpolate radii of 0 inside neurites (`clhines.repair.zero_radii`), which would be refused
        where a matrix is built. Each one is told by a `RepairWarning`, with file, line, sample and
        new radius, and listed in `Morphology.repaired`.

    Returns
    -------
    Morphology or list of Morphology
        The cell, samples in the order of the file, lengths in µm (as the file has them); its
        `name` is `path` as given. With ``roots="split"`` a list with one cell a root, in the
        order of the roots in the file, even where there is only one root; all have the same
        `name`, so that ``name:line`` still finds a sample in the file.

    Raises
    ------
    MorphologyError
        The file cannot be read (message ``file: ...``) or is malformed (message
        ``file:line: ...``): not seven columns, not a number, not finite, an id that is negative
        or repeated, a parent that is absent, a cycle, several roots, no samples; or it is larger
        than 64 MiB or 4,194,304 lines.
    InputError
        `roots` is neither "refuse" nor "split", or `repair` is not known.

    Warns
    -----
    RepairWarning
        For each sample that was repaired.

    Notes
    -----
    Every sample is kept as it is written. Radii of zero and below and samples at their parent's
    place are read, and judged where a matrix is built. The soma too is kept as samples: that
    the two outer samples of a 3-point soma (NeuroMorpho.Org) stand for a cylinder and not for two
    branches is known to `clhines.cable` only.
    """
    if roots not in ("refuse", "split"):
        raise InputError(f'roots is {shown(roots)}, expected "refuse" or "split"')
    from clhines.repair import REPAIRS, repaired  # which needs this module

    if repair is not None and repair not in REPAIRS:
        raise InputError(f'repair is {shown(repair)}, expected "zero-radius" or None')
    name = path_text(path)
    rows, line_list = _parse(_read_bytes(os.fspath(path), name), name)
    whole = np.array([row[:3] for row in rows], dtype=np.int64)
    real = np.array([row[3:] for row in rows], dtype=np.float64)
    line = np.array(line_list, dtype=np.int64)
    parent = _parent_indices(whole[:, 0], whole[:, 2], line, name)
    top = _root_of_each(parent, whole[:, 0], line, name)
    if roots == "refuse":
        _refuse_several_roots(parent, whole[:, 0], line, name)
    cell = Morphology(
        parent=parent,
        xyz=np.ascontiguousarray(real[:, :3]),
        radius=real[:, 3].copy(),
        type=whole[:, 1].copy(),
        id=whole[:, 0].copy(),
        line=line,
        name=name,
    )
    if roots == "refuse":
        return repaired(cell, repair)
    return [repaired(each, repair) for each in _split(cell, top)]


def _refuse(name: str, line: int, message: str) -> NoReturn:
    raise MorphologyError(f"{name}:{line}: {message}")


def _read_bytes(path: str, name: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_FILE * 2**20 + 1)  # of a pipe or a device the size is not known
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise MorphologyError(f"{name}: cannot be read: {reason}, expected an SWC file") from error
    if len(data) > MAX_FILE * 2**20:
        raise MorphologyError(
            f"{name}: is larger than {MAX_FILE} MiB, expected an SWC file of at most that"
        )
    lines = data.count(b"\n") + data.count(b"\r")
    if lines > _MAX_LINES:
        raise MorphologyError(f"{name}: has {lines} lines, expected at most {_MAX_LINES}")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        _refuse(name, 1, "a UTF-16 byte-order mark, expected ASCII or UTF-8")
    return data.removeprefix(b"\xef\xbb\xbf")


def _parse(data: bytes, name: str) -> tuple[list[Row], list[int]]:
    """Split the file into rows; bytes, because `str` knows line ends that SWC does not."""
    rows: list[Row] = []
    lines: list[int] = []
    number = 0
    for number, text in enumerate(data.splitlines(), 1):
        fields = text.partition(b"#")[0].split(None, 7)
        if not fields:
            continue
        if len(fields) != 7:
            columns, most = " ".join(_COLUMNS), 1000
            many = len(text.partition(b"#")[0].split(None, most))
            count = f"more than {most}" if many > most else str(many)
            got = _show(text.strip())
            _refuse(name, number, f"{count} columns in {got}, expected 7: {columns}")
        row = _row_quickly(fields)
        rows.append(_row_strictly(fields, number, name) if row is None else row)
        lines.append(number)
    if not rows:
        _refuse(name, max(number, 1), "no samples up to the end of the file, expected at least one")
    return rows, lines


def _row_quickly(fields: list[bytes]) -> Row | None:
    """Convert the usual row; None where `_row_strictly` has to look."""
    i, t, x, y, z, r, p = fields
    try:
        row = int(i), int(t), int(p), float(x), float(y), float(z), float(r)
    except ValueError:
        return None
    # Python alone reads 1_0 as 10. Eighteen digits fit into int64 whatever they are.
    if b"_" in b"".join(fields) or max(len(i), len(t), len(p)) > 18:
        return None
    return row if row[0] >= 0 and isfinite(row[3] + row[4] + row[5] + row[6]) else None


def _row_strictly(fields: list[bytes], line: int, name: str) -> Row:
    whole = {k: _whole(fields[k], _COLUMNS[k], line, name) for k in (0, 1, 6)}
    x, y, z, r = (_real(fields[k], _COLUMNS[k], line, name) for k in (2, 3, 4, 5))
    if whole[0] < 0:
        _refuse(name, line, f"id is {whole[0]}, expected 0 or more")
    return whole[0], whole[1], whole[6], x, y, z, r


def _whole(text: bytes, column: str, line: int, name: str) -> int:
    """Read a whole number exactly, also from 1.0e+00; never through a rounding float."""
    try:
        value = Decimal("nan") if b"_" in text else Decimal(text.decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        value = Decimal("nan")
    if not value.is_finite():
        _refuse(name, line, f"{column} is {_show(text)}, expected a whole number")
    # The size is tested first: int(Decimal("1e999999999")) would fill the memory.
    if not -_INT64_END <= value < _INT64_END:
        _refuse(name, line, f"{column} is {_show(text)}, expected a whole number of 64 bits")
    if value != value.to_integral_value():
        _refuse(name, line, f"{column} is {_show(text)}, expected a whole number")
    return int(value)


def _real(text: bytes, column: str, line: int, name: str) -> float:
    try:
        value = None if b"_" in text else float(text)
    except ValueError:
        value = None
    if value is None:
        _refuse(name, line, f"{column} is {_show(text)}, expected a number like -1.5")
    if not isfinite(value):
        _refuse(name, line, f"{column} is {_show(text)}, expected a finite number")
    return value


def _show(text: bytes) -> str:
    """Quote text of a file for a message: one line, printable, not long."""
    short = text if len(text) <= 40 else text[:37] + b"..."
    return ascii(short.decode("utf-8", "backslashreplace"))


def _parent_indices(
    ids: np.ndarray, parent_ids: np.ndarray, line: np.ndarray, name: str
) -> np.ndarray:
    """Turn parent ids into indices of samples; refuse repeated ids and absent parents."""
    order = np.argsort(ids, kind="stable")
    in_order = ids[order]
    repeats = order[1:][in_order[1:] == in_order[:-1]]
    if repeats.size:
        k = repeats.min()
        first = line[np.argmax(ids == ids[k])]
        _refuse(name, line[k], f"id {ids[k]} is that of line {first} again, expected unique ids")
    place = np.minimum(np.searchsorted(in_order, parent_ids), ids.size - 1)
    found = in_order[place] == parent_ids
    absent = np.flatnonzero(~found & (parent_ids != -1))
    if absent.size:
        k = absent[0]
        message = f"sample {ids[k]} has parent {parent_ids[k]}, which is absent, expected the id"
        _refuse(name, line[k], f"{message} of a sample or -1 for the root")
    return np.where(found, order[place], -1).astype(np.int64)


def _root_of_each(parent: np.ndarray, ids: np.ndarray, line: np.ndarray, name: str) -> np.ndarray:
    """Find the root of every sample by pointer doubling; refuse cycles."""
    n = parent.size
    top = np.where(parent < 0, np.arange(n), parent)
    for _ in range(n.bit_length()):  # 2**bit_length > n steps towards the root
        top = top[top]
    unrooted = parent[top] >= 0
    if unrooted.any():
        # So many steps from a sample without a root lead onto its cycle, and reach all of it.
        start = int(top[unrooted].min())
        _refuse(name, line[start], _describe_cycle(parent, ids, start))
    return top


def _describe_cycle(parent: np.ndarray, ids: np.ndarray, start: int) -> str:
    if parent[start] == start:
        return f"sample {ids[start]} is its own parent, expected another sample or -1 for the root"
    cycle = [start]
    while parent[cycle[-1]] != start:
        cycle.append(int(parent[cycle[-1]]))
    shown = " -> ".join(str(ids[k]) for k in cycle[:6]) + (" -> ..." if len(cycle) > 6 else "")
    return (
        f"sample {ids[start]} is on a cycle of {len(cycle)} samples, from child to parent {shown}"
        f" -> {ids[start]}, expected a tree"
    )


def _refuse_several_roots(parent: np.ndarray, ids: np.ndarray, line: np.ndarray, name: str) -> None:
    tops = np.flatnonzero(parent < 0)
    if tops.size > 1:
        first, second = tops[:2]
        _refuse(
            name,
            line[second],
            f"sample {ids[second]} is a second root (the first is sample {ids[first]} on line "
            f"{line[first]}), {tops.size} roots in all, expected 1 (or one cell a root, by "
            "roots='split', --roots split)",
        )


def _split(cell: Morphology, top: np.ndarray) -> list[Morphology]:
    """Divide a forest into its trees, samples still in the order of the file."""
    order = np.argsort(top, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(top[order])) + 1)
    place = np.empty_like(top)
    for group in groups:
        place[group] = np.arange(group.size)
    local = np.where(cell.parent < 0, -1, place[cell.parent])
    return [
        Morphology(
            parent=local[group],
            xyz=cell.xyz[group],
            radius=cell.radius[group],
            type=cell.type[group],
            id=cell.id[group],
            line=cell.line[group],
            name=cell.name,
        )
        for group in groups
    ]


# ------------------------------------------------------------------- synthetic parent arrays


def chain(n: int) -> np.ndarray:
    """Give the parents of a chain: each node is the only child of the one before.

    Parameters
    ----------
    n : int
        Number of nodes, 1 or more.

    Returns
    -------
    (n,) int32
        Parent of each node, -1 at the root, which is node 0; parents before children.

    Raises
    ------
    InputError
        `n` is not a whole number of 1 or more.
    """
    return np.arange(-1, _count("n", n) - 1, dtype=np.int32)


def star(n: int) -> np.ndarray:
    """Give the parents of a star: a root and ``n - 1`` leaves.

    Parameters
    ----------
    n : int
        Number of nodes, 1 or more.

    Returns
    -------
    (n,) int32
        Parent of each node, -1 at the root, which is node 0.

    Raises
    ------
    InputError
        `n` is not a whole number of 1 or more.
    """
    parent = np.zeros(_count("n", n), dtype=np.int32)
    parent[0] = -1
    return parent


def caterpillar(n: int) -> np.ndarray:
    """Give the parents of a caterpillar: a spine with one leaf at each spine node.

    Parameters
    ----------
    n : int
        Number of nodes, spine and leaves, 1 or more. Even nodes are the spine and odd nodes the
        leaves, so the last spine node has no leaf where `n` is odd.

    Returns
    -------
    (n,) int32
        Parent of each node, -1 at the root, which is node 0; parents before children.

    Raises
    ------
    InputError
        `n` is not a whole number of 1 or more.
    """
    node = np.arange(_count("n", n), dtype=np.int32)
    parent = np.where(node % 2 == 1, node - 1, node - 2).astype(np.int32)
    parent[0] = -1
    return parent


def complete_binary(levels: int) -> np.ndarray:
    """Give the parents of a complete binary tree of ``2**levels - 1`` nodes.

    Parameters
    ----------
    levels : int
        Levels of nodes, 1 (only the root) to 31.

    Returns
    -------
    (2**levels - 1,) int32
        Parent of each node, -1 at the root, which is node 0; parents before children.

    Raises
    ------
    InputError
        `levels` is not a whole number from 1 to 31.
    """
    levels = _count("levels", levels)
    if levels > 31:
        raise InputError(f"levels is {levels}, expected at most 31: node numbers are int32")
    node = np.arange(2**levels - 1, dtype=np.int32)
    return (node + 1) // 2 - 1  # (0 + 1) // 2 - 1 = -1: the root too


def random_tree(
    seed: Seed,
    levels: int,
    branching_probability: float | Sequence[float],
    compartments: int = 10,
    length_law: Literal["constant", "uniform", "geometric"] = "constant",
) -> np.ndarray:
    """Give the parents of a random tree of branches that split in two or end.

    Level 0 is one branch, its first node the root. A branch of level k either splits at its end
    into two branches of level k + 1, with the branching probability of level k, or ends there.
    The last level does not split. (In :func:`ring_cell` a branch that does not split goes on.)

    Parameters
    ----------
    seed : int or numpy.random.Generator
        The same seed gives the same tree.
    levels : int
        Most levels of branches, 1 or more.
    branching_probability : float or sequence of float
        Probability in [0, 1] that a branch splits; or one value a level, ``levels`` values or
        ``levels - 1``, as that of the last level is not used.
    compartments : int
        Mean number of nodes of a branch, 1 or more.
    length_law : {"constant", "uniform", "geometric"}
        Nodes of a branch: all alike; each number from 1 to ``2 * compartments - 1`` as likely; or
        geometric from 1 up.

    Returns
    -------
    (n,) int32
        Parent of each node, -1 at the root, which is node 0; parents before children, the nodes
        of a branch in a row, the branches level by level.

    Raises
    ------
    InputError
        An argument is out of range, or the tree has more nodes than int32 can number.
    """
    c = _count("compartments", compartments)
    rng = _generator(seed)
    branch_parent, _ = _grow(rng, levels, branching_probability, stems=1, unsplit_children=0)
    size = branch_parent.size
    if length_law == "constant":
        lengths = np.full(size, c, dtype=np.int64)
    elif length_law == "uniform":
        lengths = rng.integers(1, 2 * c, size=size)
    elif length_law == "geometric":
        lengths = rng.geometric(1.0 / c, size=size)
    else:
        expected = '"constant", "uniform" or "geometric"'
        raise InputError(f"length_law is {shown(length_law)}, expected {expected}")
    return _number_nodes(branch_parent, lengths, soma_nodes=0)


def random_binary_tree(num_nodes: int, num_branches: int, seed: Seed, stems: int = 4) -> np.ndarray:
    """Give the parents of a random neuron-like tree of a given size, for benchmarks.

    Node 0 is the soma, with up to `stems` stems. Random tips split in two until there are enough
    branches, and the nodes are shared out to the branches at random: at least one each, at
    least two where there are enough. 512 nodes in 50 branches is the usual case.

    A branch is a maximal unbranched chain, and the soma is one of its own when it has several
    stems. So k > 1 stems and s splits make ``1 + k + 2 * s`` branches, one stem ``1 + 2 * s``.

    Parameters
    ----------
    num_nodes : int
        Exact number of nodes, 1 or more.
    num_branches : int
        Number of branches, 1 or more. Met exactly by using as many stems as the parity allows. One
        branch fewer where no number of stems fits (an even number with less than three stems,
        or 2), and never more branches than there are nodes for.
    seed : int or numpy.random.Generator
        The same seed gives the same tree.
    stems : int
        Most stems at the soma, 1 or more.

    Returns
    -------
    (num_nodes,) int32
        Parent of each node, -1 at the root, which is node 0; parents before children, the nodes
        of a branch in a row.

    Raises
    ------
    InputError
        An argument is not a whole number of 1 or more, or `num_nodes` does not fit int32.
    """
    n = _count("num_nodes", num_nodes)
    stems = _count("stems", stems)
    most = n if stems > 1 else max(n - 1, 1)  # the soma cannot be a branch beside its only stem
    first, splits = _stems_and_splits(min(_count("num_branches", num_branches), most), stems)
    rng = _generator(seed)
    if n == 1:
        return np.full(1, -1, dtype=np.int32)
    branch_parent = [-1] * first
    tips = list(range(first))
    for draw in rng.random(splits).tolist():
        k = int(draw * len(tips))
        tip, size = tips[k], len(branch_parent)
        branch_parent += [tip, tip]
        tips[k] = size
        tips.append(size + 1)
    lengths = _share_out(rng, n - 1, len(branch_parent))
    return _number_nodes(np.array(branch_parent, dtype=np.int64), lengths, soma_nodes=1)


def _stems_and_splits(branches: int, stems: int) -> tuple[int, int]:
    """Choose stems (at most `stems`) and splits that make `branches` branches, or one fewer."""
    for total in (branches, branches - 1):
        for k in range(min(stems, total - 1), 1, -1):
            if (total - 1 - k) % 2 == 0:
                return k, (total - 1 - k) // 2
        if total % 2 == 1:
            return 1, (total - 1) // 2
    raise AssertionError("one of two neighbours is odd, and every odd number can be made")


def _share_out(rng: np.random.Generator, nodes: int, branches: int) -> np.ndarray:
    """Cut `nodes` into random lengths of at least one, at least two where there are enough."""
    least = 2 if nodes >= 2 * branches else 1
    cuts = np.empty(branches + 1, dtype=np.int64)
    cuts[0], cuts[-1] = 0, nodes - least * branches
    cuts[1:-1] = np.sort(rng.integers(0, cuts[-1] + 1, size=branches - 1))
    return np.diff(cuts) + least


def _grow(
    rng: np.random.Generator,
    levels: int,
    probability: float | Sequence[float],
    stems: int,
    unsplit_children: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Grow branches level by level; (num_branches,) int64 parent branch (-1) and level of each."""
    levels = _count("levels", levels)
    p = _probability_of_levels(probability, levels)
    parents = [np.full(stems, -1, dtype=np.int64)]
    total = 0
    for level in range(levels - 1):
        here = parents[-1].size
        children = np.where(rng.random(here) < p[level], 2, unsplit_children)
        parents.append(np.repeat(np.arange(total, total + here), children))
        total += here
        if total + parents[-1].size > _MAX_BRANCHES:
            message = f"{total + parents[-1].size} branches at level {level + 1} of {levels}"
            raise InputError(f"{message}, expected at most {_MAX_BRANCHES}")
        if parents[-1].size == 0:
            break
    sizes = [each.size for each in parents]
    return np.concatenate(parents), np.repeat(np.arange(len(sizes)), sizes)


def _number_nodes(branch_parent: np.ndarray, lengths: np.ndarray, soma_nodes: int) -> np.ndarray:
    """Lay out the nodes branch after branch; (n,) int32 parents.

    The branches hang at the end of their parent branch (which comes before them), those without
    one at the end of the `soma_nodes` nodes before all branches; with none there they are roots.
    """
    end = soma_nodes + np.cumsum(lengths)
    if end[-1] > _MAX_NODES:
        raise InputError(f"a tree of {end[-1]} nodes, expected at most {_MAX_NODES}")
    parent = np.arange(-1, end[-1] - 1, dtype=np.int32)
    parent[end - lengths] = np.where(branch_parent < 0, soma_nodes, end[branch_parent]) - 1
    return parent


def _count(name: str, value: int, least: int = 1) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or not least <= count <= _MAX_NODES:
        raise InputError(f"{name} is {shown(value)}, expected a whole number from {least}")
    return count


def _generator(seed: Seed) -> np.random.Generator:
    try:
        return np.random.default_rng(
            seed if isinstance(seed, np.random.Generator) else operator.index(seed)
        )
    except (TypeError, ValueError) as error:
        message = f"seed is {shown(seed)}, expected a whole number from 0 or a numpy Generator"
        raise InputError(message) from error


def _probability_of_levels(probability: float | Sequence[float], levels: int) -> np.ndarray:
    p = np.asarray(probability, dtype=np.float64)
    if p.ndim > 1 or (p.ndim == 1 and p.size not in (levels, levels - 1)):
        raise InputError(
            f"branching_probability has shape {p.shape}, expected one number or one a level, "
            f"{levels} or {levels - 1}"
        )
    if not ((p >= 0) & (p <= 1)).all():  # false for NaN too
        raise InputError(f"branching_probability is {shown(probability)}, expected 0 to 1")
    return np.broadcast_to(p, levels) if p.ndim == 0 else p


# ------------------------------------------------------------------ synthetic cells with shape


def ring_cell(
    levels: int,
    branching_probability: float | Sequence[float],
    compartments: int,
    seed: Seed,
    *,
    stems: int = 1,
    branch_lengths: tuple[float, float] = (200.0, 20.0),
    radii: tuple[float, float] = (1.0, 0.25),
    soma_radius: float = 6.3,
    name: str = "ring_cell",
) -> Morphology:
    """Make a cell of the ring-network benchmark (Huber 2018): random branches, shorter outwards.

    The stems at the soma are level 0. A branch splits at its end into two branches of the next
    level with the branching probability of its level, or else goes on as one; so every path from
    the soma to a tip has `levels` branches. Branches are straight; two siblings leave on opposite
    sides, 25 to 55 degrees off their parent, and one that goes on turns by at most 10 degrees.

    Parameters
    ----------
    levels : int
        Levels of branches, 1 or more.
    branching_probability : float or sequence of float
        Probability in [0, 1] that a branch splits; or one value a level, ``levels`` values or
        ``levels - 1``, as that of the last level is not used.
    compartments : int
        Samples a branch, 1 or more, at equal distances. A stem has one more, at the surface of
        the soma, so that it has its full length without the way from the centre.
    seed : int or numpy.random.Generator
        The same seed gives the same cell.
    stems : int
        Branches that leave the soma, 1 or more.
    branch_lengths : (float, float), µm
        Lengths of the branches of the first and the last level; linear in the level between.
    radii : (float, float), µm
        Radius at the soma and at the tips; linear along the path between.
    soma_radius : float, µm
        Radius of the soma, a single sample at the origin.
    name : str
        Label of the cell.

    Returns
    -------
    Morphology
        Parents before children, ids from 1, type 1 for the soma and 3 for the rest, lines 0.

    Raises
    ------
    InputError
        An argument is out of range.
    """
    c = _count("compartments", compartments)
    lengths, ends = _positive_pair("branch_lengths", branch_lengths), _positive_pair("radii", radii)
    (ball,) = _positive("soma_radius", [soma_radius], 1)
    rng = _generator(seed)
    branch_parent, level = _grow(
        rng, levels, branching_probability, _count("stems", stems), unsplit_children=1
    )
    length = np.linspace(lengths[0], lengths[1], levels)[level]
    direction = _directions(rng, branch_parent, level)
    begin = _begin_of_each(branch_parent, level, direction, length, ball)

    is_stem = branch_parent < 0
    samples = c + is_stem
    parent = _number_nodes(branch_parent, samples, soma_nodes=1).astype(np.int64)
    branch = np.repeat(np.arange(samples.size), samples)
    step = np.arange(branch.size) - (np.cumsum(samples) - samples)[branch] + ~is_stem[branch]
    along = step / c
    xyz = begin[branch] + direction[branch] * (length[branch] * along)[:, None]
    radius = ends[0] + (ends[1] - ends[0]) * (level[branch] + along) / levels
    n = parent.size
    return Morphology(
        parent=parent,
        xyz=np.concatenate([np.zeros((1, 3)), xyz]),
        radius=np.concatenate([[ball], radius]),
        type=np.concatenate([[1], np.full(n - 1, 3)]).astype(np.int64),
        id=np.arange(1, n + 1, dtype=np.int64),
        line=np.zeros(n, dtype=np.int64),
        name=name,
    )


def sample_cells() -> list[Morphology]:
    """Make the six built-in cells, for when a user names no file.

    Returns
    -------
    list of Morphology
        Ring-network cells of different shapes with a few hundred samples each, always the same:
        lengths and radii in µm, names ``sample-0`` to ``sample-5``.
    """
    shapes: list[tuple[int, float | tuple[float, ...], int, int]] = [
        # levels, branching probability, samples a branch, stems
        (5, 0.5, 8, 4),
        (8, 0.35, 6, 3),
        (4, 1.0, 5, 5),
        (12, 0.2, 5, 4),
        (6, (1.0, 0.8, 0.6, 0.4, 0.2), 6, 2),
        (10, 0.25, 12, 2),
    ]
    return [
        ring_cell(levels, p, samples, seed=k, stems=stems, name=f"sample-{k}")
        for k, (levels, p, samples, stems) in enumerate(shapes)
    ]


def _positive(name: str, values: Sequence[float], size: int) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all() or not (array > 0).all():
        expected = "a positive number" if size == 1 else f"{size} positive numbers"
        raise InputError(f"{name} is {shown(values)}, expected {expected} (µm)")
    return array


def _positive_pair(name: str, values: Sequence[float]) -> np.ndarray:
    return _positive(name, values, 2)


def _directions(
    rng: np.random.Generator, branch_parent: np.ndarray, level: np.ndarray
) -> np.ndarray:
    """Turn each branch away from its parent; (num_branches, 3) float64 unit vectors."""
    num = branch_parent.size
    direction = np.empty((num, 3))
    second = np.zeros(num, dtype=bool)  # of two siblings, which are neighbours
    second[1:] = (branch_parent[1:] == branch_parent[:-1]) & (branch_parent[1:] >= 0)
    split = second.copy()
    split[:-1] |= second[1:]
    tilt = np.radians(np.where(split, rng.uniform(25, 55, num), rng.uniform(0, 10, num)))
    azimuth = rng.uniform(0, 2 * np.pi, num)
    azimuth[second] = azimuth[np.flatnonzero(second) - 1] + np.pi

    stems = np.flatnonzero(branch_parent < 0)
    z = 1 - (2 * np.arange(stems.size) + 1) / stems.size  # a golden spiral spreads them evenly
    turn = azimuth[0] + np.arange(stems.size) * np.pi * (3 - np.sqrt(5))
    across = np.sqrt(1 - z * z)
    direction[stems] = np.stack([across * np.cos(turn), across * np.sin(turn), z], axis=1)
    for k in range(1, int(level[-1]) + 1):
        here = np.flatnonzero(level == k)
        direction[here] = _tilted(direction[branch_parent[here]], tilt[here], azimuth[here])
    return direction


def _tilted(direction: np.ndarray, tilt: np.ndarray, azimuth: np.ndarray) -> np.ndarray:
    """Tilt (m, 3) unit vectors by (m,) angles, to the side that (m,) azimuths give, in radians."""
    axis = np.eye(3)[np.argmin(np.abs(direction), axis=1)]  # never close to parallel
    side = np.cross(direction, axis)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    other = np.cross(direction, side)
    outward = np.cos(azimuth)[:, None] * side + np.sin(azimuth)[:, None] * other
    turned = np.cos(tilt)[:, None] * direction + np.sin(tilt)[:, None] * outward
    return turned / np.linalg.norm(turned, axis=1, keepdims=True)


def _begin_of_each(
    branch_parent: np.ndarray,
    level: np.ndarray,
    direction: np.ndarray,
    length: np.ndarray,
    soma_radius: float,
) -> np.ndarray:
    """Place where each branch begins, (num_branches, 3) float64, µm; stems on the soma."""
    begin = direction * soma_radius
    for k in range(1, int(level[-1]) + 1):
        here = np.flatnonzero(level == k)
        above = branch_parent[here]
        begin[here] = begin[above] + direction[above] * length[above, None]
    return begin

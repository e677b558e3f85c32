"""Samples as a tree rooted at the soma, and which of them form a section.

The rules are those of NEURON's importer; `simulator.cells.sections` has the rest, and the
differences. A sample's *first child* is the child with the smallest id.

Section
    A chain of samples with one type, from a branching sample or a change of type to the next. Its
    first 3-D point is a copy of the sample it leaves, with that sample's diameter; if a section of
    another type leaves a section of type 1, with its own first sample's diameter. The root section
    has no such point. Coincident samples are all kept; a step of the diameter there is a ring of
    membrane.

Soma
    The connected group of type-1 samples that holds the root, or else the first such group in the
    file; the cell is rooted there. A type-1 sample whose first child has type 1 does not end its
    section, whatever other sections leave it, unless it has a second type-1 child and is not the
    root. So stacked samples are one section, and a soma that branches is several.

    A root section with a single sample, of any type, is a sphere: a cylinder along x with length =
    diameter = 2 radius, which has the sphere's area. So is a soma of three samples
    (NeuroMorpho.Org), if all have type 1, the root's first two children have no children and the
    root's diameter, and their distances from it add up to its diameter (within 1 %).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from clhines.core.arrays import climb
from clhines.core.errors import CableError, RepairWarning, warn_caller
from clhines.simulator.cells.morphology import Morphology

SOMA = 1  # SWC's type code


def check_tree(parent: np.ndarray, name: str) -> None:
    n = len(parent)
    if n and parent.min() >= -1 and parent.max() < n and np.count_nonzero(parent < 0) == 1:
        top, _ = climb(parent)
        if (parent[top] < 0).all():
            return
    raise CableError(f"{name}: the samples are not a tree, expected one root (-1) and no cycle")


def at(mask: np.ndarray, index: np.ndarray) -> np.ndarray:
    return (index >= 0) & mask[index]


def soma_group(cell: Morphology) -> np.ndarray:
    is_soma = cell.type == SOMA
    below = is_soma & at(is_soma, cell.parent)
    tops = np.flatnonzero(is_soma & ~below)
    if not tops.size:
        return is_soma
    at_root = tops[cell.parent[tops] < 0]
    top = at_root[0] if at_root.size else tops[0]
    group, _ = climb(np.where(below, cell.parent, -1))
    return group == top


def rooted_at(parent: np.ndarray, root: int) -> np.ndarray:
    """Make sample `root` the root: reverse the edges above it; return new parents, (n,) int64."""
    end = len(parent)  # a sentinel above the root, and above itself
    above = np.append(np.where(parent < 0, end, parent), end)
    path = np.array([root])  # each pass doubles it, and the length of the steps in `above`
    while path[-1] != end:
        path = np.concatenate([path, above[path]])
        above = above[above]
    path = path[path != end]
    turned = parent.copy()
    turned[path[1:]] = path[:-1]
    turned[root] = -1
    return turned


def from_soma(cell: Morphology) -> tuple[np.ndarray, np.ndarray]:
    """Return parents, with the root in the soma if there is one, and which samples are the soma."""
    check_tree(cell.parent, cell.name)
    soma = soma_group(cell)
    if not soma.any():
        return cell.parent, soma
    top = np.flatnonzero(soma & ~at(soma, cell.parent))
    return rooted_at(cell.parent, int(top[0])), soma


def in_a_row(parent: np.ndarray, soma: np.ndarray) -> np.ndarray:
    """Return the soma's samples from one end to the other, (m,) int64; empty if they branch."""
    inner = np.flatnonzero(soma & at(soma, parent))
    if not inner.size:
        return np.flatnonzero(soma)
    neighbours = np.bincount(parent[inner], minlength=len(parent))
    neighbours[inner] += 1
    if neighbours.max() > 2:
        return inner[:0]
    root = np.flatnonzero(soma & (parent < 0))[0]
    above = np.arange(len(parent))
    inside = inner[parent[inner] != root]
    above[inside] = parent[inside]
    arm, depth = climb(above)
    first_arm = inner[parent[inner] == root][0]
    position = np.where(arm[inner] == first_arm, -1 - depth[inner], 1 + depth[inner])
    return np.concatenate([inner, [root]])[np.argsort(np.append(position, 0))]


@dataclass(frozen=True, eq=False)
class SampleTree:
    """A cell's samples as a tree, with all properties that decide where sections begin."""

    parent: np.ndarray
    root: int
    is_soma: np.ndarray
    first: np.ndarray  # child with the smallest id, -1 at tips
    second: int  # the root's second child, or -1
    soma_children: np.ndarray  # how many children have type 1, for samples of type 1
    shared_begin: np.ndarray  # its section continues into the first child; others leave at 0.0
    goes_on: np.ndarray  # whether the first child is in the same section


def tree_of(cell: Morphology, parent: np.ndarray, root: int) -> SampleTree:
    n, is_soma = len(parent), cell.type == SOMA
    below = np.flatnonzero(parent >= 0)
    below = below[np.lexsort((cell.id[below], parent[below]))]  # siblings together, by id
    above = parent[below]
    children = np.bincount(above, minlength=n)
    first, last = np.full(n, -1), np.full(n, -1)
    last[above] = below
    first[above[::-1]] = below[::-1]
    of_root = below[above == root]
    soma_children = np.bincount(above[is_soma[above] & is_soma[below]], minlength=n)

    shared = ~is_soma & at(is_soma, parent) & (np.arange(n) != first[root])
    shared[root] = not is_soma[root]
    # A soma continues into a soma; a neurite as long as it neither branches nor changes type.
    soma_on = is_soma & at(is_soma, first) & (soma_children <= 1)
    soma_on[root] = is_soma[root] and bool(at(is_soma, first[[root]])[0])
    alike = (last >= 0) & (cell.type[last] == cell.type)
    neurite_on = ~is_soma & alike & ((children == 1) | shared)
    return SampleTree(
        parent=parent,
        root=root,
        is_soma=is_soma,
        first=first,
        second=int(of_root[1]) if len(of_root) > 1 else -1,
        soma_children=soma_children,
        shared_begin=shared,
        goes_on=soma_on | neurite_on,
    )


def is_sphere_of_three(cell: Morphology, tree: SampleTree) -> bool:
    """Whether the soma is a sphere of three samples as at NeuroMorpho.Org, by NEURON's criteria."""
    soma, pair = np.flatnonzero(tree.is_soma), [int(tree.first[tree.root]), tree.second]
    if len(soma) != 3 or min(pair) < 0 or set(soma.tolist()) != {tree.root, *pair}:
        return False
    diameter = 2 * float(cell.radius[tree.root])
    if (tree.first[pair] >= 0).any() or (cell.radius[pair] != cell.radius[tree.root]).any():
        return False
    across = np.linalg.norm(cell.xyz[pair] - cell.xyz[tree.root], axis=1).sum()
    return bool(abs(across / diameter - 1) < 0.01)


ZERO_RADIUS = "zero-radius"
REPAIRS = (ZERO_RADIUS,)


def zero_radii(cell: Morphology) -> tuple[np.ndarray, np.ndarray]:
    """Interpolate radii of 0 along neurites; return the changed samples and new radii, µm.

    A radius of 0 is interpolated between the nearest samples with a radius, one towards the root
    and one towards a tip. At the beginning of a neurite it is the next radius. Tips, where a
    neurite may end in a cone, and the soma stay unchanged.
    """
    parent, soma = from_soma(cell)
    n, radius = len(parent), cell.radius
    tip = np.bincount(parent[parent >= 0], minlength=n) == 0
    is_zero = (radius == 0) & ~tip & ~soma
    if not is_zero.any():
        return np.zeros(0, np.int64), np.zeros(0)
    with np.errstate(over="ignore"):
        edge = np.where(parent < 0, 0.0, np.linalg.norm(cell.xyz - cell.xyz[parent], axis=1))
    _, depth = climb(parent)
    order = np.lexsort((-cell.id, depth)).tolist()  # reversed, the smallest id wins ties
    within = ~soma & (parent >= 0) & ~at(soma, parent)  # the parent is in the same neurite
    samples = np.flatnonzero(is_zero)
    above = _nearest(order, parent, within, (radius > 0) & ~soma, radius, edge)[samples]
    ends = (radius > 0) | (tip & (radius == 0))
    below = _nearest(order[::-1], parent, within, ends & ~soma, radius, edge, away=True)[samples]
    whole = above[:, 1] + below[:, 1]
    apart = np.isfinite(whole) & (whole > 0)
    share = np.divide(above[:, 1], whole, out=np.full(len(whole), 0.5), where=apart)
    new = above[:, 0] + share * (below[:, 0] - above[:, 0])
    new = np.where(np.isinf(above[:, 1]), below[:, 0], new)
    valid = np.isfinite(new) & (new > 0)
    return samples[valid], new[valid]


def _nearest(
    order: list[int],
    parent: np.ndarray,
    within: np.ndarray,
    has_radius: np.ndarray,
    radius: np.ndarray,
    edge: np.ndarray,
    away: bool = False,
) -> np.ndarray:
    """Return each sample's nearest sample with a radius: radius and distance, (n, 2).

    The search goes along a neurite towards its beginning or, if `away`, towards the tips; without
    such a sample the distance is infinite. `order` is a sample order in which each comes after the
    samples that its search passes.
    """
    nearest = np.full((len(parent), 2), (np.nan, np.inf))
    for i in order:
        p = int(parent[i])
        if not within[i]:
            continue
        target, source = (p, i) if away else (i, p)
        value, distance = (radius[source], 0.0) if has_radius[source] else nearest[source]
        if distance + edge[i] < nearest[target, 1] and np.isfinite(value):
            nearest[target] = value, distance + edge[i]
    return nearest


def repaired(cell: Morphology, repair: str | None) -> Morphology:
    """Apply the repair named `repair`; warn of each changed sample with a `RepairWarning`."""
    if repair is None:
        return cell
    samples, new = zero_radii(cell)
    if not len(samples):
        return cell
    radius = cell.radius.copy()
    radius[samples] = new
    for i, value in zip(samples.tolist(), new.tolist(), strict=True):
        where = f"{cell.name}:{cell.line[i]}" if cell.line[i] > 0 else cell.name
        message = f"{where}: sample {cell.id[i]} has radius 0, repaired to {value:.6g} µm"
        warn_caller(message, RepairWarning)
    return replace(cell, radius=radius, repaired=samples)

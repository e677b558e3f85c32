"""LinearMechanism: equations ``c dy/dt + g y = b``, read from the matrices and Vectors of each.

NEURON lays its matrix out where the structure of the model changes, and takes from c and g the
elements that are not 0 then. One that is set later acts by g alone, on values at the begin of each
step: it is `late`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from clhines.neuron.convert import Rejected
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import Readable, words_at
from clhines.neuron.memory.session import Hoc

_NAME = "LinearMechanism"
# Words of its C++ object, of which those of matrices, Vectors and nodes are checked
_MODEL, _C, _G, _Y, _Y0, _B, _COUNT, _CALLED, _NODES, _LAYERS = range(1, 11)
_MODEL_WORDS = 28  # of the equations, among them two maps of elements
_MAP_WORDS = 4
_INT = (1 << 32) - 1
_DOUBLE = 8  # bytes


@dataclass(frozen=True, eq=False)
class LinearRead:
    """Equations as hoc has them: (s, s) float64, rows of nodes in mA/cm² and S/cm²."""

    node: np.ndarray  # (k,) int64: inside, or in a layer of `extracellular`
    inside: np.ndarray  # (k,) int64: those inside, whose areas rows have
    c: np.ndarray
    g: np.ndarray
    late: np.ndarray
    b: np.ndarray  # (s,) float64
    y0: np.ndarray  # (s - k,) float64, of unknowns
    y: int  # address of the first of y

    @property
    def unknowns(self) -> list[int]:
        """Addresses of the unknowns in y."""
        return [self.y + _DOUBLE * k for k in range(len(self.node), len(self.b))]

    def as_bytes(self) -> tuple[object, ...]:
        arrays = self.node, self.c, self.g, self.late, self.b, self.y0
        return (*(a.tobytes() for a in arrays), self.y)


@dataclass(eq=False)
class LinearMechanisms:
    """All LinearMechanisms of a model; `vectors` are addresses of their y and b."""

    read: list[LinearRead] = field(default_factory=list)
    vectors: list[int] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)

    @property
    def unknowns(self) -> list[int]:
        return [at for one in self.read for at in one.unknowns]

    def node_of(self, address: int) -> int:
        """Return the node whose voltage is at an address in a y; -1 of none."""
        for one in self.read:
            place = (address - one.y) // _DOUBLE
            if 0 <= place < len(one.node):
                return int(one.node[place])
        return -1

    def as_bytes(self) -> list[object]:
        return [*(one.as_bytes() for one in self.read), *map(str, self.rejected)]


def nodes_of_linear(h: Hoc, memory: NeuronMemory) -> list[int]:
    """Return the addresses of all nodes in equations."""
    return [at for words in _words(h, memory) for at in _nodes(words)]


def _words(h: Hoc, memory: NeuronMemory) -> list[list[int]]:
    return [words_at(memory.inside(one), _LAYERS + 1) for one in h.List(_NAME) if one.valid()]


def _nodes(words: list[int]) -> list[int]:
    return words_at(words[_NODES], words[_COUNT] & _INT) if words[_NODES] else []


def read_linear(
    h: Hoc, memory: NeuronMemory, numbers_of: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> LinearMechanisms:
    """Read all, `numbers_of` nodes by addresses and layers; OSError where one is not as expected.

    The layer of a node is 0 for the inside.
    """
    found, every = LinearMechanisms(), _words(h, memory)
    if not every:
        return found
    vectors, matrices = memory.vectors(), list(h.List("Matrix"))
    inside = memory.insides_of(memory.objects_of(matrices)).tolist()
    known, places = dict(zip(inside, matrices, strict=True)), list[int]()
    readable = Readable(_DOUBLE * _MAP_WORDS)
    for words in every:
        if words[_CALLED]:
            what = f"{_NAME} with a callback, which NEURON calls within each step"
            found.rejected.append(Rejected("", what, "let NEURON run it"))
            continue
        c, g = (known.get(words[k]) for k in (_C, _G))
        y, b = (vectors.get(words[k]) for k in (_Y, _B))
        y0 = vectors.get(words[_Y0])
        if c is None or g is None or y is None or b is None or (words[_Y0] and y0 is None):
            what = f"{_NAME}, whose matrices or Vectors are gone"
            found.rejected.append(Rejected("", what, "keep them as long as it"))
            continue
        address, layer = np.array(_nodes(words), np.uint64), _layers(words)
        node, inside = numbers_of(address, layer), numbers_of(address, layer * 0)
        if (node < 0)[inside >= 0].any():
            what = f"{_NAME} with a layer of extracellular that its section does not have"
            found.rejected.append(Rejected("", what, "let NEURON run it"))
            continue
        sizes = {len(y), len(b), *(n for m in (c, g) for n in (int(m.nrow()), int(m.ncol())))}
        if y0 is not None:
            sizes.add(len(y0))
        if len(sizes) != 1 or len(node) > len(y) or (node < 0).any():
            what = f"{_NAME}, whose matrices, Vectors and nodes have different sizes"
            found.rejected.append(Rejected("", what, "expected equal ones, and sections"))
            continue
        own = words[_C], words[_G]
        maps = _maps(words[_MODEL], own, readable, places)
        found.read.append(_read(maps, own, (c, g), (node, inside), (y, y0, b)))
        found.vectors += [words[_Y], words[_B]]
    return found


def _layers(words: list[int]) -> np.ndarray:
    """(k,) int64: the layer of each node as NEURON has kept it, 0 for the inside."""
    if not words[_LAYERS]:
        return np.zeros(len(_nodes(words)), np.int64)
    model = words_at(words[_MODEL], _MODEL_WORDS)
    try:
        at = model[model.index(words[_B], model.index(words[_NODES])) - 2]
    except ValueError:
        at = 0
    if not Readable(_DOUBLE).likely(at):
        raise OSError(f"a {_NAME} is not as expected")
    return np.array((ctypes.c_int * (words[_COUNT] & _INT)).from_address(at), np.int64)


def _maps(
    model: int, addresses: tuple[int, int], readable: Readable, places: list[int]
) -> dict[int, list[int]]:
    """Return, by address of a matrix, the vector of its elements in NEURON's matrix, 3 words.

    `places` are those in the words of models before, which are looked at first.
    """
    words, found = words_at(model, _MODEL_WORDS), dict[int, list[int]]()
    for k in (*places, *range(_MODEL_WORDS)):
        if len(found) == len({*addresses}):
            break
        if words[k] not in addresses and readable.likely(words[k]):
            first, *rest = words_at(words[k], _MAP_WORDS)
            if first in addresses and first not in found:
                found[first] = rest
                places += [k] if k not in places else []
    if len(found) != len({*addresses}):
        raise OSError(f"a {_NAME} is not as expected")
    return found


def _read(
    maps: dict[int, list[int]],
    addresses: tuple[int, int],
    matrices: tuple[Hoc, Hoc],
    nodes: tuple[np.ndarray, np.ndarray],
    vectors: tuple[Hoc, Hoc | None, Hoc],
) -> LinearRead:
    y, y0, b = vectors
    size, known = len(y), []
    for address, matrix in zip(addresses, matrices, strict=True):
        values = np.array(matrix.to_vector(), np.float64).reshape(size, size).T
        known.append((values, np.where(_laid_out(maps[address], size), values, 0.0)))
    (_, c), (whole, g) = known
    begin = np.zeros(size) if y0 is None else np.array(y0, np.float64)
    at = y.as_numpy().__array_interface__["data"][0]
    given = np.array(b, np.float64), begin[len(nodes[0]) :]
    return LinearRead(*nodes, c, g, whole - g, *given, at)


def _laid_out(pairs: list[int], size: int) -> np.ndarray:
    """(size, size) bool: elements that NEURON's matrix has, by a vector of pairs of int."""
    begin, end, room = pairs
    count = (end - begin) // _DOUBLE
    if not begin <= end <= room or count > size * size:
        raise OSError(f"a matrix of {_NAME} is not as expected")
    found = np.zeros((size, size), bool)
    if count:
        row, column = np.array((ctypes.c_int * (2 * count)).from_address(begin)).reshape(-1, 2).T
        if min(row.min(), column.min()) < 0 or max(row.max(), column.max()) >= size:
            raise OSError(f"a matrix of {_NAME} is not as expected")
        found[row, column] = True
    return found

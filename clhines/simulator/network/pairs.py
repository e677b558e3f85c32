"""Pairs of sources and targets by a rule, and random values for each pair.

In the pair matrix, rows are sources, or targets for a fixed in-degree. Each block of rows has a
random stream of its own, and its size depends only on the rule, so threads may make blocks in any
order. Random values are a hash of seed and pair: the same wherever and whenever they are made.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from clhines.core import checks
from clhines.core.errors import InputError
from clhines.simulator.common.checks import as_seed, unchangeable

_BLOCK = 1 << 18  # approximate pairs in a block
_CHUNK = 1 << 16  # pairs whose values are drawn together, so that they stay in the cache
_MOST = 2**31 - 1  # sources, and targets
_DENSE = 2  # rows with more than 1 / _DENSE of the columns are drawn by sorting all
_BYTES = 12  # least memory for a pair while it is made
_LARGEST = 1 << 40  # a block's rows times columns
_TURNS = 1000  # attempts to draw a value within its bounds
RULES = (
    *("all_to_all", "one_to_one", "bernoulli"),
    *("fixed_indegree", "fixed_outdegree", "by_distance"),
)
_Value = TypeVar("_Value")


@unchangeable("other Pairs")
@dataclass(frozen=True, eq=False)
class Pairs:
    """A rule that connects sources to targets, for `index` of `Network.connect`.

    Source s is number s in the argument of `connect`; target t is instance t of the group. No pair
    occurs twice. The same network, calls of `connect` and seed give the same pairs in every run, on
    any number of processes; pairs of different calls are independent. The rules have NEST's names;
    the methods below make them.

    Attributes
    ----------
    rule : str
    number : float
        Probability, or number of pairs per source or target.
    seed : int
        Of the random numbers, 0 to 2**64 - 1.
    autapses : bool
        Whether a cell may connect to a target on itself; True by default.
    p : callable, optional
        Probability as a function of distance.
    at : two (count, dimensions) float64, optional
        Positions of sources and targets.
    """

    rule: str
    number: float = 0.0
    seed: int = 0
    autapses: bool = True
    p: Callable[[np.ndarray], ArrayLike] | None = field(default=None, repr=False)
    at: tuple[np.ndarray, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        checks.as_choice("rule", self.rule, RULES)
        if (self.rule == "by_distance") != (self.p is not None):
            raise InputError(f"rule is {self.rule}; expected Pairs.{self.rule}(...)")
        if self.rule.startswith("fixed"):
            checks.as_whole_number("number", self.number, 0, _MOST)
        else:
            _as_probability("number", self.number)
        _common(self.seed, self.autapses)
        is_pair = isinstance(self.at, tuple) and len(self.at) in (0, 2)
        if not is_pair or not all(isinstance(at, np.ndarray) for at in self.at):
            raise InputError(f"at is {checks.shown(self.at)}; expected two arrays, or none")

    @classmethod
    def all_to_all(cls, autapses: bool = True) -> Pairs:
        """Connect every source to every target."""
        return cls("all_to_all", 1.0, 0, checks.as_switch("autapses", autapses))

    @classmethod
    def one_to_one(cls) -> Pairs:
        """Connect source k to target k; there must be as many sources as targets."""
        return cls("one_to_one")

    @classmethod
    def bernoulli(cls, p: float, seed: int = 0, autapses: bool = True) -> Pairs:
        """Connect each pair with probability `p`, independently (Erdős and Rényi)."""
        return cls("bernoulli", _as_probability("p", p), *_common(seed, autapses))

    @classmethod
    def fixed_indegree(cls, number: int, seed: int = 0, autapses: bool = True) -> Pairs:
        """Connect each target to `number` different sources, chosen uniformly."""
        number = checks.as_whole_number("number", number, 0, _MOST)
        return cls("fixed_indegree", number, *_common(seed, autapses))

    @classmethod
    def fixed_outdegree(cls, number: int, seed: int = 0, autapses: bool = True) -> Pairs:
        """Connect each source to `number` different targets, chosen uniformly."""
        number = checks.as_whole_number("number", number, 0, _MOST)
        return cls("fixed_outdegree", number, *_common(seed, autapses))

    @classmethod
    def by_distance(
        cls,
        p: Callable[[np.ndarray], ArrayLike],
        source_at: ArrayLike,
        target_at: ArrayLike,
        most: float = 1.0,
        seed: int = 0,
        autapses: bool = True,
    ) -> Pairs:
        """Connect each pair with a probability that depends on its distance.

        Parameters
        ----------
        p : callable
            Maps distances, (k,) float64, in the unit of the positions, to as many probabilities,
            such as ``lambda d: 0.1 * np.exp(-d / 200)``.
        source_at, target_at : (count,) or (count, dimensions) float
            Positions.
        most : float
            Largest probability that `p` returns; `p` is called for this share of all pairs.
        """
        positions = {"source_at": source_at, "target_at": target_at}
        at = tuple(_as_positions(name, a) for name, a in positions.items())
        if at[0].shape[1] != at[1].shape[1]:
            raise InputError(
                f"source_at has {at[0].shape[1]} dimensions, target_at {at[1].shape[1]}; "
                "expected equal ones"
            )
        if not callable(p) or isinstance(p, type):
            raise InputError(f"p is {type(p).__name__}; expected a function of distances")
        most = _as_probability("most", most)
        return cls("by_distance", most, *_common(seed, autapses), p, at)


@unchangeable("another one, as Drawn.normal(...)")
@dataclass(frozen=True)
class Drawn:
    """A weight or delay drawn for each of the `Pairs` of a `Network.connect`.

    A value outside `low` to `high` is drawn again.
    """

    distribution: str
    a: float
    b: float = 0.0
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        checks.as_choice(
            "distribution", self.distribution, ("uniform", "normal", "lognormal", "exponential")
        )
        for name in ("a", "b"):
            checks.as_number(name, getattr(self, name))
        for name in ("low", "high"):
            bound = getattr(self, name)
            if not isinstance(bound, float):  # a float may be infinite
                checks.as_number(name, bound)
        if not self.low <= self.high:
            low, high = checks.shown(self.low), checks.shown(self.high)
            raise InputError(f"low is {low}, high {high}; expected low <= high")

    @classmethod
    def uniform(cls, low: float, high: float) -> Drawn:
        """Draw uniformly from `low` to `high`."""
        low, high = checks.as_number("low", low), checks.as_number("high", high)
        return cls("uniform", low, high - low, low, high)

    @classmethod
    def normal(
        cls, mean: float, sd: float, low: float | None = None, high: float | None = None
    ) -> Drawn:
        """Draw from a normal distribution with mean `mean` and standard deviation `sd`."""
        mean, sd = checks.as_number("mean", mean), _not_negative("sd", sd)
        return cls("normal", mean, sd, *_bounds(low, high))

    @classmethod
    def lognormal(
        cls, mean: float, sigma: float, low: float | None = None, high: float | None = None
    ) -> Drawn:
        """Draw numbers whose logarithm is normal with mean `mean` and deviation `sigma`."""
        mean, sigma = checks.as_number("mean", mean), _not_negative("sigma", sigma)
        return cls("lognormal", mean, sigma, *_bounds(low, high))

    @classmethod
    def exponential(
        cls, scale: float, low: float | None = None, high: float | None = None
    ) -> Drawn:
        """Draw from an exponential distribution with mean `scale`."""
        return cls("exponential", _not_negative("scale", scale), 0.0, *_bounds(low, high))

    def of_pairs(self, key: tuple[int, ...], source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Draw a value for each pair, (m,) float64; other numbers in `key` give other values."""
        drawn = np.empty(len(source))

        def fill(begin: int) -> None:
            here = slice(begin, begin + _CHUNK)
            pair = source[here].astype(np.uint64) << np.uint64(32)
            pair |= target[here].astype(np.uint64)
            drawn[here] = values = self._drawn((*key, 0), pair)
            for turn in range(1, _TURNS):
                outside = np.flatnonzero((values < self.low) | (values > self.high))
                if not len(outside):
                    return
                drawn[here][outside] = values[outside] = self._drawn((*key, turn), pair[outside])
            raise InputError(f"{self}: nothing is drawn within the bounds; expected wider bounds")

        list(_each(fill, range(0, len(source), _CHUNK)))
        return drawn

    def _drawn(self, key: tuple[int, ...], pair: np.ndarray) -> np.ndarray:
        words = np.random.SeedSequence(key).generate_state(4, np.uint64)
        u = _uniform(pair, words[:2])
        if self.distribution == "uniform":
            return np.minimum(self.a + self.b * u, self.high)
        if self.distribution == "exponential":
            return -self.a * np.log1p(-u)
        turn = 2 * np.pi * _uniform(pair, words[2:])
        normal = self.a + self.b * np.sqrt(-2 * np.log1p(-u)) * np.cos(turn)  # Box and Muller
        return np.exp(normal) if self.distribution == "lognormal" else normal


def _uniform(pair: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Hash (m,) uint64 to numbers in [0, 1): SplitMix64's finaliser, twice."""
    z = pair
    for word in words:
        z = z ^ word
        z ^= z >> np.uint64(30)
        z *= np.uint64(0xBF58476D1CE4E5B9)
        z ^= z >> np.uint64(27)
        z *= np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)) * 2.0**-53


def connected(
    pairs: Pairs, call: int, source_cell: np.ndarray, target_cell: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return a rule's pairs: sources and targets, (m,) int32, sorted by source, then target.

    `call`, the number of the call of `connect`, selects random numbers. `source_cell` and
    `target_cell` have each source's and target's cell.
    """
    if pairs.rule == "one_to_one":
        if len(source_cell) != len(target_cell):
            raise InputError(
                f"one_to_one: {len(source_cell)} sources and {len(target_cell)} targets; expected "
                "equal numbers"
            )
        every = np.arange(len(source_cell), dtype=np.int32)
        return every, every
    for at, cells, what in zip(pairs.at, (source_cell, target_cell), ("source", "target")):
        if len(at) != len(cells):
            raise InputError(f"{what}_at has {len(at)} positions for {len(cells)} {what}s")
    by_target = pairs.rule == "fixed_indegree"
    ends = (target_cell, source_cell) if by_target else (source_cell, target_cell)
    rows = _PairRows(pairs, call, *ends)
    expected = rows.expected * len(ends[0])
    checks.check_room(_BYTES * expected, f"{expected:.3g} pairs")
    parts = rows.made()
    if by_target:
        return _by_source([part[0] for part in parts], len(target_cell))
    counts, columns = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    return np.repeat(np.arange(len(source_cell), dtype=np.int32), counts), columns


def _by_source(parts: Sequence[np.ndarray], targets: int) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs' sources and targets, sorted by source, then by target.

    `parts` have the key ``source * targets + target`` of each pair.
    """
    key = np.concatenate([np.zeros(0, np.int64), *parts])
    key.sort()
    source = (key // max(targets, 1)).astype(np.int32)
    return source, (key % max(targets, 1)).astype(np.int32)


@dataclass(frozen=True, eq=False)
class _PairRows:
    """Make a rule's pairs row by row; `call` is the number of the call of `connect`.

    Rows are sources and columns targets; for a fixed in-degree, rows are targets and columns
    sources. `row_cell` and `column_cell` are their cells' numbers.
    """

    pairs: Pairs
    call: int
    row_cell: np.ndarray
    column_cell: np.ndarray

    @property
    def fixed(self) -> bool:
        return self.pairs.rule in ("fixed_indegree", "fixed_outdegree")

    @property
    def expected(self) -> float:
        number = float(self.pairs.number)
        return number if self.fixed else number * len(self.column_cell)

    def made(self) -> list[tuple[np.ndarray, ...]]:
        """Return for each block of rows a tuple: each row's pair count, each pair's column.

        If the in-degree is fixed, the tuple has one array instead, with ``column * row count +
        row`` for each pair.
        """
        count, columns = len(self.row_cell), len(self.column_cell)
        if self.fixed:
            self._check_columns()
        if not self.expected or not count:
            none = np.zeros(count, np.int64), np.zeros(0, np.int32)
            return [] if self.pairs.rule == "fixed_indegree" else [none]
        size = max(1, min(int(_BLOCK / self.expected), _LARGEST // columns))
        each = _each if self.pairs.p is None else map  # a user's function runs in one thread
        return list(each(partial(self._block, size), range(0, count, size)))

    def _check_columns(self) -> None:
        pairs, columns = self.pairs, len(self.column_cell)
        in_same_cell = 0
        if not pairs.autapses:
            cells, counts = np.unique(self.column_cell, return_counts=True)
            in_same_cell = int(counts[np.isin(cells, self.row_cell)].max(initial=0))
        if pairs.number > columns - in_same_cell:
            what = "sources" if pairs.rule == "fixed_indegree" else "targets"
            where = "" if pairs.autapses else " in other cells"
            raise InputError(
                f"{pairs.rule}: number is {pairs.number:g}; expected at most "
                f"{columns - in_same_cell}, the {what}{where}"
            )

    def _block(self, size: int, first: int) -> tuple[np.ndarray, ...]:
        rows = np.arange(first, min(first + size, len(self.row_cell)))
        key = self.pairs.seed, self.call, first // size
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(key)))
        if not self.fixed:
            return self._bernoulli(rng, rows)
        columns = self._subsets(rng, rows)
        if self.pairs.rule == "fixed_outdegree":
            return np.full(len(rows), columns.shape[1]), columns.reshape(-1)
        return ((columns * np.int64(len(self.row_cell)) + rows[:, None]).reshape(-1),)

    def _bernoulli(self, rng: np.random.Generator, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """Draw each pair independently: the gaps from pair to pair are geometric."""
        pairs, columns = self.pairs, len(self.column_cell)
        place = _chosen(rng, len(rows) * columns, pairs.number)
        counts = np.diff(np.searchsorted(place, columns * np.arange(len(rows) + 1)))
        row = np.repeat(np.arange(len(rows)), counts)
        column = place - columns * row
        kept = np.ones(len(column), bool)
        if pairs.p is not None:
            away = pairs.at[0][rows[row]] - pairs.at[1][column]
            kept = rng.random(len(row)) * pairs.number < self._probability(pairs.p, away)
        if not pairs.autapses:
            kept &= self.row_cell[rows[row]] != self.column_cell[column]
        if not kept.all():
            counts, column = np.bincount(row[kept], minlength=len(rows)), column[kept]
        return counts, column.astype(np.int32)

    def _probability(
        self, function: Callable[[np.ndarray], ArrayLike], away: np.ndarray
    ) -> np.ndarray:
        returned = checks.as_array("p", function(np.sqrt((away * away).sum(axis=1))))
        p = checks.as_real("p", returned.astype(float) if returned.dtype.kind == "b" else returned)
        if p.shape not in ((), away.shape[:1]):
            raise InputError(f"p returns shape {p.shape}; expected {away.shape[:1]}")
        most = self.pairs.number
        low, high = p.min(initial=0.0), p.max(initial=0.0)
        if low < 0 or high > most:
            raise InputError(
                f"p returns {low if low < 0 else high:g}; expected 0 to {most:g}, which is `most`"
            )
        return p

    def _subsets(self, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        """Draw `number` different columns for each row, (rows, number) int32, ascending."""
        number, columns = int(self.pairs.number), len(self.column_cell)
        cell, excluded = self.row_cell[rows, None], not self.pairs.autapses
        if _DENSE * number > columns:  # take the columns with the lowest random numbers
            keys = rng.random((len(rows), columns))
            if excluded:
                keys[cell == self.column_cell] = 2.0
            lowest = np.argpartition(keys, number - 1, axis=1)[:, :number]
            return np.sort(lowest, axis=1).astype(np.int32)
        # redraw duplicates only: by symmetry each subset stays equally likely
        drawn = rng.integers(columns, size=(len(rows), number), dtype=np.int32)
        todo = np.arange(len(rows))
        while len(todo):
            subset = np.sort(drawn[todo], axis=1)
            again = np.zeros(subset.shape, bool)
            np.equal(subset[:, 1:], subset[:, :-1], out=again[:, 1:])
            if excluded:
                again |= cell[todo] == self.column_cell[subset]
            subset[again] = rng.integers(columns, size=np.count_nonzero(again), dtype=np.int32)
            drawn[todo] = subset
            todo = todo[again.any(axis=1)]
        return drawn


def _chosen(rng: np.random.Generator, total: int, p: float) -> np.ndarray:
    """Choose each of `total` numbers with probability `p`; return them ascending, int64."""
    if p >= 1:
        return np.arange(total)
    parts, last = list[np.ndarray](), -1
    while last < total:
        mean = p * (total - last)
        gaps = rng.standard_exponential(int(mean + 5 * math.sqrt(mean)) + 16)
        gaps *= -1 / math.log1p(-p)
        place = np.cumsum(np.minimum(gaps, total).astype(np.int64) + 1)
        place += last
        parts.append(place)
        last = int(place[-1])
    place = np.concatenate(parts)
    return place[: np.searchsorted(place, total)]


def _each(function: Callable[[int], _Value], arguments: range) -> Iterator[_Value]:
    """Map with a thread per core, since NumPy's loops release the GIL."""
    if len(arguments) < 2:
        return map(function, arguments)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return iter(list(pool.map(function, arguments)))


def _common(seed: object, autapses: object) -> tuple[int, bool]:
    return as_seed(seed), checks.as_switch("autapses", autapses)


def _as_probability(name: str, value: object) -> float:
    p = checks.as_number(name, value)
    if not 0 <= p <= 1:
        raise InputError(f"{name} is {p:g}; expected 0 to 1")
    return p


def _as_positions(name: str, value: object) -> np.ndarray:
    positions = checks.as_real(name, value)
    if positions.ndim not in (1, 2):
        raise InputError(
            f"{name} has shape {positions.shape}; expected (count,) or (count, dimensions)"
        )
    return positions if positions.ndim == 2 else positions[:, None]


def _not_negative(name: str, value: object) -> float:
    number = checks.as_number(name, value)
    if number < 0:
        raise InputError(f"{name} is {number:g}; expected 0 or more")
    return number


def _bounds(low: object, high: object) -> tuple[float, float]:
    return (
        -math.inf if low is None else checks.as_number("low", low),
        math.inf if high is None else checks.as_number("high", high),
    )

"""Kernels of gradients: a step forward and back, for copies of a network side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from clhines.simulator.mechanisms.emit.functions import Functions
from clhines.simulator.mechanisms.ir.adjoints import BACK, adjoint_of, label
from clhines.simulator.mechanisms.ir.compiled import Compiled
from clhines.simulator.mechanisms.ir.program import Argument
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.solver.plan.kernel_spec import TemplateSpec

BLOCKS = ("current", "advance")
MATRIX = ("capacitance", "constant_d", "constant_b", "constant_g", "u")
_WHERE = "int num_nodes, int num_rows, const int *restrict of_node, const int *restrict place"
_TREE = "const int *restrict parent, const int *restrict child, const int *restrict sibling"
_TIME = "real t_begin, real t_now, real t_end, real dt, real solved_dt"
_VALUES = "const real *restrict numbers, const lanes *restrict values, const real *restrict tables"
_RECORDS = "const int *restrict column, int num_columns, int row"
_BACK = "lanes *slopes, lanes *by_values"


@dataclass(frozen=True)
class CopyColumn:
    """Where values are: one number for all copies of each entry, or one for each copy."""

    begin: int
    each: bool = False  # a value for each copy
    single: bool = False  # one number for all entries

    def at(self, index: str) -> str:
        """Return an entry in OpenCL C."""
        if self.single:
            return f"numbers[{self.begin}]"
        if self.each:
            return f"values[({self.begin}L + {index}) * num_rows + q]"
        return f"(lanes)(numbers[{self.begin} + {index}])"


@dataclass(frozen=True)
class GradientKind:
    """A mechanism in the kernels."""

    number: int
    name: str
    count: int
    states: tuple[str, ...]
    first_state: int  # entries of voltages and of states before its own
    columns: tuple[tuple[str, CopyColumn], ...]  # of parameters and variables of ions
    factor_column: CopyColumn
    tables: tuple[tuple[str, int], ...]  # where each begins
    by: tuple[tuple[str, int], ...]  # where derivatives by parameters begin, in entries
    blocks: tuple[tuple[str, str, tuple[Argument, ...]], ...]  # function and arguments

    @property
    def num_states(self) -> int:
        return len(self.states)

    @property
    def states_at(self) -> str:
        """Where its states begin in a slot."""
        return f"{self.first_state}L * num_rows"

    @property
    def factor(self) -> str:
        return self.factor_column.at("j")

    def has(self, block: str) -> bool:
        return any(name == block for name, _, _ in self.blocks)

    @property
    def gives_current(self) -> bool:
        found = (a for block, _, arguments in self.blocks if block == "current" for a in arguments)
        return {"i", "g"} <= {a.role for a in found}

    def _state(self, owner: str, name: str) -> str:
        entry = self.states.index(name) * self.count
        return f"{owner}[({entry}L + j) * num_rows + q]"

    def _given(self, a: Argument, seeds: Mapping[str, str]) -> str:
        """Return what a function takes for an argument."""
        if a.role in ("v", "dt"):
            return a.role
        if a.role == "t":
            return f"t_{a.name}"
        if a.role == "state":
            return self._state("states", a.name)
        if a.role == "table":
            return f"tables + {dict(self.tables)[a.name]}"
        if a.role == "seed":
            return seeds[a.name]
        return dict(self.columns)[a.name].at("j")

    def call(self, block: str) -> str:
        """Return the call of a block's function, and what becomes of its results."""
        name, arguments = next((f, a) for b, f, a in self.blocks if b == block)
        seeds = {"i_i": "seed_i", "g_g": "seed_g"}
        if block == BACK.format("advance"):
            seeds = {f"state_{s}": self._state("by_state", s) for s in self.states}
        before, given, after = list[str](), list[str](), list[str]()
        for a in arguments:
            if a.direction == "in":
                given.append(self._given(a, seeds))
                continue
            local = f"{a.role}__" if a.role in ("i", "g") else f"r_{len(before)}"
            start = f" = {self._given(a, seeds)}" if a.direction == "inout" else ""
            before.append(f"lanes {local}{start};")
            given.append(f"&{local}")
            after += self._kept_result(block, a, local)
        if block == BACK.format("advance"):  # of states that it sets, only what it says
            _, _, forward = next(b for b in self.blocks if b[0] == "advance")
            found = {a.name for a in arguments if a.role == "adjoint"}
            after += [
                f"{self._state('by_state', a.name)} = 0;"
                for a in forward
                if a.role == "state" and a.direction != "in" and label(a) not in found
            ]
        lines = [*before, f"{name}({', '.join(given)});", *after]
        return "".join(f"        {line}\n" for line in lines)

    def _kept_result(self, block: str, a: Argument, local: str) -> list[str]:
        """Return the statement that keeps a result."""
        if a.role == "state":
            return [f"{self._state('after', a.name)} = {local};"]
        if a.role != "adjoint":
            return []  # i and g, and currents of ions, which nothing reads
        role, _, name = a.name.partition("_")
        if role == "v":
            return [f"by_v += {local};"]
        if role == "state":
            sign = "+=" if block == BACK.format("current") or not self._sets(name) else "="
            return [f"{self._state('by_state', name)} {sign} {local};"]
        begin = dict(self.by)[name]
        return [f"by_values[({begin}L + j) * num_rows + q] += {local};"]

    def _sets(self, state: str) -> bool:
        _, _, forward = next(b for b in self.blocks if b[0] == "advance")
        return any((a.role, a.name) == ("state", state) and a.direction != "in" for a in forward)

    def kept(self) -> str:
        """Return statements that keep states which no block sets."""
        names = [s for s in self.states if not (self.has("advance") and self._sets(s))]
        lines = (f"{self._state('after', s)} = {self._state('states', s)};" for s in names)
        return "".join(f"        {line}\n" for line in lines)


@dataclass(frozen=True)
class GradientSpec(TemplateSpec):
    """``gradients.mako``; `matrix`: derivatives by the matrix are wanted."""

    template: ClassVar[str] = "simulator/gradients"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "begin_step": (
            *(_WHERE, _TREE, _TIME, _VALUES),
            "long now, long diagonal_at, lanes *store, real *restrict system_d",
            "real *restrict system_b",
        ),
        "end_step": (
            *(_WHERE, _TIME, _VALUES, _RECORDS),
            "long now, long next, long diagonal_at, lanes *store",
            "const real *restrict solution, lanes *restrict rows",
        ),
        "back_states": (
            *(_WHERE, _TIME, _VALUES, _RECORDS),
            "long now, long next, long diagonal_at, const lanes *restrict store",
            "const lanes *restrict rows",
            *(_BACK, "real *restrict system_d, real *restrict system_b"),
        ),
        "back_currents": (
            *(_WHERE, _TREE, _TIME, _VALUES),
            "long now, long diagonal_at, const lanes *restrict store",
            *("const real *restrict solution", _BACK),
            "lanes *by_diagonal if matrix, lanes *by_u if matrix",
            "lanes *by_right if matrix, lanes *by_conductance if matrix",
        ),
    }
    real: str
    width: int
    secondorder: bool
    matrix: bool
    columns: tuple[tuple[str, CopyColumn], ...]  # of the matrix, see `MATRIX`
    kinds: tuple[GradientKind, ...]
    functions: str

    def column(self, name: str, index: str) -> str:
        return dict(self.columns)[name].at(index)


def functions_of(
    mechanism: Mechanism, wanted: Collection[str], real: str, width: int, single: Collection[str]
) -> tuple[str, list[tuple[str, str, tuple[Argument, ...]]]]:
    """Return the functions of a mechanism's blocks, forward and back, and their arguments.

    Derivatives by parameters are those by the `wanted` ones.
    """

    def counts(a: Argument) -> bool:
        return a.role in ("v", "i", "g", "state") or (a.role == "parameter" and a.name in wanted)

    compiled: Compiled = mechanism.compiled
    names = [block for block in BLOCKS if block in mechanism.program.blocks]
    for block in names[:]:
        adjoint = adjoint_of(compiled, block, counts=counts)
        if adjoint is not None and adjoint.by:
            compiled = adjoint.compiled
            names.append(adjoint.name)
    printed = Functions(compiled, real, width, tuple(single))
    blocks = [
        (name, f"{printed.prefix}_{compiled.bodies[name].suffix or name}", printed.calls(name))
        for name in names
    ]
    return printed.text(names), blocks


def takes_vectors(mechanism: Mechanism) -> bool:
    """Whether functions of several copies at once can be printed."""
    blocks = (block for block in BLOCKS if block in mechanism.program.blocks)
    return all(mechanism.takes_vectors(block) for block in blocks)

"""Kernels of gradients: a step forward and back, for copies of a network side by side."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from clhines.simulator.mechanisms.emit.functions import Functions
from clhines.simulator.mechanisms.ir.adjoints import BACK, adjoint_of
from clhines.simulator.mechanisms.ir.compiled import Compiled
from clhines.simulator.mechanisms.ir.program import Argument
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.solver.plan.kernel_spec import TemplateSpec

BLOCKS = ("current", "advance")
MATRIX = ("capacitance", "constant_d", "constant_b", "constant_g", "u")
_WHERE = (
    "int num_nodes, int num_rows, const int *restrict order, const int *restrict of_node",
    "const int *restrict place",
)
_TREE = "const int *restrict parent, const int *restrict child, const int *restrict sibling"
_TIMES = "int ends, int begins, real t_0, real t_1, real t_2, real t_3, real dt, real solved_dt"
_VALUES = "const real *restrict numbers, const lanes *restrict values, const real *restrict tables"
_RECORDS = "const int *restrict column, int num_columns, int row"


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
            return f"values[({self.begin} + {index}) * (uint)num_rows + q]"
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
        return f"{self.first_state}u * num_rows"

    @property
    def factor(self) -> str:
        return self.factor_column.at("j")

    def has(self, block: str) -> bool:
        return any(name == block for name, _, _ in self.blocks)

    def _arguments(self, block: str) -> tuple[str, tuple[Argument, ...]]:
        """Return the function of a block, and its arguments."""
        return next((f, a) for b, f, a in self.blocks if b == block)

    @property
    def gives_current(self) -> bool:
        found = self._arguments("current")[1] if self.has("current") else ()
        return {"i", "g"} <= {a.role for a in found}

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Parameters that derivatives are taken by, and where these are."""
        return [(name, f"by_values[e + {begin}u * num_rows]") for name, begin in self.by]

    def state(self, owner: str, name: str) -> str:
        return f"{owner}[e + {self.states.index(name) * self.count}u * num_rows]"

    def _input(self, a: Argument) -> str:
        """Return what a function takes for an argument that it reads."""
        if a.role in ("v", "dt"):
            return a.role
        if a.role == "t":
            return f"t_{a.name}"
        if a.role == "state":
            return f"s_{a.name}"
        if a.role == "table":
            return f"tables + {dict(self.tables)[a.name]}"
        if a.role == "seed":
            return (
                a.name.replace("state_", "by_") if a.name.startswith("state_") else f"seed_{a.name}"
            )
        return dict(self.columns)[a.name].at("j")

    def call(self, block: str) -> str:
        """Return the call of a block's function; states are in locals, ``s_NAME``."""
        name, arguments = self._arguments(block)
        before, values = list[str](), list[str]()
        for a in arguments:
            if a.direction == "in":
                values.append(self._input(a))
            elif a.role == "state":
                values.append(f"&s_{a.name}")
            else:
                before.append(f"lanes {a.role}_{a.name};")
                values.append(f"&{a.role}_{a.name}")
        return " ".join((*before, f"{name}({', '.join(values)});"))

    def pulled(self, block: str) -> list[str]:
        """Return statements that add what a call back gives; derivatives are ``by_NAME``."""
        sets = self.set_states if block == "advance" else set[str]()
        found = self.adjoints(BACK.format(block))
        lines = [f"by_{s} = 0;" for s in sorted(sets) if ("state", s) not in found]
        for role, name in found:
            result = f"adjoint_{role}_{name};"
            if role in ("v", "state"):
                to = "by_v" if role == "v" else f"by_{name}"
                lines.append(f"{to} {'=' if role == 'state' and name in sets else '+='} {result}")
            else:
                lines.append(f"of_{name} += {result}")
        return lines

    def adjoints(self, block: str) -> list[tuple[str, str]]:
        """Return role and name of all that a block back gives derivatives by."""
        found = self._arguments(block)[1] if self.has(block) else ()
        return [(a.name.partition("_")[0], a.name.partition("_")[2]) for a in found
                if a.role == "adjoint"]  # fmt: skip

    @property
    def set_states(self) -> set[str]:
        arguments = self._arguments("advance")[1] if self.has("advance") else ()
        return {a.name for a in arguments if a.role == "state" and a.direction != "in"}


@dataclass(frozen=True)
class GradientSpec(TemplateSpec):
    """``gradients.mako``; `matrix`, `axial`: derivatives by diagonals, by `u` are wanted."""

    template: ClassVar[str] = "simulator/gradients"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "take_step": (
            *(*_WHERE, _TREE, _TIMES, _VALUES, _RECORDS),
            "long v_now, long v_next, long now, long next, lanes *store",
            "const real *restrict changes, lanes *restrict rows",
            "real *restrict system_d, real *restrict system_b",
        ),
        "take_back": (
            *(*_WHERE, _TREE, _TIMES, _VALUES, _RECORDS),
            "long now, long next, const lanes *restrict store",
            "const real *restrict changes, const real *restrict solution",
            "const lanes *restrict rows, lanes *restrict slopes, lanes *restrict by_values",
            "real *restrict system_b",
            "lanes *by_diagonal if matrix, lanes *by_u if axial",
            "lanes *by_right if matrix, lanes *by_conductance if matrix",
        ),
        "take_tangents": (
            *(*_WHERE, _TREE, _TIMES, _VALUES, _RECORDS),
            "long now, long next, int num_entries, long size, const lanes *restrict store",
            "const real *restrict changes, const real *restrict tangent_changes",
            "const lanes *restrict seeds, lanes *tangents, lanes *restrict rows",
            "real *restrict system_b",
        ),
    }
    real: str
    width: int
    tile: int  # nodes that are neighbours in the solver's order, side by side
    secondorder: bool
    matrix: bool
    axial: bool
    directions: tuple[tuple[int, str, int], ...]  # kind, parameter, where its seeds begin
    registers: int  # of a work-item at most (NVIDIA's compiler); 0 leaves them to it
    columns: tuple[tuple[str, CopyColumn], ...]  # of the matrix, see `MATRIX`
    kinds: tuple[GradientKind, ...]
    functions: str

    def directions_of(self, kind: int) -> list[tuple[int, str, int]]:
        """Return the number, parameter and begin of the seeds of each direction of a kind."""
        return [(r, *d[1:]) for r, d in enumerate(self.directions) if d[0] == kind]

    @property
    def build_options(self) -> tuple[str, ...]:
        return (f"-cl-nv-maxrregcount={self.registers}",) if self.registers else ()

    def column(self, name: str, index: str) -> str:
        return dict(self.columns)[name].at(index)


Printed: TypeAlias = tuple[str, list[tuple[str, str, tuple[Argument, ...]]]]


def functions_of(
    mechanism: Mechanism, wanted: Collection[str], real: str, width: int, single: Collection[str]
) -> Printed:
    """Return the functions of a mechanism's blocks, forward and back, and their arguments.

    Derivatives by parameters are those by the `wanted` ones. They are printed once.
    """

    def counts(a: Argument) -> bool:
        return a.role in ("v", "i", "g", "state") or (a.role == "parameter" and a.name in wanted)

    def make() -> Printed:
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

    key = ("back", tuple(sorted(wanted)), real, width, tuple(single))
    found: Printed = mechanism.compiled.once(key, make)
    return found


def takes_vectors(mechanism: Mechanism) -> bool:
    """Whether functions of several copies at once can be printed."""
    blocks = (block for block in BLOCKS if block in mechanism.program.blocks)
    return all(mechanism.takes_vectors(block) for block in blocks)

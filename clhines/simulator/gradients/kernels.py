"""Specs for the gradient kernels: a step forward and back, for copies side by side."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from clhines.simulator.mechanisms.emit.functions import Functions
from clhines.simulator.mechanisms.emit.lanes import Lanes
from clhines.simulator.mechanisms.emit.series import SeriesNumbers
from clhines.simulator.mechanisms.ir.adjoints import BACK, adjoint_of
from clhines.simulator.mechanisms.ir.compiled import Compiled
from clhines.simulator.mechanisms.ir.passes.pull_back import GROWING
from clhines.simulator.mechanisms.ir.program import Argument
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.solver.plan.kernel_spec import Parameter, TemplateSpec, Word

BLOCKS = ("receive", "current", "advance")  # a step's blocks
TURN = Word(ends=1, begins=1, delivers=1, notes=1)  # a launch's tasks, between two steps
ENDS, BEGINS, DELIVERS, NOTES = (1 << shift for shift in TURN.shifts.values())
SPIKE = Word(count=7, slope=1)  # a source's events in a step; `slope`: its surrogate has one
MATRIX = ("capacitance", "constant_d", "constant_b", "constant_g", "u")
_WHERE = (
    "int num_nodes, int num_rows, const int *restrict order, const int *restrict of_node",
    "const int *restrict place",
)
_TREE = "const int *restrict parent, const int *restrict child, const int *restrict sibling"
# `turn`: a launch's tasks, see the template; `step`: the later step's index
_TIMES = "int step, int turn, const real *restrict times, real dt, real solved_dt, long slot"
_VALUES = "const real *restrict numbers, const lanes *restrict values, const real *restrict tables"
_RECORDS = "const int *restrict column, int num_columns"
_EVENTS = (
    "int num_sources if events, int num_targets if events, int num_copies if events",
    "const int *restrict incoming if events",
    "const int *restrict source if events, const int *restrict delay if events",
    "const real *restrict weight if events, uchar *spikes if events",
    "const int *restrict detector if events, const int *restrict next_detector if events",
    "const int *restrict detected if events, const real *restrict level if events",
)


def turn_of(k: int, count: int, more: int = DELIVERS) -> int:
    """Return the kernel argument ``turn`` of launch k, in a run of `count` steps.

    The launch ends step k - 1 (bit `ENDS`) unless k is 0, and begins step k (`BEGINS`) unless k is
    `count`. `more` has further bits, such as `DELIVERS` to deliver events.
    """
    return ENDS * (k > 0) | BEGINS * (k < count) | more


@dataclass(frozen=True)
class ChangingIon:
    """An ion whose reversal potential, concentrations and current are part of the state."""

    names: tuple[str, str, str, str]
    first: tuple[int, int, int, int]  # entries before each
    nernst: str | None  # the logarithm's factor, mV, if potentials follow concentrations
    follows: str  # 1 if the node's potential does, else 0

    def pairs(self) -> list[tuple[str, str]]:
        """Return (variable, OpenCL expression for the begin of its values in a state) pairs."""
        return [(n, f"{k}u * num_rows") for n, k in zip(self.names, self.first, strict=True)]


@dataclass(frozen=True)
class GradientKind:
    """Print one mechanism's block calls, forward and backward, for the gradient kernels.

    If `crowded`, a node may have several of the mechanism's instances.
    """

    number: int
    count: int
    crowded: bool
    first_target: int  # its first target's index; -1: it receives no events
    recorded: tuple[str, ...]  # states in records
    ions: frozenset[str]  # ion variables in the state
    late_ions: frozenset[str]  # members of `ions` that an earlier kind sets in ``advance``
    per_area: str | None  # factor from an ion current to a density; None: it is one
    states: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]  # OpenCL for parameters, ion variables and tables
    factor: str
    by: tuple[str, ...]  # parameters that derivatives are taken by
    blocks: tuple[tuple[str, str, tuple[Argument, ...]], ...]  # function and arguments
    series: bool  # functions get their series' numbers

    def entry(self, state: str) -> str:
        return f"first + {self.states.index(state)}"

    @property
    def weight(self) -> str:
        """The weight with respect to which NET_RECEIVE has a derivative; "" if there is none."""
        adjoints = self.adjoints(BACK.format("receive"))
        return next((name for role, name in adjoints if role == "weight"), "")

    @property
    def receives(self) -> bool:
        return self.first_target >= 0 and bool(self.weight)

    def blocks_back(self, part: str) -> list[tuple[str, str, str]]:
        """Return the blocks with derivatives as (name, part of a launch, the state's slot).

        A launch ends one step and begins the next one; `part` (``ends`` or ``begins``) selects the
        blocks in one of the two.
        """
        blocks = [("current", "begins", "later"), ("receive", "begins", "later"),
                  ("advance", "ends", "earlier")]  # fmt: skip
        return [one for one in blocks if part in ("", one[1]) and self._goes_back(one[0])]

    def _goes_back(self, block: str) -> bool:
        if block == "receive":
            return self.receives
        recorded = block == "advance" and bool(self.recorded)
        return recorded or self.has(BACK.format(block)) or bool(self.pulled(block))

    def each(self, stage: str) -> str:
        """Return the first lines of the OpenCL loop over the instances `j` at a node."""
        here, of_states, of_values = f"here_{stage}{self.number}", "", ""
        loop = f"if ({here}.x < {here}.y) {{\n        const int j = {here}.x;"
        if self.crowded:
            loop, k = f"for (int j = {here}.x; j < {here}.y; j++) {{", f"(j - {here}.x)"
            of_states, of_values = f" + {k} * {len(self.states)}", f" + {k} * {len(self.by)}"
        return (
            f"{loop}\n        const uint first = {here}.z{of_states}, e = first * num_rows + q;\n"
            f"        const uint value = ({here}.w{of_values}) * num_rows + q;"
        )

    def has(self, block: str) -> bool:
        return any(name == block for name, _, _ in self.blocks)

    def _arguments(self, block: str) -> tuple[Argument, ...]:
        return next((arguments for name, _, arguments in self.blocks if name == block), ())

    @property
    def gives_current(self) -> bool:
        return {"i", "g"} <= {a.role for a in self._arguments("current")}

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """(Parameter, OpenCL expression that stores its derivative) pairs."""
        return [(n, f"by_values[value + {k}u * num_rows]") for k, n in enumerate(self.by)]

    def state(self, owner: str, name: str) -> str:
        return f"{owner}[e + {self.states.index(name)}u * num_rows]"

    def _input(self, a: Argument) -> str:
        if a.role == "seed":
            return f"{'by' if a.name.startswith('state_') else 'seed'}_{a.name}"
        if a.role == "ion" and a.name in self.ions:
            return f"ion_{a.name}"
        variables = {"v": "v", "dt": "dt", "t": f"t_{a.name}", "state": f"s_{a.name}"}
        return {**variables, "weight": "sum"}.get(a.role) or dict(self.columns)[a.name]

    def call(self, block: str) -> str:
        """Return the OpenCL call of a block's function, with declarations of its results.

        The variable ``s_NAME`` has the state NAME, and gets its new value.
        """
        before, values = list[str](), ["series__"] * self.series
        for a in self._arguments(block):
            if a.direction == "in":
                values.append(self._input(a))
            elif a.role == "state":
                values.append(f"&s_{a.name}")
            elif a.role == "ion" and block == "advance":
                values.append(f"&ion_{a.name}")
            else:
                result = f"{a.role}_{a.name}" + "_" * (a.role == "ion")
                before.append(f"lanes {result};")
                values.append(f"&{result}")
        [function] = (function for name, function, _ in self.blocks if name == block)
        return " ".join((*before, f"{function}({', '.join(values)});"))

    def written(self, block: str, role: str) -> list[str]:
        """Return the variables with a `role`, such as ``state``, that a block sets, by name."""
        return [a.name for a in self._arguments(block) if a.role == role and a.direction != "in"
                and (role != "ion" or a.name in self.ions)]  # fmt: skip

    def read_ions(self, block: str) -> list[str]:
        return [a.name for a in self._arguments(block) if a.role == "ion" and a.direction != "out"
                and a.name in self.ions]  # fmt: skip

    def adds_current(self) -> list[str]:
        """Return statements that add the mechanism's ion currents to the sums at the node."""
        share = f" * {self.per_area}" if self.per_area else ""
        return [f"ion_{name} += ion_{name}_{share};" for name in self.written("current", "ion")]

    def seeds(self, block: str) -> list[tuple[str, str]]:
        """Return (result, OpenCL expression) for each of a block's results except states.

        The expression is the loss's derivative with respect to the result.
        """
        share = f" * {self.per_area}" if self.per_area and block == "current" else ""
        seeds = [(f"ion_{n}", f"by_ion_{n}{share}") for n in self.written(block, "ion")]
        if block == "current":
            seeds += [("i_i", f"-{self.factor} * by_b"), ("g_g", f"{self.factor} * by_d")]
        return seeds

    def pulled(self, block: str) -> list[str]:
        """Return OpenCL statements that add a block's adjoints to derivatives ``by_ROLE_NAME``."""
        roles = {"state": self.states, "ion": self.ions, "parameter": self.by}
        by = {(role, n): f"by_{role}_{n}" for role, names in roles.items() for n in names}
        by["v", "v"] = "by_v"
        back = BACK.format(block)
        seeds = {a.name for a in self._arguments(back)}
        # a text's events have all states as arguments; a state that they do not change has no seed
        replaced = [("state", s) for s in self.written(block, "state")
                    if block != "receive" or f"state_{s}" in seeds]  # fmt: skip
        if block == "advance":
            replaced += [("ion", n) for n in self.written(block, "ion")]
        adjoints = self.adjoints(back)
        lines = [f"{by[one]} = 0;" for one in replaced if one not in adjoints]
        return lines + [
            f"{by[one]} {'=' if one in replaced else '+='} adjoint_{one[0]}_{one[1]};"
            for one in adjoints if one in by
        ]  # fmt: skip

    def adjoints(self, block: str) -> list[tuple[str, str]]:
        """Return role and name of each input for which a block has an adjoint."""
        names = (a.name.partition("_") for a in self._arguments(block) if a.role == "adjoint")
        return [(role, name) for role, _, name in names]


@dataclass(frozen=True)
class GradientSpec(TemplateSpec):
    """Spec of ``gradients.mako``.

    With `matrix`, kernels also compute derivatives with respect to nodes' constant currents and
    conductances; with `diagonal`, to the matrix's diagonal apart from conductances; with `axial`,
    to `u`.
    """

    template: ClassVar[str] = "simulator/gradients"
    turn: ClassVar[Word] = TURN
    spike: ClassVar[Word] = SPIKE
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "start_copies": ("int num_rows, const real *restrict start, lanes *restrict store",),
        "to_natural": (
            "int num_rows, int num_copies, const int *restrict entries",
            "const real *restrict packed, real *restrict natural",
        ),
        "take_step": (
            *(*_WHERE, _TREE, _TIMES, _VALUES, _RECORDS, *_EVENTS),
            "const int *restrict hold if events, int *held if events",
            "const real *restrict outside if outside",
            "int now, int next, lanes *store",
            "const real *restrict changes, lanes *restrict rows",
            "real *restrict system_d, real *restrict system_b",
        ),
        "take_back": (
            *(*_WHERE, _TREE, _TIMES, _VALUES, _RECORDS, *_EVENTS),
            "const real *restrict outside if outside",
            "real *by_weight if events, real *by_outside if outside",
            "real *by_sum if surrogate, int num_slots if surrogate",
            "const int *restrict outgoing if surrogate, const int *restrict sent if surrogate",
            "const int *restrict target if surrogate, real surrogate_width if surrogate",
            "int now, int next, const lanes *restrict store",
            "const real *restrict changes, const real *restrict solution",
            "const lanes *restrict rows, lanes *restrict slopes, lanes *restrict by_values",
            "real *restrict system_b",
            "lanes *restrict by_diagonal if diagonal, lanes *restrict by_u if axial",
            "lanes *restrict by_right if matrix, lanes *restrict by_conductance if matrix",
        ),
        "take_tangents": (
            *(*_WHERE, _TREE, _TIMES, _VALUES, _RECORDS),
            "int now, int next, int num_entries, long size, const lanes *restrict store",
            "const real *restrict changes, const real *restrict tangent_changes",
            "const lanes *restrict seeds, lanes *tangents, lanes *restrict rows",
            "real *restrict system_b",
        ),
    }
    real: str
    width: int
    secondorder: bool
    matrix: bool
    axial: bool
    diagonal: bool  # apart from conductances
    events: bool  # spikes act on targets
    outside: bool  # events from outside, too
    columns: tuple[tuple[str, str], ...]  # the matrix, see `MATRIX`; ``{}`` for the index
    kinds: tuple[GradientKind, ...]
    ions: tuple[ChangingIon, ...]
    recorded_ions: tuple[tuple[str, int], ...]  # ion variables, and the entries before each
    functions: str
    tile: int = 1  # nodes side by side, in the solver's order
    surrogate: bool = False  # spikes have a sigmoid's slope
    directions: tuple[tuple[int, str, int], ...] = ()  # kind, parameter, first seed
    registers: int = 0  # most per work-item (NVIDIA's compiler); 0: its choice
    lanes: Lanes | None = None  # functions are for GPU lanes
    kernel: str = ""  # the source's only one; else all are there
    stride: int = 0  # between a node's places in all copies; 0: each has its own
    branches: ClassVar[bool] = True  # copies side by side mostly take the same, see ``rates.mako``
    terms: ClassVar[tuple[int, ...]] = ()  # shorter series, see ``rates.mako``

    def parameters(self, kernel: str) -> list[Parameter]:
        names = self.series_numbers.arguments if self.lanes else ()
        return [*super().parameters(kernel), *(Parameter(name, "real") for name in names)]

    @property
    def sums(self) -> list[str]:
        """Names of the kernel's sums for each node: derivatives by the system's terms."""
        names = ["by_right", "by_conductance"] if self.matrix else []
        return names + ["by_diagonal"] * self.diagonal + ["by_u"] * self.axial

    @property
    def series_numbers(self) -> SeriesNumbers:
        return SeriesNumbers(self.real)

    @property
    def ptx(self) -> bool:
        return self.lanes is not None and self.lanes.inverses

    @property
    def ion_places(self) -> list[tuple[str, str]]:
        return [pair for ion in self.ions for pair in ion.pairs()]

    @property
    def rounds(self) -> list[tuple[tuple[GradientKind, ...], str]]:
        """The loops in a forward launch, each with its mechanisms and the part of the launch.

        A single loop, which reads states once, suffices if no ion changes.
        """
        return [(self.kinds, "ends"), (self.kinds, "begins")] if self.ions else [(self.kinds, "")]

    def row(self, entry: str) -> str:
        """Return the OpenCL expression for the element of ``rows`` that records a state's entry.

        `entry` is the text of its index in the state.
        """
        return f"rows[((size_t)step * num_columns + column[{entry}]) * num_rows + q]"

    def directions_of(self, kind: int) -> list[tuple[int, str, int]]:
        return [(r, *d[1:]) for r, d in enumerate(self.directions) if d[0] == kind]

    @property
    def build_options(self) -> tuple[str, ...]:
        return (f"-cl-nv-maxrregcount={self.registers}",) if self.registers else ()

    def column(self, name: str, index: str) -> str:
        return dict(self.columns)[name].format(index)


Printed: TypeAlias = tuple[str, list[tuple[str, str, tuple[Argument, ...]]]]


def functions_of(
    mechanism: Mechanism,
    wanted: Collection[str],
    ions: frozenset[str],
    real: str,
    width: int,
    single: Collection[str],
    lanes: Lanes | None,
) -> Printed:
    """Return OpenCL source for a mechanism's blocks and their derivatives, and their arguments.

    Derivatives are with respect to the `wanted` parameters and the variables `ions`. Repeated calls
    with the same arguments return the same object.
    """
    growing = GROWING if lanes is None else GROWING - {"exp"}  # which ``rates.mako`` limits

    def counts(a: Argument) -> bool:
        named = {"parameter": wanted, "ion": ions}.get(a.role)
        return a.role in ("v", "i", "g", "state", "weight") or a.name in (named or ())

    def make() -> Printed:
        compiled: Compiled = mechanism.compiled
        names = [block for block in BLOCKS if block in mechanism.program.blocks]
        for block in names[:]:
            adjoint = adjoint_of(compiled, block, counts=counts, growing=growing)
            if adjoint is not None and adjoint.by:
                compiled = adjoint.compiled
                names.append(adjoint.name)
        printed = Functions(compiled, real, width, tuple(single), lanes=lanes)
        blocks = [
            (name, f"{printed.prefix}_{compiled.bodies[name].suffix or name}", printed.calls(name))
            for name in names
        ]
        return printed.text(names), blocks

    how = real, width, tuple(single), lanes
    key = ("back", tuple(sorted(wanted)), tuple(sorted(ions)), *how)
    printed: Printed = mechanism.compiled.once(key, make)
    return printed

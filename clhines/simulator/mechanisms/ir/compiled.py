"""A compiled mechanism: its `Program`, and a `Body` of expressions for each block.

Symbols in the expressions stand for arguments (`emit.functions.name_of` has their names) or, if
they are `NEVER` or in `BOUNDS`, for numbers that depend on the precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from clhines.core.errors import InputError, shown
from clhines.simulator.mechanisms.ir.expressions import ExpressionError, Node, free_of
from clhines.simulator.mechanisms.ir.forms import linear_parts
from clhines.simulator.mechanisms.ir.program import Argument, IonUse, Program

NEVER = "_never"  # infinity: when an event that is not sent is due
# bounds at which iterations end, in float64 and in float32 (whose rounding errors exceed
# float64's bounds): first for NEURON's iterations, then for the texts' iterations
BOUNDS = {
    "_bound_change": (Fraction(1, 10**6), Fraction(1, 10**5)),  # relative, for a state
    "_bound_size": (Fraction(1, 10**8), Fraction(1, 10**4)),  # for states whose change counts
    "_bound_rest": (Fraction(1, 10**8), Fraction(10**30)),  # for an equation
    "_bound_sum": (Fraction(1, 10**6), Fraction(3, 10**5)),  # for the changes in a KINETIC block
    "_bound_relative": (Fraction(1, 10**9), Fraction(1, 10**4)),  # for a change (quadratic method)
    "_bound_absolute": (Fraction(1, 10**14), Fraction(1, 10**8)),
}


@dataclass
class Loop:
    """A loop in a block: repeat the assignments ``names = values`` while `go_on` is true.

    If the loop solves equations, `equations` has expressions in terms of `names` that are 0 at its
    end, one for each of its first variables. Only derivatives need them.
    """

    names: list[str]  # its variables' symbols inside the loop
    ends: list[str]  # its variables' symbols after the loop
    starts: list[Node]  # its variables' values before the first iteration
    values: list[Node] = field(default_factory=list)  # its variables' values after an iteration
    go_on: Node | None = None  # set once an iteration is complete
    most: int = 0  # most turns; a loop that needs more has failed, and its results are NaN
    entered: Node | None = None  # whether there is a first iteration; None: always
    equations: list[Node] = field(default_factory=list)

    def decides(self) -> list[Node]:
        return [e for e in (self.go_on, self.entered) if e is not None]

    def nodes(self) -> list[Node]:
        return self.starts + self.values + self.decides()

    def mapped(self, f: Callable[[Node], Node]) -> Loop:
        go_on, entered = (None if e is None else f(e) for e in (self.go_on, self.entered))
        starts, values = [*map(f, self.starts)], [*map(f, self.values)]
        return replace(self, starts=starts, values=values, go_on=go_on, entered=entered)

    def without_unneeded(self, free: Set[str]) -> Loop:
        """Drop variables that no iteration needs and whose values after the loop nothing uses.

        `free` has the names of the values after the loop that are used.
        """
        count = len(self.names)
        inside = free_of(self.decides())
        kept = {k for k in range(count) if self.ends[k] in free or self.names[k] in inside}
        while True:
            inside = free_of(self.values[k] for k in kept)
            more = kept | {k for k in range(count) if self.names[k] in inside}
            if more == kept:
                break
            kept = more
        some = sorted(kept)
        names, ends = ([column[k] for k in some] for column in (self.names, self.ends))
        starts, values = ([column[k] for k in some] for column in (self.starts, self.values))
        new = replace(self, names=names, ends=ends, starts=starts, values=values)
        return new if kept >= {*range(len(self.equations))} else replace(new, equations=[])


@dataclass
class Body:
    """A block's expressions: its results, the variables that it writes, and its loops."""

    results: list[tuple[str, str, Node]] = field(default_factory=list)  # role, name, value
    writes: dict[str, Node] = field(default_factory=dict)  # variables' values by name, in order
    loops: list[Loop] = field(default_factory=list)  # each may use earlier loops' ends
    comment: str = ""  # the function's comment, if it is not the usual one
    suffix: str = ""  # end of the function's name, if it is not the block's name

    def nodes(self, wanted: Iterable[str]) -> list[Node]:
        """Return the expressions of results, of variables in `wanted`, and of loops for these."""
        nodes = [node for _, _, node in self.results]
        nodes += [self.writes[name] for name in wanted if name in self.writes]
        for loop in self.needed_loops(nodes):
            nodes += loop.nodes()
        return nodes

    def free(self, wanted: Iterable[str]) -> set[str]:
        return free_of(self.nodes(wanted))

    def every(self) -> list[Node]:
        nodes = [*(node for _, _, node in self.results), *self.writes.values()]
        return nodes + [node for loop in self.loops for node in loop.nodes()]

    def needed_loops(self, roots: Iterable[Node]) -> list[Loop]:
        """Return the loops on which `roots` depend, without loop variables that nothing needs."""
        free = free_of(roots)
        needed: list[Loop] = []
        for loop in reversed(self.loops):
            if not free.isdisjoint(loop.ends):
                needed.append(loop.without_unneeded(free))
                free |= free_of(needed[-1].nodes())
        return needed[::-1]

    def mapped(self, f: Callable[[Node], Node]) -> Body:
        results = [(role, name, f(node)) for role, name, node in self.results]
        writes = {name: f(node) for name, node in self.writes.items()}
        return replace(
            self, results=results, writes=writes, loops=[loop.mapped(f) for loop in self.loops]
        )


@dataclass(frozen=True, eq=False)
class Compiled:
    """A mechanism, from an NMODL file or a text of equations, as its blocks' expressions."""

    program: Program
    bodies: Mapping[str, Body]
    about: tuple[str, ...] = ()  # its description's lines
    shown: tuple[str, ...] = ()  # blocks whose statements belong to the description
    constant: bool = False  # i is linear in v and depends on parameters alone: models sum it once
    pointers: Mapping[str, str] = field(default_factory=dict)  # each pointer's symbol
    printed: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False)

    def once(self, key: tuple[object, ...], make: Callable[[], Any]) -> Any:
        """Return the cached result of `make` for a key; call `make` the first time only.

        InputError if an expression is too large.
        """
        if key not in self.printed:
            try:
                self.printed[key] = make()
            except ExpressionError as error:
                raise InputError(f"mechanism {self.program.name}: {error}") from error
        return self.printed[key]

    def calls(self, block: str, outputs: Sequence[str] = ()) -> tuple[Argument, ...]:
        """Return the arguments of a block's function: its inputs and its results.

        Variables in `outputs` are results, too, if the block sets them.
        """
        if not isinstance(block, str) or block not in self.program.blocks:
            blocks = ", ".join(self.program.blocks)
            raise InputError(
                f"mechanism {self.program.name} has no block {shown(block)}; it has {blocks}"
            )
        writes = self.bodies[block].writes
        if writes.keys().isdisjoint(outputs):
            return self.program.blocks[block]
        names = (*(q.name for q in self.program.states), *outputs)
        kept = {name for name in names if name in writes}
        return arguments_of(self.program, self.pointers, block, self.bodies[block], kept)

    def adds(self, block: str, state: str) -> bool | None:
        """Return True if a block only adds to a state, False if it neither uses nor changes it.

        None if the block uses or changes the state in any other way.
        """
        body = self.bodies.get(block, Body())
        others = replace(body, writes={k: e for k, e in body.writes.items() if k != state})
        if any(node.uses(state) for node in others.every()):
            return None
        value = body.writes.get(state)
        if value is None:
            return False
        parts = linear_parts(value, state)
        is_sum = parts is not None and parts[1] is value.graph.one
        return parts[0] is not value.graph.zero if parts is not None and is_sum else None

    def free(self, block: str) -> set[str]:
        return self.bodies[block].free([q.name for q in self.program.states])

    @cached_property
    def start_uses(self) -> frozenset[str]:
        """Parameters on which the initial state depends, except through results of `current`."""
        later = "advance", "diffuse", "after_solve", "current"
        return self._parameters_of(block for block in self.program.blocks if block not in later)

    @cached_property
    def table_uses(self) -> frozenset[str]:
        families = "grid_", "table_"
        return self._parameters_of(b for b in self.program.blocks if b.startswith(families))

    @cached_property
    def current_uses(self) -> frozenset[str]:
        """Parameters in the expressions of `current`; none if its only results are `i` and `g`."""
        arguments = self.program.blocks.get("current", ())
        if all(a.direction == "in" or a.role in ("i", "g") for a in arguments):
            return frozenset()
        return self._parameters_of(["current"])

    def _parameters_of(self, blocks: Iterable[str]) -> frozenset[str]:
        free = {name for block in blocks for name in self.free(block)}
        return frozenset(free & self.program.defaults.keys())

    @cached_property
    def reads_first_currents(self) -> bool:
        """Whether blocks may read results of `current` before the first step computes them.

        Otherwise only users can see the currents of the initial state.
        """
        blocks, currents = self.program.blocks, {f"i{ion.name}" for ion in self.program.ions}
        of_current = [a for a in blocks.get("current", ()) if a.direction != "in"]
        states = {a.name for a in of_current if a.role == "state"}
        set_again = "i", "g", "ion_current", "state", "output"
        if any(
            a.role not in set_again and not (a.role == "ion" and a.name in currents)
            for a in of_current
        ):
            return True
        early = ("receive", "watch", "before_breakpoint", "before_step", "current")
        return any(
            a.direction != "out"
            and (
                (a.role == "state" and a.name in states)
                or (a.role == "ion" and a.name in currents and block != "current")
            )
            for block, arguments in blocks.items()
            if block in early or block.startswith("for_netcons")
            for a in arguments
        )


def arguments_of(
    program: Program, pointers: Mapping[str, str], block: str, body: Body, kept: set[str]
) -> tuple[Argument, ...]:
    free = body.free(kept)
    role_names = {"v": "v", "t": "end" if block == "advance" else "now", "dt": "dt"}
    arguments = [Argument(role, name) for role, name in role_names.items() if role in free]
    arguments += [Argument(role, role) for role in ("x", "flag") if f"_{role}" in free]
    arguments += [Argument("parameter", q.name) for q in program.parameters if q.name in free]
    tables = sorted(s for s in free if s.endswith("__table"))
    arguments += [Argument("table", s.removesuffix("__table")) for s in tables]
    arguments += _pointers(body, free, pointers)
    arguments += ion_arguments(body, free, program.ions)
    arguments += _weights(body, free)
    arguments += _streams(body, free, program.random)
    if "noise" in free and any(a.role == "noise" for a in program.blocks.get(block, ())):
        arguments.append(Argument("noise", "noise"))
    arguments += _kept(kept, free, [q.name for q in program.states])
    apart = ("ion", "weight", "other_weight", "drawn")
    results = (Argument(role, name, "out") for role, name, _ in body.results if role not in apart)
    return (*arguments, *results)


def _pointers(body: Body, free: set[str], pointers: Mapping[str, str]) -> list[Argument]:
    steered = {name for role, name, _ in body.results if role == "steer"}
    return [
        Argument("steered" if p in steered else "pointer", p, symbol="" if symbol == p else symbol)
        for p, symbol in pointers.items()
        if symbol in free
    ]


def _streams(body: Body, free: set[str], random: Sequence[str]) -> list[Argument]:
    drawn = {name for role, name, _ in body.results if role == "drawn"}
    arguments = []
    for name in random:
        if f"{name}__stream" in free:
            arguments.append(Argument("stream", name))
        if name in drawn:
            arguments.append(Argument("drawn", name, "inout"))
    return arguments


def _kept(kept: Set[str], free: set[str], states: Sequence[str]) -> list[Argument]:
    """Return arguments for states that a block reads or sets (`kept`), then for outputs it sets."""
    arguments = []
    for key in states:
        if key in kept:
            arguments.append(Argument("state", key, "inout" if key in free else "out"))
        elif key in free:
            arguments.append(Argument("state", key))
    return arguments + [Argument("output", key, "out") for key in sorted(kept - {*states})]


def ion_arguments(body: Body, free: set[str], ions: Sequence[IonUse]) -> list[Argument]:
    """Return the arguments for ion variables; the block reads the symbols in `free`."""
    arguments = []
    written = {name for role, name, _ in body.results if role == "ion"}
    for ion in ions:
        for name in dict.fromkeys((*ion.reads, *ion.writes)):
            current = name == f"i{ion.name}"
            read = name in free and (name in ion.reads or not current)
            if current:
                arguments += [Argument("ion", name)] if read else []
                arguments += [Argument("ion", name, "out")] if name in written else []
            elif read or name in written:
                direction = ("inout" if read else "out") if name in written else "in"
                arguments.append(Argument("ion", name, direction))
    return arguments


def _weights(body: Body, free: set[str]) -> list[Argument]:
    directions: dict[tuple[str, str], str] = {}
    for symbol in sorted(free):
        for role, end in (("weight", "__weight"), ("other_weight", "__other")):
            if symbol.endswith(end) and symbol.startswith("_"):
                directions[role, symbol[1:].removesuffix(end)] = "in"
    for role, name, _ in body.results:
        if role in ("weight", "other_weight"):
            directions[role, name] = "inout" if (role, name) in directions else "out"
    return [Argument(role, name, direction) for (role, name), direction in directions.items()]

"""Mechanism calls in epoch kernels: by node, in lists of nodes, or by instance.

`ArenaSpec` has the functions and arenas. In lists, a lane does for its node the work of two kernels
of the engine `steps`: it ends a step, then processes events and computes currents for the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from clhines.simulator.gpu.words import WARP
from clhines.simulator.kinds.kind import CallValues, KindBlocks, call_of
from clhines.simulator.mechanisms.ir.program import Argument
from clhines.simulator.records.records import CURRENT

HALVES = {"begin": "", "mid": " + half_dt", "end": " + half_dt + half_dt"}  # from a step's begin


@dataclass(frozen=True)
class ListBlocks(KindBlocks):
    """Print a mechanism's calls for kernels in which a lane advances a node from a list.

    If `lined`, states are in the lists during a launch and in the arena `mem` between launches.
    """

    given: tuple[tuple[str, str, str], ...] = ()  # role, name, source; the rest is in the arena
    held: bool = False  # currents follow the states' step at once, with states in variables
    num_values: int = 0  # value lines per instance in a list
    quick: bool = False  # functions are printed for `Lanes`
    lined: bool = False  # states are in lines of the lists during a launch
    local: bool = False  # these lines are in local memory
    sums: tuple[str, ...] = ()  # ions whose currents are summed
    apart: bool = False  # in no list: lanes advance instances, not nodes
    sole: bool = False  # apart, and alone at nodes around others, which may be in no list
    constants: tuple[str, ...] = ()  # the functions' constants, computed once per launch
    first_constant: int = 0  # the first one's index among all kinds' constants
    unread: tuple[str, ...] = ()  # states without a line, as only outputs read them
    shown: tuple[str, ...] = ()  # states in lines that pointers read in their arena
    leads: bool = False  # see `EpochSpec`

    @property
    def in_lines(self) -> list[str]:
        return [name for name in self.states if name not in self.unread]

    @property
    def alone(self) -> bool:
        """Whether ``advance``, the step of states, sets only its own instance's states."""
        arguments = self.arguments("advance") if self.has("advance") else ()
        return all(a.role == "state" for a in arguments if a.direction != "in")

    def leading(self, block: str) -> tuple[str, ...]:
        return ("series__",) * self.quick

    @property
    def alike(self) -> tuple[str, ...]:
        """Parameters with a single value for all instances, passed as kernel arguments."""
        return tuple(
            name for role, name, x in self.given if role == "parameter" and x.startswith("numbers.")
        )

    @property
    def constants_call(self) -> str:
        """Statements that fill ``once__`` with the values that do not change during a launch."""
        values = {name: x for role, name, x in self.given if role == "parameter"}
        ordered = [values[name] for name, _ in self.parameters if name in self.alike]
        count, first = len(self.constants), self.first_constant
        results = [f"c + {k}" for k in range(count)]
        call = call_of(f"{self.name}_constants", ["series__", "dt", *ordered, *results], 8)
        puts = "".join(f"        once__[{first + k}] = c[{k}];\n" for k in range(count))
        return f"        real c[{count}];\n{call}{puts}"

    def changed(self, block: str) -> list[str]:
        if not self.has(block):
            return []
        return [a.name for a in self.arguments(block) if a.role == "state" and a.direction != "in"]

    def state(self, name: str) -> str:
        if self.held:
            return f"s_{name}"
        return super().state(name) if name in self.unread else self.line(name)

    def line(self, name: str) -> str:
        """Return a state's OpenCL expression: in a list if `lined`, else in `mem`."""
        if not self.lined:
            return self.places.state(name)
        return f"{'local_state' if self.local else 'state'}[{self.in_lines.index(name) * WARP}]"

    def value(self, a: Argument, values: CallValues) -> str:
        if a.role == "constant":
            return f"once__[{self.first_constant + self.constants.index(a.name)}]"
        if self.is_last(a):
            return self.places.turn(a.name, values["turn"])
        if values.get("sums") and a.role == "ion" and a.name in [f"i{ion}" for ion in self.ions]:
            return f"sum_{a.name}"  # the sum of the kinds before
        expressions = [x for role, name, x in self.given if (role, name) == (a.role, a.name)]
        return expressions[0] if expressions else super().value(a, values)

    def reads_node(self, block: str) -> bool:
        """Whether a call of `block` needs its node's index, to read or set ion variables."""
        constant = {name for role, name, _ in self.given if role == "ion"}
        return any(
            a.role == "ion" and a.name not in constant
            and (a.direction != "out" or not self.adds_current(a, block))
            for a in self.arguments(block)
        )  # fmt: skip

    def stores(self, a: Argument, block: str, local: str) -> list[str]:
        current = a.role == "ion" and a.name in [f"i{ion}" for ion in self.ions]
        if block == "current" and (current or a.role == "ion_current"):
            share = " * (100 / mem[area + a])" if self.kind == "point" else ""
            if a.name.removeprefix("i") not in self.sums:
                return []
            return [f"{'sum' if current else 'slope'}_{a.name} += {local}{share};"]
        if a.role == "state" and a.name in self.unread:  # the template's `seldom` stores it
            return [f"s_{a.name} = {local};"] if self.held else []
        stores = super().stores(a, block, local)
        if a.role == "state" and a.name in self.shown and not self.held:
            stores.append(f"{self.places.state(a.name)} = {local};")
        if self.leads and a.role == "state" and a.name in self.last:
            place = self.places.turn(a.name, "turn_now")
            stores.append(f"if (j == last_{self.number}) {place} = {local};")
        return stores


@dataclass(frozen=True)
class SiteBlocks(KindBlocks):
    """Print a mechanism's calls for kernels in which a lane advances instance after instance.

    During a launch states are in variables; currents are added up in local memory. `literals` are
    the parameters that all instances share; the arena `mem` has the others.
    """

    literals: tuple[tuple[str, str], ...] = ()
    constants: tuple[str, ...] = ()  # the functions' constants, computed once per launch
    series: bool = False  # functions get their series' coefficients
    most: int = 0  # instances per work-group
    factor: str = ""  # a literal: a node's factor over its C/dt
    local: bool = True  # states are in local memory during a launch
    first_target: int = 0  # instance 0's index among event targets

    def leading(self, block: str) -> tuple[str, ...]:
        return ("series__",) * self.series

    def state(self, name: str) -> str:
        return f"s_{name}"

    def during(self, name: str) -> str:
        """Return a state's OpenCL expression during a launch; ``q`` counts a lane's instances."""
        if self.local:
            return f"{self.name}__local[{self.states.index(name) * self.most} + q]"
        return self.places.state(name)

    def value(self, a: Argument, values: CallValues) -> str:
        if a.role == "parameter":
            return dict(self.literals).get(a.name) or self.places.parameter(a.name)
        if a.role == "constant":
            return self.constant_names[self.constants.index(a.name)]
        return values["sum"] if a.role == "weight" else super().value(a, values)

    @property
    def uses_noise(self) -> bool:
        return any(a.role == "noise" for a in self.arguments("current"))

    @property
    def current_place(self) -> str:
        """Expression for where to store instance j's recorded current, "" if it is not recorded."""
        return self.places.output(CURRENT) if CURRENT in self.outputs else ""

    @property
    def recorded_current(self) -> str:
        """The variable with the current to record: the block's output, or the current itself."""
        return "new_output_i" if self.asks("current", "output") else "i_i"

    def stores(self, a: Argument, block: str, local: str) -> list[str]:
        return [] if a.role == "output" else super().stores(a, block, local)

    @property
    def own_factor(self) -> str:
        return f"mem[factor_{self.number} + j]"

    @property
    def constant_names(self) -> list[str]:
        return [f"{self.name}__c{k}" for k in range(len(self.constants))]

    @property
    def constants_call(self) -> str:
        results = [f"&{name}" for name in self.constant_names]
        passed = [*self.leading("constants"), "dt", *(x for _, x in self.literals), *results]
        return call_of(f"{self.name}_constants", passed, 4)

    def advance(self, indent: int) -> str:
        begin = "step_begin[step - 1 - first_time]"
        return self.call("advance", self._at(begin, HALVES["end"]), indent)

    def event(self, indent: int) -> str:
        values = self._at("step_begin[step - first_time]", HALVES["mid"])
        return self.call("receive", {**values, "sum": "(real)sum * scale_of_events"}, indent)

    def current(self, indent: int) -> str:
        values = self._at("step_begin[step - first_time]", HALVES["mid"])
        plain = replace(self, outputs=())
        return KindBlocks.call(plain, "current", {**values, "noise": "noise"}, indent)

    def _at(self, begin: str, now: str) -> CallValues:
        ends = {"begin": begin, "now": begin + now, "end": begin + HALVES["end"]}
        return {"v": "v", "dt": "dt", **{f"t {name}": t for name, t in ends.items()}}

    def current_again(self, indent: int) -> str:
        """Return the statements of `current` with operands that the compiler cannot compare.

        A current may be computed twice, for the matrix and for a record. If the compiler saw equal
        operands, it might fuse both differently, and the last bits would depend on records.
        """
        space, names = " " * indent, ["v", *(f"s_{name}" for name in self.states)]
        lines = [f"volatile real again__[{len(names)}] = {{{', '.join(names)}}};"]
        lines += [f"const real {name} = again__[{n}];" for n, name in enumerate(names)]
        text = "".join(f"{space}{line}\n" for line in lines)
        return text + self.current(indent)

"""`KindBlocks`: print calls of a mechanism's blocks in kernels."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from clhines.simulator.kinds.places import ArenaPlaces
from clhines.simulator.mechanisms.emit.printer import wrapped
from clhines.simulator.mechanisms.ir.program import Argument
from clhines.simulator.records.records import CURRENT

CallValues = dict[str, str]  # role ("v"), or role and name ("t now") -> expression


def fields_of(spec: Any) -> dict[str, Any]:
    """Return a spec's fields by name, as arguments for a derived class's spec."""
    return {f.name: getattr(spec, f.name) for f in fields(spec)}


def call_of(function: str, passed: list[str], indent: int) -> str:
    """Print a call of `function` with the arguments `passed`, in lines of limited length."""
    text = wrapped([*passed[:-1], passed[-1] + ");"], indent + len(function) + 1)
    return f"{' ' * indent}{function}({text}\n"


@dataclass(frozen=True)
class KindBlocks:
    """Print block calls for a mechanism's instances in a network, for templates."""

    number: int
    name: str
    functions: str
    kind: str  # ``density``, ``point`` or ``artificial``
    blocks: tuple[tuple[str, str, tuple[Argument, ...]], ...]  # name, function, its arguments
    parameters: tuple[tuple[str, bool], ...]  # name, and whether all instances share one number
    states: tuple[str, ...]
    outputs: tuple[str, ...]
    queue: int
    emits: bool
    ions: tuple[str, ...]  # all ions in the network
    weights: tuple[str, ...] = ()
    sends: tuple[str, ...] = ()  # by statement that sends: event, self or move
    watch_flags: tuple[float, ...] = ()
    for_netcons: int = 0
    has_net: bool = False  # receives events at exact times
    summed: bool = False  # receives the summed weights of a step's events
    vectors: tuple[tuple[str, str], ...] = ()  # block and its function for `ArenaSpec.width`
    rows: bool = False  # at most one instance per node
    last: tuple[str, ...] = ()  # states that all instances read from the last one
    plays: bool = field(default=False, repr=False)  # its events read a played parameter
    reads: tuple[str, ...] = field(default=(), repr=False)  # pointers to others' states

    def leading(self, block: str) -> tuple[str, ...]:
        return ()

    @property
    def events(self) -> tuple[str, ...]:
        return ("receive", "watch", *(f"for_netcons{n}" for n in range(self.for_netcons)))

    @property
    def takes_events(self) -> bool:
        return self.has_net or self.summed

    @property
    def watches(self) -> int:
        return len(self.watch_flags)

    def has(self, block: str) -> bool:
        argument_lists = [arguments for name, _, arguments in self.blocks if name == block]
        return any(a.direction != "in" for arguments in argument_lists for a in arguments)

    def arguments(self, block: str) -> tuple[Argument, ...]:
        return next(arguments for name, _, arguments in self.blocks if name == block)

    def is_last(self, a: Argument) -> bool:
        """Whether a block's argument is a GLOBAL variable that the last instance sets for all."""
        return a.role == "state" and a.direction == "in" and a.name in self.last

    def sets_states(self, block: str) -> bool:
        return any(a.role == "state" and a.direction != "in" for a in self.arguments(block))

    def points_to_voltages(self, block: str) -> bool:
        return any(name not in self.reads for name in self.asks(block, "pointer"))

    def asks(self, block: str, role: str) -> list[str]:
        return [a.name for a in self.arguments(block) if a.role == role]

    @property
    def singles(self) -> tuple[str, ...]:
        return tuple(name for name, single in self.parameters if single)

    @property
    def several(self) -> tuple[str, ...]:
        return tuple(name for name, single in self.parameters if not single)

    @property
    def places(self) -> ArenaPlaces:
        """Expressions for instance j's values in the arenas."""
        named = self.singles, self.several, self.states, self.outputs, self.weights
        return ArenaPlaces(self.number, *named)

    def state(self, name: str) -> str:
        return self.places.state(name)

    def bare_current(self, block: str) -> str:
        """Return the expression for a recorded current that is no output of `block`, or "".

        The result is "" unless `block` is ``current`` and its current is recorded.
        """
        if block != "current" or CURRENT not in self.outputs:
            return ""
        return "" if CURRENT in self.asks(block, "output") else self.places.output(CURRENT)

    def call(self, block: str, values: CallValues, indent: int) -> str:
        space = " " * indent
        before, passed, after = [], [*self.leading(block)], []
        for a in self.arguments(block):
            if a.direction == "in":
                passed.append(self.value(a, values))
                continue
            new = "new_" if a.role in ("state", "output", "ion", "ion_current") else ""
            new = "new_" if a.role.endswith("weight") else new
            local = f"{new}{a.role}_{a.name.replace('.', '_')}"
            start = f" = {self.value(a, values)}" if a.direction == "inout" else ""
            sort = "ulong" if a.role == "drawn" else "real"
            before.append(f"{space}{sort} {local}{start};\n")
            passed.append(f"&{local}")
            after += [f"{space}{line}\n" for line in self.stores(a, block, local)]
        if self.bare_current(block):
            after.append(f"{space}{self.bare_current(block)} = i_i;\n")
        function = next(f for name, f, _ in self.blocks if name == block)
        text = f"{space}{function}(\n{space}    {wrapped(passed or [''], indent + 4, 97)});\n"
        return "".join([*before, text, *after])

    def adds_current(self, a: Argument, block: str) -> bool:
        """Whether a block's result `a` is added to an ion's current, or to this current's slope."""
        is_own = block == "current" and a.name in [f"i{ion}" for ion in self.ions]
        return a.role == "ion_current" or (a.role == "ion" and is_own)

    def value(self, a: Argument, values: CallValues) -> str:
        """Return the OpenCL expression for a block's input `a`; `values` as in `call`."""
        places = self.places
        if a.role == "parameter":
            return places.parameter(a.name)
        if a.role == "state":
            place, last = self.state(a.name), f" + last_{self.number}]"
            return place.removesuffix(" + j]") + last if self.is_last(a) else place
        if a.role == "ion":
            return f"mem[ion_{a.name} + a]"
        if a.role == "t":
            return f"(real)({values['t ' + a.name]})"
        if a.role == "table":
            return f"mem + table_{self.number}_{a.name}"
        if a.role == "pointer":
            place = places.pointer(a.name)
            return f"mem[{place}]" if a.name in self.reads else values["pointer"].format(place)
        if a.role == "weight":
            return f"weight_at < 0 ? {values.get('sum', '0')} : {places.weight(a)}"
        if a.role in ("other_weight", "steered"):
            return places.weight(a)
        if a.role == "stream":
            return places.stream(a.name)
        if a.role == "drawn":
            low, high = places.drawn(a.name)
            return f"((uint){low} | (ulong)(uint){high} << 32)"
        return values[a.role]

    def stores(self, a: Argument, block: str, local: str) -> list[str]:
        places = self.places
        if a.role == "state":
            return [f"{self.state(a.name)} = {local};"]
        if a.role == "output":
            return [f"{places.output(a.name)} = {local};"]
        if a.role == "steer":
            place = places.weight(a)
            note_time = f"clock[set_at + ints[steers_{self.number}_{a.name} + j]] = t;"
            return [f"if ({place} != {local}) {note_time}", f"{place} = {local};"]
        if a.role == "assign":
            return [f"mem[{places.pointer(a.name)}] = {local};"]
        if a.role in ("put", "add"):
            return [f"mem[{a.role}_{self.number}_{a.name} + j] = {local};"]
        if a.role in ("volume", "diffusion"):
            names = self.asks(block, "volume")
            line = 2 * names.index(a.name) + (a.role == "diffusion")
            return [f"{places.diffusing(line, 2 * len(names))} = {local};"]
        if a.role == "drawn":
            low, high = places.drawn(a.name)
            return [f"{low} = (int)(uint){local};", f"{high} = (int)({local} >> 32);"]
        if self.adds_current(a, block):
            name = f"d{a.name}" if a.role == "ion_current" else a.name
            share = " * (100 / mem[area + a])" if self.kind == "point" else ""
            return [f"mem[ion_{name} + a] += {local}{share};"]
        if a.role == "ion":
            return [f"mem[ion_{a.name} + a] = {local};"]
        if a.role in ("weight", "other_weight"):
            test = "if (weight_at >= 0) " if a.role == "weight" else ""
            return [f"{test}{places.weight(a)} = {local};"]
        return []

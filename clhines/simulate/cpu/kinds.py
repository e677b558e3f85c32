"""Kinds of ``blocks.mako``: instances in groups, whose values lie in lines of vectors."""

from __future__ import annotations

from dataclasses import dataclass

from clhines.mechanisms.emit.functions import Functions
from clhines.mechanisms.ir.program import Argument
from clhines.mechanisms.mechanism import Mechanism
from clhines.simulate.cpu.groups import Groups
from clhines.simulate.kinds.calls import KindBlocks, Values, call_of, fields_of, result_of
from clhines.simulate.records.records import CURRENT


@dataclass(frozen=True)
class GroupedKind(KindBlocks):
    """One kind whose instances lie in groups of `width`, with the functions `wide` for a group."""

    width: int = 1
    wide: str = ""
    constants: tuple[str, ...] = ()  # what ``NAME_constants`` works out
    level: tuple[str, ...] = ()  # ions' variables that are one number, which nothing changes

    @classmethod
    def of(
        cls,
        kind: KindBlocks,
        mechanism: Mechanism,
        groups: Groups,
        real: str,
        level: tuple[str, ...],
    ) -> GroupedKind:
        """Return a kind with its instances in groups."""
        blocks = [name for name, _ in kind.vectors]
        single = tuple(name for name, alone in kind.parameters if alone)
        declared = [q.name for q in mechanism.program.outputs]  # others are currents as they are
        outputs = tuple(name for name in kind.outputs if name in declared)
        how = real, groups.width, single, outputs
        printed = Functions(mechanism.compiled, *how)

        def lifted() -> tuple[str, list[str], dict[str, tuple[Argument, ...]]]:
            text, constants = printed.lifted(blocks) if blocks else ("", [])
            return text, constants, {name: printed.calls(name) for name in blocks}

        key = "lifted", *how, *blocks
        wide, constants, calls = mechanism.compiled.once(key, lifted)
        known = {name: (f, arguments) for name, f, arguments in kind.blocks}
        known |= {name: (known[name][0], calls[name]) for name in blocks}
        scalar = [n for n in known if n not in blocks]
        names = [*(["initial"] if f"{mechanism.name}_initial(" in kind.functions else []), *scalar]
        return cls(
            **{
                **fields_of(kind),
                "functions": mechanism.functions(real, outputs, names),
                "blocks": tuple((name, *found) for name, found in known.items()),
                "vectors": tuple((n, f"{printed.prefix}_{n}") for n in blocks),
                "rows": False,
            },
            width=groups.width,
            wide=wide,
            constants=tuple(constants),
            level=level,
        )

    @property
    def singles(self) -> list[str]:
        """Parameters that are one number for all instances."""
        return [name for name, alone in self.parameters if alone]

    @property
    def given(self) -> list[str]:
        """The other parameters."""
        return [name for name, alone in self.parameters if not alone]

    @property
    def vector(self) -> str:
        """Type of a number of each instance of a group."""
        return f"real{self.width}"

    def call_constants(self) -> str:
        """Return the call that works the constants out."""
        values = ["dt", *(self.parameter(n) for n in self.singles)]
        values += [f"constants_{self.number} + {c}" for c in range(len(self.constants))]
        return call_of(f"{self.name}_constants", values, 4).rstrip("\n")

    def places(self) -> str:
        """Return declarations of where the values of its groups are; stores may change `at`."""
        k = self.number
        lines = [
            f"__global const int *lanes = ints + lane_{k}, *runs = ints + run_{k};",
            f"__global const real *shares = mem + share_{k};",
            f"__global real *parameters = mem + parameters_{k} + {len(self.singles)};",
            f"__global real *states = mem + states_{k}, *outputs = mem + outputs_{k};",
        ]
        for number, name in enumerate(self.singles):
            lines.append(f"const real single_{number} = {self.parameter(name)};")
        used = {a.name for name in dict(self.vectors) for a in self.arguments(name)}
        for name in self.level:
            if name in used:
                lines.append(f"const real one_{name} = mem[level_{name}];")
        return "".join(f"        {line}\n" for line in lines)

    def parameter(self, name: str) -> str:
        """Return the expression of a parameter of instance j."""
        k, given = self.number, self.given
        if name in given:
            begin = f"parameters_{k} + {len(self.singles)}"
            return f"mem[{begin} + {self._line(given.index(name), len(given))}]"
        return f"mem[parameters_{k} + {self.singles.index(name)}]"

    def kept(self, role: str, name: str) -> str:
        """Return the expression of a state or an output of instance j."""
        names = self.states if role == "state" else self.outputs
        return f"mem[{role}s_{self.number} + {self._line(names.index(name), len(names))}]"

    def _line(self, line: int, lines: int) -> str:
        return f"in_group(ints[position_{self.number} + j], {self.width}, {lines}, {line})"

    def call_group(self, block: str, values: Values, always: tuple[str, ...], indent: int) -> str:
        """Return statements that call a block of group q, and add up ions' currents `always`."""
        space = " " * indent
        before, given, after = [], [], []
        for a in self.arguments(block):
            where = self._where(a)
            value = where or self._value(a, values)
            if a.direction == "in":
                given.append(value)
                continue
            local, line = result_of(a, self.vector, value)
            before.append(f"{space}{line}\n")
            given.append(f"&{local}")
            if where:
                after.append(f"{space}{where} = {local};\n")
            elif a.role in ("ion", "ion_current"):
                after.append(f"{space}{self._keep(a, block, local, always)}\n")
        if self.bare_current(block):
            after.append(f"{space}{self._where(Argument('output', CURRENT))} = i_i;\n")
        return "".join([*before, call_of(dict(self.vectors)[block], given, indent), *after])

    def _where(self, a: Argument) -> str:
        """Return the vector in memory that an argument is; empty if it is none."""
        w, names = self.width, list[str]()
        if a.role == "parameter" and a.name in self.given:
            names = self.given
        elif a.role in ("state", "output"):
            names = [*(self.states if a.role == "state" else self.outputs)]
        if not names:
            return ""
        return f"LOOSE_{w}({a.role}s + {w * len(names)} * q + {w * names.index(a.name)})"

    def _value(self, a: Argument, values: Values) -> str:
        if a.role == "parameter":
            return f"single_{self.singles.index(a.name)}"
        if a.role == "constant":
            return f"constants_{self.number}[{self.constants.index(a.name)}]"
        if a.role == "ion" and a.name in self.level:
            return f"({self.vector})one_{a.name}"
        if a.role == "ion":
            return f"at_{self.width}(mem + ion_{a.name}, place, run)"
        return self.value(a, values) if a.direction != "out" else ""

    def _keep(self, a: Argument, block: str, local: str, always: tuple[str, ...]) -> str:
        """Return the statement that puts a result where it belongs."""
        w = self.width
        current = a.name in [f"i{ion}" for ion in self.ions] and block == "current"
        if a.role == "ion" and not current:
            return f"keep_{w}({local}, mem + ion_{a.name}, place, run);"
        where = f"mem + ion_{'d' * (a.role == 'ion_current')}{a.name}"
        if self.kind == "point":  # as a density
            local = f"{local} * (100 / at_{w}(mem + area, place, run))"
        test = "" if a.name[1:] in always else "if (sums) "
        return f"{test}add_{w}({local}, {where}, place, run);"

    def currents_of_ions(self) -> set[str]:
        """Ions whose currents a block needs or gives one instance at a time."""
        names = {f"i{ion}": ion for ion in self.ions}
        found = set()
        for block, _, arguments in self.blocks:
            alone = block != "current" or "current" not in dict(self.vectors)
            ions = [a for a in arguments if a.role == "ion" and a.name in names]
            found |= {names[a.name] for a in ions if alone or a.direction != "out"}
        return found

    def is_early(self, always: tuple[str, ...]) -> bool:
        """Whether currents of a step depend on nothing but what the step before has left."""
        blocks = {name for name, _, _ in self.blocks if self.has(name)}
        if blocks != {"current", "advance"} or len(dict(self.vectors)) < 2 or self.has_net:
            return False
        arguments = self.arguments("current")
        currents = [f"i{ion}" for ion in self.ions if ion not in always]
        ions = [a for a in arguments if a.role == "ion" and a.name not in currents]
        return not self.asks("current", "t") and all(a.name in self.level for a in ions)

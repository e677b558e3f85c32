"""Block calls that compute several instances at once, in CPU vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clhines.simulator.kinds.kind import CallValues, KindBlocks, call_of
from clhines.simulator.mechanisms.ir.program import Argument
from clhines.simulator.records.records import CURRENT


def call_wide(
    kind: KindBlocks,
    block: str,
    real: str,
    value: Callable[[Argument], str],
    keep: Callable[[Argument, str], str],
    indent: int,
) -> str:
    """Print a call of a mechanism's block for several instances, with variables of type `real`.

    `value` prints the initial value of an argument. `keep` prints the statement that stores a
    result from a local variable, or nothing.
    """
    space = " " * indent
    before, passed, stores = list[str](), list[str](), list[str]()
    for a in kind.arguments(block):
        if a.direction == "in":
            passed.append(value(a))
            continue
        local = f"{'' if a.role in ('i', 'g') else 'new_'}{a.role}_{a.name}"
        start = f" = {value(a)}" if a.direction == "inout" else ""
        before.append(f"{space}{real} {local}{start};\n")
        passed.append(f"&{local}")
        stores.append(keep(a, local))
    if kind.bare_current(block):
        stores.append(keep(Argument("output", CURRENT), "i_i"))
    lines = [f"{space}{line}\n" for line in stores if line]
    return "".join([*before, call_of(dict(kind.vectors)[block], passed, indent), *lines])


@dataclass(frozen=True)
class VectorCall:
    """Print a block call for a vector of n instances, from j on, at nodes ``node``."""

    kind: KindBlocks
    block: str
    values: CallValues  # see `KindBlocks.call`

    def text(self, width: int, indent: int) -> str:
        return call_wide(self.kind, self.block, f"real{width}", self._value, self._keep, indent)

    def _value(self, a: Argument) -> str:
        kind = self.kind
        if a.role == "parameter" and a.name in kind.singles:
            return kind.places.parameter(a.name)
        if kind.is_last(a):
            return kind.value(a, self.values)
        if a.role in ("parameter", "state", "output"):
            return f"some(&{self._place(a)}, n)"
        if a.role == "ion":
            return f"some_{self._suffix}(mem + ion_{a.name}, node, n)"
        return kind.value(a, self.values) if a.direction != "out" else ""

    def _keep(self, a: Argument, local: str) -> str:
        kind, suffix = self.kind, self._suffix
        if a.role in ("parameter", "state", "output"):
            return f"keep({local}, &{self._place(a)}, n);"
        if kind.adds_current(a, self.block):
            where = f"mem + ion_{'d' * (a.role == 'ion_current')}{a.name}"
            if kind.kind == "point":  # as a density
                return f"add_at({local} * (100 / some_at(mem + area, node, n)), {where}, node, n);"
            return f"add_{suffix}({local}, {where}, node, n);"
        return f"keep_{suffix}({local}, mem + ion_{a.name}, node, n);" if a.role == "ion" else ""

    @property
    def _suffix(self) -> str:
        return "of" if self.kind.rows else "at"

    def _place(self, a: Argument) -> str:
        places = self.kind.places
        role = {"parameter": places.parameter, "state": places.state, "output": places.output}
        return role[a.role](a.name)

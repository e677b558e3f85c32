"""Functions for lanes of a GPU, as a dialect of `Printer`.

Functions for CPUs choose between a series and an exponential by branches, which keeps a compiler
from interleaving the operations of several gates. Functions for lanes call helpers in
``simulator/common/rates.mako``, which compute both, and in ``table_rows.mako``, which load whole
table rows. Their first argument is ``series__``, the series' coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from clhines.simulator.mechanisms.emit.printer import HELPERS, Printer
from clhines.simulator.mechanisms.ir.blocks import Assignments
from clhines.simulator.mechanisms.ir.compiled import Body
from clhines.simulator.mechanisms.ir.expressions import Node, postorder
from clhines.simulator.mechanisms.ir.passes.few_terms import few_terms
from clhines.simulator.mechanisms.ir.passes.name_places import name_places
from clhines.simulator.mechanisms.ir.passes.relax import relax

SERIES = "const node_series_ series__"  # all functions' first argument


@dataclass(frozen=True)
class Lanes:
    """Options of functions for lanes of a GPU.

    With `inverses` divisions call `node_inverse_`, which is PTX without a branch for rare numbers.
    `terms` lists series for ``exp(-h/tau) - 1`` that need few terms: tau's look-up table, its
    column there, and the term count.
    """

    inverses: bool
    terms: tuple[tuple[str, int, int], ...] = ()

    def rewritten(self, body: Body) -> Body:
        """Apply the passes `relax`, `few_terms` and `name_places` to a block's body."""
        every = body.every()
        terms = {(table, column): number for table, column, number in self.terms}
        new = name_places(few_terms(relax(every), terms))
        return body.mapped(dict(zip(every, new, strict=True)).__getitem__)


class LanesPrinter(Printer):
    """A printer of expressions and statements for lanes of GPUs, see `Lanes`."""

    def __init__(self, lanes: Lanes, prefix: str, real: str, symbols: Mapping[str, str]) -> None:
        super().__init__(prefix, real, symbols=symbols)
        self._lanes = lanes
        self._columns: dict[str, dict[tuple[str, int], set[int]]] = {}

    def begin(self, block: Assignments) -> None:
        super().begin(block)
        self._columns = {}
        for node in postorder([*chain(*block.steps), *block.results]):
            if self._is_of_row(node):
                place, table, column, columns, _ = node.args
                of_place = self._columns.setdefault(self.names[place], {})
                whole = self.show(table), int(columns.value)
                of_place.setdefault(whole, set()).add(int(column.value))

    def steps(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if node.op == "local" and self.names[node] in self._columns:
                self._load_rows(self.names[node], node.args[0])
            else:
                super().steps([node])

    @staticmethod
    def _is_of_row(node: Node) -> bool:
        return node.op == "lookup" and node.args[0].definition.op == "place"

    def _load_rows(self, name: str, place: Node) -> None:
        """Print the declaration of `name`, the table row below `place`, and loads from columns.

        All columns that are looked up at `place` are loaded from this row and from the next.
        """
        x, n = place.args
        self.line(f"const node_row_ {name} = node_row_of_({self.show(x)}, {int(n.value)});")
        for (table, columns), numbers in self._columns[name].items():
            width = _width(columns)
            sort = f"real{width}" if width > 1 else "real"
            for load in sorted({number // width for number in numbers}):
                for end, row in (("low", f"{name}.row"), ("high", f"({name}.row + 1)")):
                    where = f"{table} + {row} * {columns} + {load * width}"
                    variable = _loaded(name, end, table, load)
                    self.line(f"const {sort} {variable} = node_load{width}_({where});")

    def called(self, e: Node) -> str:
        if self._is_of_row(e):
            place, table, column, columns, _ = e.args
            name, width = self.names[place], _width(int(columns.value))
            load, part = divmod(int(column.value), width)
            ends = (_loaded(name, end, self.show(table), load) for end in ("low", "high"))
            values = (f"{end}.s{part}" if width > 1 else end for end in ends)
            return f"node_between_({name}.share, {', '.join(values)})"
        if e.op in HELPERS:
            return self._helper(e.op, *(self.show(a) for a in e.args))
        if e.op == "grown":
            terms = "".join(f"_{int(a.value)}" for a in e.args[1:])
            return self._helper(f"grown{terms}", self.show(e.args[0]))
        return super().called(e)

    def power(self, e: Node, level: int) -> str:
        inverse = e.args[1].is_number and e.args[1].value < 0 and self._lanes.inverses
        return super().power(e, 0 if inverse else level)  # a call needs no brackets

    def call(self, name: str, *arguments: str) -> str:
        return self._helper(name, *arguments) if name == "exp" else super().call(name, *arguments)

    @staticmethod
    def _helper(name: str, *arguments: str) -> str:
        return f"node_{name}_(series__, {', '.join(arguments)})"

    def quotient(self, above: str, below: Sequence[Node]) -> str:
        if not self._lanes.inverses:
            return super().quotient(above, below)
        under = " * ".join(self.show(a, 2 * (len(below) > 1)) for a in below)
        return f"{f'{above} * ' if above else ''}node_inverse_({under})"


def _loaded(name: str, end: str, table: str, load: int) -> str:
    return f"{name}__{end}_{table}_{load}"


def _width(columns: int) -> int:
    return next(width for width in (4, 2, 1) if columns % width == 0)

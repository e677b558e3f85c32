"""`FileBlocks`: a file's executed blocks and its variables, which passes rewrite."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from clhines.simulator.mechanisms.ir.compiled import Body
from clhines.simulator.mechanisms.ir.expressions import Graph
from clhines.simulator.mechanisms.ir.program import Table
from clhines.simulator.mechanisms.nmodl.bodies import Bodies
from clhines.simulator.mechanisms.nmodl.reading.names import Names
from clhines.simulator.mechanisms.nmodl.reading.tree import File
from clhines.simulator.mechanisms.nmodl.values import MechanismContext


@dataclass(frozen=True)
class FileBlocks:
    """The executed body of each block in a .mod file, and the file's variables by source name.

    Passes fill the fields that have a default. `states` keep a value between blocks; no block reads
    `outputs`, and no block sets `parameters`. `alone`, `last` and `begun` are states that all
    instances share: instances set `alone` one after another, blocks read the last instance's value
    of `last`, and only INITIAL sets `begun`. `unless` has the messages for runs that
    a block refuses when it finds unsupported parameter values.
    """

    executed: Bodies
    bodies: Mapping[str, Body]
    kept: tuple[str, ...]  # variables to which other files' POINTERs point
    written: frozenset[str]  # variables that any block, or a POINTER, sets
    needed: frozenset[str] = frozenset()  # variables that other blocks, results or users need
    live: frozenset[str] = frozenset()  # variables that a block reads before it sets them
    states: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    unless: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # outputs in which events that set v keep values, see `note_sets`

    @classmethod
    def of(cls, bodies: Bodies, kept: Iterable[str] = ()) -> FileBlocks:
        """Return the blocks before the first pass.

        `bodies` are the execution's results. `kept` names variables to which POINTERs in other
        files point.
        """
        written = {key for body in bodies.blocks.values() for key in body.writes}
        for name in kept:  # parameters, too, are states then
            written.update(bodies.shared.names.all_elements(name))
        return cls(bodies, dict(bodies.blocks), (*kept,), frozenset(written))

    @property
    def shared(self) -> MechanismContext:
        return self.executed.shared

    @property
    def file(self) -> File:
        return self.shared.file

    @property
    def names(self) -> Names:
        return self.shared.names

    @property
    def graph(self) -> Graph:
        return self.shared.graph

    def with_bodies(self, bodies: Mapping[str, Body]) -> FileBlocks:
        """Return a copy with other bodies; update `needed`, the variables that bodies need."""
        return replace(self, bodies=bodies, needed=self._needed(bodies.values()))

    def _needed(self, bodies: Collection[Body]) -> frozenset[str]:
        elements, variables = self.names.elements, self.file.variables
        needed = {
            key
            for key in self.written
            if elements[key] in (*self.file.range, *self.kept)
            or variables[elements[key]].sort == "state"
        }
        while True:
            more = set(needed)
            for body in bodies:
                more |= body.free(needed) & elements.keys()
            if more == needed:
                return frozenset(needed)
            needed = more

    def set_by_pointer(self, role: str) -> set[str]:
        """Return the POINTERs by which any block sets variables.

        `role` is ``steer`` (the POINTER holds another connection's weight) or ``assign`` (any other
        variable, set at once).
        """
        return {n for body in self.bodies.values() for r, n, _ in body.results if r == role}

    def ordered(self, keys: Iterable[str]) -> tuple[str, ...]:
        order = {name: k for k, name in enumerate(self.file.variables)}
        elements = self.names.elements
        return tuple(sorted(keys, key=lambda k: (order[elements[k]], len(k), k)))

"""What a mechanism is, of either language: its name, parameters and states, from its `Program`."""

from __future__ import annotations

from clhines.mechanisms.ir.program import Program
from clhines.mechanisms.text.equations import HIDDEN


class Described:
    """Something that has a `Program`; the base of `Mechanism`."""

    @property
    def program(self) -> Program:
        """What executors see of it."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Its name, also that of its functions."""
        return self.program.name

    @property
    def kind(self) -> str:
        """``density``, ``point`` or, of NMODL, ``artificial``."""
        return self.program.kind

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters, in order."""
        return tuple(q.name for q in self.program.parameters)

    @property
    def defaults(self) -> dict[str, float]:
        """Value of each parameter where the user gives none."""
        return {q.name: q.default for q in self.program.parameters}

    @property
    def begins(self) -> dict[str, float]:
        """Value before INITIAL, where the user gives none, of each state that users may give one.

        These are PARAMETERs and ASSIGNED variables of NMODL that its blocks write.
        """
        return {q.name: q.default for q in self.program.states if q.is_given}

    @property
    def settable(self) -> dict[str, float]:
        """Default of all that users may give: `defaults` and `begins`."""
        return {**self.defaults, **self.begins}

    @property
    def units(self) -> dict[str, str]:
        """NEURON's unit of each parameter and state, in which values are; empty where none is."""
        p = self.program
        return {q.name: q.unit for q in (*p.parameters, *p.states) if q.name != HIDDEN}

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the states, in order; of what rates with currents need to remember last."""
        return tuple(q.name for q in self.program.states)

    @property
    def takes_events(self) -> bool:
        """Whether it receives events."""
        return "receive" in self.program.blocks

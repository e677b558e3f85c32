"""Python code that reads a model after each step of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clhines.neuron.memory.raw import Place
from clhines.neuron.read.places import Variable
from clhines.neuron.read.played import steps_at_once


@dataclass(eq=False)
class StepCode:
    """`call` reads the variables in `reads`, by place, which have the values of the step then."""

    name: str
    reads: dict[Place, Variable]
    call: Callable[[], object]
    block: Callable[[], int]  # steps until it may change the model

    @property
    def most_steps(self) -> int:
        """Number of steps to run at once, the last of which is NEURON's."""
        return min(steps_at_once(len(self.reads)) + 1, self.block())

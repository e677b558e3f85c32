"""Python code that reads a model after each step of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from clhines.neuron.memory.raw import Place
from clhines.neuron.read.places import Variable
from clhines.neuron.read.played import steps_at_once


@dataclass(eq=False)
class StepCode:
    """Code that reads only the variables in `reads`, by place.

    `call` runs it after a step of NEURON's. `take` runs it for a block of steps at once, with the
    values of `reads`, (steps, variables) float64.
    """

    name: str
    reads: dict[Place, Variable]
    call: Callable[[], object]
    take: Callable[[np.ndarray], object]
    block: Callable[[], int]  # number of steps until it may change the model

    @property
    def most_steps(self) -> int:
        """Number of steps to run at once, including NEURON's last one."""
        return min(steps_at_once(len(self.reads)) + 1, self.block())

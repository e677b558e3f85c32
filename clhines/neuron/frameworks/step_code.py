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
    """Python code that only reads some variables of a model after each step."""

    name: str
    reads: dict[Place, Variable]
    call: Callable[[], object]  # run the code after a step that NEURON took
    take: Callable[[np.ndarray], object]  # run it for the values of `reads`, (steps, variables)
    block: Callable[[], int]  # step count until the code may change the model

    @property
    def most_steps(self) -> int:
        """Maximum number of steps to take at once, including the last one, which NEURON takes."""
        return min(steps_at_once(len(self.reads)) + 1, self.block())

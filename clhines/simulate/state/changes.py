"""Changes of a run on one device: parameters, constants, weights and the state at the start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device.arrays import set_zero
from clhines.errors import InputError
from clhines.model.model import Model
from clhines.network.changes import Value
from clhines.simulate.state.decisions import external_sums
from clhines.simulate.state.shapes import shape_of
from clhines.simulate.state.spread import Spread

_SPARE_BITS = 8  # of the 62 of the largest sum of weights, which a finer unit would not waste


class ParameterChanges:
    """Changes parameters of a run where they lie; methods return whether they could."""

    keeps_start = False  # whether `reset` goes back to what was kept

    def __init__(self, run: Any) -> None:
        self.run, self.queue, self.model = run, run.queue, run.model
        self._spread: Spread | None = None

    def set_parameter(self, group: int, name: str, value: Value) -> bool:
        """Give the instances of a group another value of a parameter."""
        k, own = self.model.instances[group]
        if not len(own):
            return True
        kind, dtype = self.model.kinds[k], self.run.dtype
        check_range(kind.mechanism.name, name, value, dtype)
        if self._spread is None:
            self._spread = Spread(self.queue, dtype, self.model)
        found = self.run.storage(k, name)
        alone = len(own) == kind.count
        good = all(self._spread.takes(s, value.by) and (alone or s.places) for s in found)
        if not found or not good:
            return False
        for storage in found:
            self._spread.put(storage, group, value)
        self.run.take_values(k, name, own, self._spread.of_each(group, value))
        return True

    def set_constants(self, d: np.ndarray, b: np.ndarray, g: np.ndarray) -> bool:
        """Take other `Model.constant_d`, `constant_b` and `constant_g`."""
        return False

    def set_weights(self, weight: np.ndarray) -> bool:
        """Take other weights of all connections."""
        return False


class DeviceChanges(ParameterChanges):
    """Changes a `CellsRun` where it lies; methods return whether they could."""

    keeps_start = True

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._start: list[tuple[cla.Array, cla.Array]] = []  # array, what is in it at the start

    def set_constants(self, d: np.ndarray, b: np.ndarray, g: np.ndarray) -> bool:
        """Take other `Model.constant_d`, `constant_b` and `constant_g`."""
        return self.run.cells.set_constants(d, b, g)

    def set_weights(self, weight: np.ndarray) -> bool:
        """Take other weights of all connections, if the integers in which they are kept do."""
        delivery, given = self.run.grid.delivery, self.model.connections
        if delivery is None or given.rule is not None:
            return False
        unit, external = delivery.incoming_scale, external_sums(self.model)
        largest = np.maximum(np.abs(weight), np.abs(self.run.weights()))  # both may be under way
        finest = given.scale(external, largest)
        if not unit / 2**_SPARE_BITS <= finest <= unit:
            return False
        delivery.set_weights(weight)
        self.run.grid.weight = weight.copy()
        return True

    def keep_start(self, model: Model) -> None:
        """Remember what the run has now as its state at the start."""
        states, self._first = self.run.states, model
        self.run.tell_early(model)
        arrays = [*states.of_kinds, *states.detectors[:1], *self.run.cells.voltage_arrays()]
        self._start = [(array, array.copy(self.queue)) for array in arrays]

    def reset(self) -> bool:
        """Go back to what `keep_start` has kept; nothing is under way."""
        if not self._start or self.run.grid.plasticity is not None:
            return False
        for array, first in self._start:
            cl.enqueue_copy(self.queue, array.data, first.data)
        set_zero(self.run.grid.incoming, self.queue)
        set_zero(self.run.failed, self.queue)
        self.run.tell_early(self._first)
        return True


def check_range(mechanism: str, name: str, value: Value, dtype: np.dtype) -> None:
    """Raise InputError for a value that is infinite in a precision."""
    most = float(np.finfo(dtype).max)
    largest = float(np.abs(value.numbers).max(initial=0.0))
    if largest > most:
        raise InputError(
            f"{mechanism}: {name} is {largest:g}; expected at most {most:.3g}, the largest number "
            f"of {np.dtype(dtype).name}"
        )


def from_start(model: Model, dtype: np.dtype) -> dict[str, np.ndarray]:
    """Return what `Run.load` takes of a model at the start."""
    found = {f.key: np.zeros(shape_of(model, f), f.dtype_in(dtype)) for f in model.schema}
    found |= {"v": model.v_init, "plastic_weight": model.connections.weight}
    if "held" in found:
        sources = model.sources
        above = model.v_init[sources.detector_node] > sources.detector_threshold
        found["held"] = above * model.detector_hold
    for k, states in enumerate(model.initial_states()):
        found |= {f.key: states[f.name] for f in model.schema.of("state", k)}
    return found

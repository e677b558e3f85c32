"""A loss's derivatives with respect to all variables, back along the trace of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from clhines.simulator.engines.reference import axial_currents
from clhines.simulator.gradients.trace import Entry, TracedCall, TracedRun
from clhines.simulator.mechanisms.emit.functions import numpy_function
from clhines.simulator.mechanisms.ir import adjoints
from clhines.simulator.mechanisms.ir.program import CAPACITANCE, Argument
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.model.model import DENSITY, IonNodes, Model, Played
from clhines.simulator.records.records import CURRENT
from clhines.simulator.state.variables import nernst_scale
from clhines.solver import reference

BackFunction = tuple[adjoints.AdjointBlock, Callable[..., Any]]


def back_function(
    mechanism: Mechanism, block: str, outputs: tuple[str, ...] = ()
) -> BackFunction | None:
    """Return the reverse-mode derivative of a mechanism's block, and its compiled function.

    None if the derivative is zero; InputError if the block has no derivative.
    """

    def make() -> BackFunction | None:
        adjoint = adjoints.adjoint_of(mechanism.compiled, block, outputs)
        if adjoint is None:
            return None
        return adjoint, numpy_function(adjoint.compiled, adjoint.name)

    back: BackFunction | None = mechanism.compiled.once(("back", block, outputs), make)
    return back


def _zeros(count: int) -> dict[str, np.ndarray]:
    """Return arrays by name; one that is not there yet is made with `count` zeros."""
    return defaultdict(partial(np.zeros, count))


class Adjoint:
    """A loss's derivatives with respect to all variables in a run, and to its model's arrays.

    The run's trace is followed backwards in time. The derivatives are with respect to the values at
    the time that has been reached. `surrogate` is the width of a spike's sigmoid, mV. `matrix` has
    the derivatives with respect to the model's arrays, (n,). At the end, `start` has the
    derivatives with respect to the states after INITIAL.
    """

    def __init__(
        self, run: TracedRun, surrogate: float | None = None, model: Model | None = None
    ) -> None:
        self.run, self.surrogate = run, surrogate
        self.model = model or run.model  # the model of all copies, if the run is one copy's
        variables, n = run.variables, self.model.forest.num_nodes
        self.v = np.zeros(n)
        self.ions = {name: np.zeros(n) for name in variables.ions}
        self.states, self.outputs, self.parameters = (
            [_zeros(kind.count) for kind in self.model.kinds] for _ in range(3)
        )
        # of connections with exact times, then of those with delays of whole steps
        self.weight = np.zeros(len(self.model.netcons.weight) + self.model.connections.count)
        grid = variables.grid
        self.sums = np.zeros(grid.incoming.shape if grid is not None else (1, 0))
        self.event_weight = np.zeros(len(self.model.events.step))
        self.played = {p: np.zeros(len(p.y)) for p in self.model.played}
        self.matrix: dict[str, np.ndarray] = _zeros(n)
        self.start = self.states
        self._by_node = _zeros(n)  # by sums of conductances (g) and currents (i)
        self._slot = 0

    def take_back(self, entries: Sequence[Entry]) -> None:
        with np.errstate(all="ignore"):  # np.where computes both sides
            for name, values in reversed(entries):
                getattr(self, name)(*values)

    def keep_start(self) -> None:
        self.start = deepcopy(self.states)

    def finish(self) -> None:
        """Take derivatives back through the run's start, which sets weights and capacitances."""
        model = self.model
        for k in self.run.variables.wires.kinds:
            program = model.kinds[k].mechanism.program
            if "net_initial" not in program.blocks and program.net is not None:
                first = model.netcons.first_weight[:-1][model.netcons.kind == k]
                for w in range(1, len(program.net.weights)):
                    self.weight[first + w] = 0.0
        for kind, slopes in zip(model.kinds, self.parameters, strict=True):
            if CAPACITANCE in kind.mechanism.program.built_in:
                slope = slopes[CAPACITANCE] / kind.factor
                self.matrix["by_capacitance"] += np.bincount(kind.node, slope, len(self.v))

    def call(self, *values: Any) -> None:
        call = TracedCall(*values)
        k, block = call.kind, call.block
        if block.startswith(("grid_", "table_")):
            return
        mechanism, outputs = self.model.kinds[k].mechanism, self.run.variables.declared(k)
        back = back_function(mechanism, block, outputs)
        if back is None:
            return
        adjoint, function = back
        seeds = [self._seed(call, a) for a in adjoint.seeded]
        if not any(np.any(seed) for seed in seeds):
            return
        slopes = function(*call.values, *seeds)
        for a, slope in zip(adjoint.by, slopes, strict=True):
            self._add(call, a, np.broadcast_to(slope, call.instances.shape))

    def _place(self, call: TracedCall, a: Argument) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives by a call's argument `a`, and each instance's index there.

        The index is -1 for the weight of an event that has no connection.
        """
        k, instances, name, model = call.kind, call.instances, a.name, self.model
        kind = model.kinds[k]
        owners = {"parameter": self.parameters, "state": self.states, "output": self.outputs}
        if a.role in owners:
            return owners[a.role][k][name], instances
        if a.role in ("v", "set_v"):
            return self.v, kind.node[instances]
        if a.role in ("ion", "ion_current"):
            return self.ions[name if a.role == "ion" else f"d{name}"], kind.node[instances]
        if a.role == "weight":
            if call.arguments.sums is not None:
                return self.sums[self._slot], kind.first_target + instances
            place = self.run.variables.place_of_weight(k, a.role, name, call.arguments)
            return self.weight, place
        if a.role == "pointer" and (k, name) not in model.read:
            return self.v, model.pointers[k, name][instances]
        to = (model.read if a.role in ("pointer", "assign") else model.written)[k, name]
        return self.states[to.kind][to.state], to.instance[instances]

    def _seed(self, call: TracedCall, a: Argument) -> np.ndarray:
        """Return the derivatives with respect to a call's result `a`, and set them to 0.

        They become 0 because the call replaces the variable's previous value.
        """
        k, instances, variables = call.kind, call.instances, self.run.variables
        kind = self.model.kinds[k]
        if a.role in ("i", "g"):
            seed: np.ndarray = kind.factor[instances] * self._by_node[a.role][kind.node[instances]]
            if a.role == "i" and {*variables.wanted[k]} - {*variables.declared(k)}:
                seed = seed + _pop(self.outputs[k][CURRENT], instances)
            return seed
        slopes, at = self._place(call, a)
        currents = {ion.variables[3] for ion in self.model.ions}
        if call.block == "current" and a.role.startswith("ion") and a.name in currents:
            per_area: Any = 1.0  # the call adds to the current
            if kind.mechanism.kind == "point":
                per_area = 1 / (DENSITY * self.model.area[at])
            return slopes[at] * per_area
        if a.role == "add":
            return slopes[at]
        if a.role != "weight":
            return _pop(slopes, at)
        seed, known = np.zeros(len(at)), at >= 0
        seed[known] = _pop(slopes, at[known])
        return seed

    def _add(self, call: TracedCall, a: Argument, slope: np.ndarray) -> None:
        if a.role == "v" and self.model.kinds[call.kind].mechanism.kind == "artificial":
            return
        slopes, at = self._place(call, a)
        if a.role == "weight":
            at, slope = at[at >= 0], slope[at >= 0]
        np.add.at(slopes, at, slope)

    def to_nernst(
        self, ion: IonNodes, node: np.ndarray, inside: np.ndarray, outside: np.ndarray
    ) -> None:
        """Apply the reverse of Nernst's equation, from reversal potentials to concentrations."""
        e, name_inside, name_outside, _ = ion.variables
        seed = nernst_scale(self.model.celsius, ion.valence) * _pop(self.ions[e], node)
        defined = (inside > 0) & (outside > 0)
        self.ions[name_inside][node] -= np.where(defined, seed / inside, 0.0)
        self.ions[name_outside][node] += np.where(defined, seed / outside, 0.0)

    def clear_currents(self) -> None:
        """Apply the reverse of the statement that sets all ion currents to 0."""
        for ion in self.model.ions:
            self.ions[ion.variables[3]][:] = 0.0
            self.ions[f"d{ion.variables[3]}"][:] = 0.0
        self._by_node.clear()

    def change_voltages(self, d: np.ndarray, v: np.ndarray, dv: np.ndarray) -> None:
        """Apply the reverse of ``A dv = constant_b - constant_g v - i + axial(v)``.

        `d` is the symmetric matrix A's diagonal. `dv` is the change in the voltages v before any
        extrapolation.
        """
        model = self.model
        forest, u, matrix = model.forest, model.u, self.matrix
        seed = 2 * self.v if model.secondorder else self.v
        by_b, _ = reference.solve_with_pivots(forest, d, u, seed, steps=self.run.elimination)
        by_d = -by_b * dv
        child = np.flatnonzero(forest.parent >= 0)
        parent = forest.parent[child]
        by_u = (v[child] - v[parent]) * (by_b[child] - by_b[parent])
        matrix["by_u"][child] += by_u - by_b[child] * dv[parent] - by_b[parent] * dv[child]
        matrix["by_diagonal"] += by_d
        matrix["by_conductance"] -= by_b * v
        matrix["by_right"] += by_b
        self._by_node.update(g=by_d, i=-by_b)
        self.v = self.v - model.constant_g * by_b + axial_currents(forest, u, by_b)

    def play(self, played: Played, shares: tuple[tuple[int, float], ...]) -> None:
        """Take a played parameter's derivative back to the entries of its Vector, ``played.y``.

        The parameter was ``sum(share * y[k])``; `shares` has a pair (k, share) for each term.
        """
        at = np.array([played.instance])
        slope = _pop(self.parameters[played.kind][played.parameter], at)[0]
        for k, share in shares:
            self.played[played][k] += share * slope

    def send(self, slot: np.ndarray, connection: np.ndarray) -> None:
        """Take derivatives back through spikes that added connection weights to a target's sum."""
        by_weight = self.sums[slot, self.model.connections.target[connection]]
        np.add.at(self.weight, len(self.model.netcons.weight) + connection, by_weight)

    def add_events(self, slot: int, now: slice) -> None:
        """Take derivatives back through adding external events' weights to a step's sums."""
        self.event_weight[now] += self.sums[slot, self.model.events.target[now]]

    def take_sums(self, slot: int) -> None:
        self._slot = slot
        self.sums[slot] = 0.0

    def end_step(self, step: int, v: np.ndarray, free: np.ndarray) -> None:
        """Add the spikes' slopes, by a sigmoid of the detectors' voltages v instead of a step."""
        if self.surrogate is None:
            return
        grid, sources = self.model.connections, self.model.sources
        slot = (step + 1 + grid.delay) % len(self.sums)
        by_spike = np.bincount(
            grid.source, self.sums[slot, grid.target] * grid.weight, sources.count
        )
        z = np.clip((v - sources.detector_threshold) / self.surrogate, -500, 500)
        share = 1 / (1 + np.exp(-z))
        slope = share * (1 - share) / self.surrogate * free
        by_v = slope * by_spike[sources.detector_source]
        np.add.at(self.v, sources.detector_node, by_v)


def _pop(slopes: np.ndarray, at: np.ndarray) -> np.ndarray:
    values: np.ndarray = slopes[at]
    slopes[at] = 0.0
    return values


def selected(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return ``values[at]``, without a copy if this is all values in order."""
    is_all = len(at) == len(values) and np.array_equal(at, np.arange(len(at)))
    taken: np.ndarray = values if is_all else values[at]
    return taken


def by_constant(
    model: Model, matrix: dict[str, np.ndarray], mechanism: Mechanism,
    nodes: np.ndarray, factor: np.ndarray, parameters: Mapping[str, Any],
) -> dict[str, np.ndarray]:  # fmt: skip
    """Return the derivatives with respect to parameters of a mechanism with constant conductance.

    Each is an array by instance. The instances are at `nodes`; `factor` is from `factor_of`.
    `matrix` has the derivatives with respect to the nodes' constant conductances and currents,
    `parameters` the parameters' values.
    """
    back = back_function(mechanism, "current")
    assert back is not None
    adjoint, function = back
    seeds = {"i": -factor * selected(matrix["by_right"], nodes)}
    seeds["g"] = factor * selected(matrix["by_diagonal"] + matrix["by_conductance"], nodes)
    zero = {"v": np.float64(0), "t": 0.0, "dt": np.float64(model.dt)}
    inputs = [
        np.float64(parameters[a.name]) if a.role == "parameter" else zero[a.role]
        for a in adjoint.inputs
    ]
    with np.errstate(all="ignore"):
        slopes = function(*inputs, *(seeds[a.role] for a in adjoint.seeded))
    return {
        a.name: slope for a, slope in zip(adjoint.by, slopes, strict=True) if a.role == "parameter"
    }

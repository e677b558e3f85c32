"""The start of a network: INITIAL blocks on the host, in NEURON's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from clhines.errors import InputError
from clhines.mechanisms.mechanism import Mechanism
from clhines.model.ions import ADVANCE_REVERSAL, INITIAL_REVERSAL
from clhines.model.model import DENSITY, Model
from clhines.simulate.engines.variables import Call, Variables
from clhines.simulate.events.exact import HostEvents
from clhines.simulate.events.sources import Wires
from clhines.simulate.state.decisions import Decisions


def started(
    model: Model,
    wires: Wires,
    wanted: Sequence[tuple[str, ...]] = (),
    decisions: Decisions | None = None,
) -> tuple[Variables, HostEvents]:
    """Return all variables at t = 0, events due then delivered, spikes of then found."""
    variables = Variables(model, wires, decisions)
    if wanted:
        variables.want(wanted)
    events = HostEvents(variables)
    for ion in model.ions:
        variables.to_nernst(ion, ion.node[(ion.style & INITIAL_REVERSAL) > 0])
    kinds, begin = range(len(model.kinds)), {"begin": 0.0, "now": 0.0, "end": 0.0}
    for k in kinds:
        variables.run_block(k, "before_initial", begin)
    for k in kinds:
        _refuse(variables, k, "unless_initial")
        _initial(events, k)
        _refuse(variables, k, "unless")
    for k in wires.kinds:
        _connections(events, k)
    for k in kinds:
        variables.run_block(k, "after_initial", begin)
    events.deliver_until(0.0)
    currents(variables, {"begin": 0.0, "now": 0.0, "end": 0.0}, 0)
    for k in kinds:
        variables.run_block(k, "before_step", begin)
    events.detect(0.0, -1)
    return variables, events


def _refuse(variables: Variables, k: int, block: str) -> None:
    """Raise an InputError where parameters ask for something that is not simulated."""
    mechanism = variables.model.kinds[k].mechanism
    if block in mechanism.program.blocks and len(variables.model.kinds[k].node):
        check_unless(mechanism, block, {**variables.parameters[k], **variables.states[k]})


def check_unless(mechanism: Mechanism, block: str, values: Mapping[str, np.ndarray]) -> None:
    """Raise an InputError where parameters ask for something that is not simulated."""
    arguments = mechanism.calls(block)
    given = [a.name for a in arguments if a.direction == "in"]
    reasons = [int(a.name) for a in arguments if a.direction == "out"]
    with np.errstate(all="ignore"):
        found = mechanism.twin(block)(*(values[name] for name in given))
    for number, where in zip(reasons, found, strict=True):
        count = max(np.size(values[name]) for name in given)
        some = np.flatnonzero(np.broadcast_to(where, count))
        if len(some):
            at = {name: np.broadcast_to(values[name], count)[some[0]] for name in given}
            shown = ", ".join(f"{name} = {x:g}" for name, x in at.items())
            raise InputError(
                f"{mechanism.name}: {mechanism.program.unless[number]}; it is called with {shown}, "
                f"as of instance {some[0]}"
            )


def _initial(events: HostEvents, k: int) -> None:
    variables = events.variables
    kind = variables.model.kinds[k]
    if "initial" not in kind.mechanism.program.blocks:
        return
    artificial = kind.mechanism.kind == "artificial"
    for some in variables.rounds[k]:
        zero = np.zeros(len(some))
        v = zero if artificial else variables.v[kind.node[some]]
        call = Call(v, dict.fromkeys(("now", "begin", "end"), zero), zero, np.full(len(some), -1))
        variables.call(k, "initial", some, call)
        if k in variables.queues:
            events.obey(k, some, zero, np.full(len(some), -1), call)
        variables.wrote_concentrations(k, "initial", some)
    if not artificial:
        _check_globals(variables, k)


def _check_globals(variables: Variables, k: int) -> None:
    """Refuse several values of a variable of all instances; NEURON takes those of the last."""
    mechanism, states = variables.model.kinds[k].mechanism, variables.states[k]
    for quantity in mechanism.program.states:
        if quantity.name in mechanism.program.last:
            continue
        values = states[quantity.name]
        if quantity.is_global and (values != values[:1]).any() and not np.isnan(values).all():
            raise InputError(
                f"{quantity.public or quantity.name} of {mechanism.name} is {values.min():g} to "
                f"{values.max():g} after INITIAL; expected one value of all instances, as it is "
                "GLOBAL, or RANGE in its file"
            )


def _connections(events: HostEvents, k: int) -> None:
    """Run INITIAL of NET_RECEIVE for each connection; without it weights after the first are 0."""
    variables, wires = events.variables, events.variables.wires
    kind, netcons = variables.model.kinds[k], variables.model.netcons
    of_kind = np.flatnonzero(netcons.kind == k)
    program = kind.mechanism.program
    if "net_initial" not in program.blocks:
        assert program.net is not None
        for w in range(1, len(program.net.weights)):
            variables.exact.weight[netcons.first_weight[of_kind] + w] = 0.0
        return
    counts = np.diff(wires.first)[wires.first_target[k] : wires.first_target[k] + kind.count]
    for turn in range(int(counts.max(initial=0))):
        some = np.flatnonzero(counts > turn)
        connection = wires.order[wires.first[wires.first_target[k] + some] + turn]
        zero = np.zeros(len(some))
        artificial = kind.mechanism.kind == "artificial"
        v = zero if artificial else variables.v[kind.node[some]]
        call = Call(v, {"now": zero}, zero, netcons.first_weight[connection])
        variables.call(k, "net_initial", some, call)


def currents(variables: Variables, t: dict[str, float], step: int) -> tuple[np.ndarray, np.ndarray]:
    """(n,) sums of conductance, µS, and current, nA, of all kinds at each node."""
    model = variables.model
    n = model.forest.num_nodes
    g_sum, i_sum = np.zeros(n), np.zeros(n)
    for k in range(len(model.kinds)):
        variables.run_block(k, "before_breakpoint", t)
    for ion in model.ions:
        current = ion.variables[3]
        variables.ions[current][:] = 0.0
        variables.ions[f"d{current}"][:] = 0.0
        variables.to_nernst(ion, ion.node[(ion.style & ADVANCE_REVERSAL) > 0])
    for k, kind in enumerate(model.kinds):
        if "current" not in kind.mechanism.program.blocks:
            continue
        for some in variables.rounds[k]:
            node = kind.node[some]
            call = Call(variables.v[node], dict(t), step=step)
            variables.call(k, "current", some, call)
            zero = np.zeros(len(some))
            i, g = (call.results.get((role, role), zero) for role in ("i", "g"))
            factor = DENSITY * model.area[node] if kind.mechanism.kind == "density" else 1.0
            g_sum += np.bincount(node, factor * g, n)
            i_sum += np.bincount(node, factor * i, n)
    return g_sum, i_sum

"""Needs: the features that a network requires of an engine.

Most needs follow from a network's mechanisms and calls, others from the arrays of its `Model`. With
a need in `EXACT`, events are delivered at exact times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from clhines.core.arrays import stretch_of
from clhines.core.errors import InputError
from clhines.simulator.mechanisms.ir.program import CAPACITANCE, HELD_STEPS, Program
from clhines.simulator.model.model import Kind, Model, Written
from clhines.simulator.network.additions import Additions
from clhines.simulator.network.groups import Group
from clhines.simulator.refusals import refusal

NEEDS = {  # need: its name in messages
    "grid_times": "events in whole steps",
    "exact_times": "events at exact times",
    "plastic": "plastic connections",
    "noise": "noise",
    "detectors": "detectors",
    "trains": "trains of events",
    "played": "played values",
    "ions": "ions",
    "random": "streams of random numbers",
    "nmodl": "outputs, tables or blocks of .mod files",
    "sent_events": "instances that send events",
    "single_events": "events that act one by one",
    "self_events": "mechanisms that send events to themselves",
    "set_voltages": "events that set voltages",
    "weights": "connections with several weights",
    "begins": "states that begin at given values",
    "bins": "events in bins",
    "artificial_cells": "artificial cells",
    "pointers": "pointers to voltages (gap junctions)",
    "pointers_in_states": "states or events that depend on pointers",
    "written_pointers": "pointers that mechanisms write",
    "instant_events": "events between instances within a step",
    "instant_between_cells": "events between cells within a step",
    "read_pointers": "pointers to variables of mechanisms",
    "read_elsewhere": "pointers to variables of mechanisms of other cells",
    "instant_artificial": "events from artificial cells within a step",
    "ion_order": "ion currents with secondorder=2",
    "read_currents": "currents of ions that a BREAKPOINT reads",
    "last_instances": "GLOBAL variables that each instance of a mechanism sets in turn",
    "steered_weights": "pointers by which events set weights of others",
    "played_artificial": "values played into artificial cells",
    "ranks": "several ranks",
    "ranked_pointers": "pointers to voltages of other ranks",
    "diffusion": "LONGITUDINAL_DIFFUSION",
    "layers": "extracellular layers",
    "solver": "methods of the solver",
}
GRID = frozenset(
    {"grid_times", "plastic", "noise", "detectors", "trains", "ranks", "solver", "layers"}
)
EXACT = frozenset(NEEDS) - GRID  # with any of these, events act at exact times
_PLAIN = {"initial", "current", "advance", "receive"}  # texts' blocks
# blocks in a step's first and second kernel
_FIRST = "receive", "before_breakpoint", "current"
_SECOND = "advance", "diffuse", "after_solve", "before_step"


def refused(id_: str, /, **fields: object) -> InputError:
    """Return an InputError with the sentence of the catalogue of refusals."""
    return InputError(refusal(id_, **fields))


def phrases(words: Iterable[str], last: str = "or") -> str:
    """Join needs' phrases to a list in words, such as "a, b or c", in fixed order."""
    needs = {*words}
    return listed([phrase for need, phrase in NEEDS.items() if need in needs], last)


def listed(names: Sequence[str], last: str = "or") -> str:
    """Join names, at least one, to a list in words, such as "a, b or c"."""
    *most, end = names
    return f"{', '.join(most)} {last} {end}" if most else end


def of_program(program: Program) -> set[str]:
    """Return a mechanism's needs: the features that an engine must support.

    A mechanism that a text could describe, with events that can be summed, has none.
    """
    net, sends = program.net, () if program.net is None else program.net.sends
    words = {
        "artificial_cells": program.kind == "artificial",
        "ions": program.ions,
        "pointers": program.pointers,
        "written_pointers": program.written,
        "steered_weights": program.steered,
        "random": program.random,
        "nmodl": program.tables
        or (program.outputs and program.spike is None)  # that of `spike:` is the current
        or {*program.built_in} - {CAPACITANCE, HELD_STEPS}
        or _has_more(program),
        "single_events": net is not None and not net.summed,
        "set_voltages": program.sets_v,
        "diffusion": program.diffusing,
        "self_events": any(kind != "event" for kind in sends),
    }
    return {word for word, is_so in words.items() if is_so}


def _has_more(program: Program) -> bool:
    if any(q.is_global for q in program.states) or set(program.blocks) - _PLAIN:
        return True
    values = ["parameter"] * len(program.parameters) + ["state"] * len(program.states)
    roles = {
        block: [a.role for a in arguments if a.role != "noise"]
        for block, arguments in program.blocks.items()
    }
    clocks = [a.name for a in program.blocks.get("advance", ()) if a.role == "t"]
    advance, receive = ["v", "t", "dt", *values], ["weight", *values]
    return (
        roles.get("current") != ["v", "t", "dt", *values, "i", "g"]
        or roles.get("advance", advance) != advance
        or roles.get("receive", receive) != receive
        or clocks not in ([], ["begin"])
    )


def of_network(
    added: Additions, groups: Sequence[Group], connections: Sequence[tuple[np.ndarray, ...]]
) -> frozenset[str]:
    """Return the needs that follow from a network's calls; `connections` as `Wiring.calls`."""
    words = {
        "exact_times": added.exact,
        "detectors": any(len(s) and not s.times for s in added.sources),
        "trains": any(s.times for s in added.sources),
        "played": added.plays,
        "ions": added.ions,
        "random": added.streams,
        "sent_events": added.emitters,
        "weights": any(columns[3].shape[1] != 1 for columns in connections),
        "begins": any(  # a state's value before INITIAL differs from its file
            np.any(g.parameters.get(n, x) != x)
            for g in groups
            for n, x in g.mechanism.begins.items()
        ),
        "bins": added.bins,
        "pointers": added.pointers,
    }
    of_mechanisms = set().union(*(of_program(group.mechanism.program) for group in groups))
    return frozenset(word for word, is_so in words.items() if is_so) | of_mechanisms


def of_model(model: Model, exact: bool) -> frozenset[str]:
    """Return all needs of a model; with `exact` it has events at exact times."""
    kinds = model.kinds
    words: dict[str, object] = {
        "noise": any(kind.mechanism.uses_noise for kind in kinds),
        "layers": model.layers is not None,
    }
    if not exact:
        words |= {"grid_times": True, "plastic": model.connections.rule is not None}
    else:
        artificial = [kind.mechanism.kind == "artificial" for kind in kinds]
        short = model.netcons.delay < model.dt
        sent = model.sources.is_emitted[model.netcons.source] & short
        loose = artificial_sources(model)[model.netcons.source]
        words |= {
            "exact_times": True,
            "plastic": model.connections.rule is not None and model.on_grid,
            "instant_events": (sent & ~loose).any(),
            "instant_between_cells": (sent & ~loose & ~within_cells(model)).any(),
            "instant_artificial": (sent & loose).any(),
            "ion_order": model.second_order_currents,
            "pointers_in_states": any(_steps_read_pointers(model, k) for k in range(len(kinds))),
            "read_pointers": model.read,
            "read_elsewhere": any(_is_elsewhere(model, *pointer) for pointer in model.read.items()),
            "last_instances": any(k.mechanism.program.last and k.count > 1 for k in kinds),
            "read_currents": any(_reads_currents(kind) for kind in kinds),
            "played_artificial": any(artificial[played.kind] for played in model.played),
        }
    return frozenset(word for word, is_so in words.items() if is_so)


def artificial_sources(model: Model) -> np.ndarray:
    artificial = np.zeros(model.sources.count, bool)
    for k, sources in model.sources.emitted.items():
        if model.kinds[k].mechanism.kind == "artificial":
            artificial[sources[sources >= 0]] = True
    return artificial


def within_cells(model: Model) -> np.ndarray:
    """Return which exact connections are within a cell and shorter than a step, (m,) bool."""
    netcons = model.netcons
    is_within = model.sources.is_emitted[netcons.source] & (netcons.delay < model.dt)
    if not is_within.any():
        return is_within
    sender, receiver = np.full(model.sources.count, -1), np.full(netcons.count, -2)
    for k, kind in enumerate(model.kinds):
        if kind.mechanism.kind == "artificial":
            continue
        cell, here = stretch_of(model.forest.cell_offsets, kind.node), netcons.kind == k
        receiver[here] = cell[netcons.instance[here]]
        sources = model.sources.emitted.get(k, np.full(kind.count, -1))
        sender[sources[sources >= 0]] = cell[sources >= 0]
    return is_within & (sender[netcons.source] == receiver)


def _blocks_at(model: Model, pointer: tuple[int, str], to: Written) -> tuple[set[str], set[str]]:
    """Return the blocks that read a variable by a POINTER, and the blocks that set it.

    The reading blocks belong to the POINTER's mechanism, the others to the variable's. If the
    POINTER assigns the variable: blocks that use the POINTER, and blocks that use the variable.
    """
    (k, name), other = pointer, model.kinds[to.kind].mechanism
    mechanism = model.kinds[k].mechanism
    outputs = [q.name for q in mechanism.program.outputs]  # any of them may be recorded
    calls = ((b, mechanism.calls(b, outputs)) for b in mechanism.program.blocks)
    reads = {
        b
        for b, block in calls
        if any(a.role in ("pointer", "assign") and a.name == name for a in block)
    }
    if name in mechanism.program.assigned:
        outputs = [q.name for q in other.program.outputs]
        used = [(b, a) for b in other.program.blocks for a in other.calls(b, outputs)]
    else:
        blocks = other.program.blocks.items()
        used = [(b, a) for b, block in blocks for a in block if a.direction != "in"]
    sets = {b for b, a in used if (a.role, a.name) == ("state", to.state)}
    return {*map(_event, reads)}, {*map(_event, sets)}


def _event(block: str) -> str:
    return "receive" if block in ("watch", "net_initial") or "netcons" in block else block


def _steps_read_pointers(model: Model, k: int) -> bool:
    """Whether k reads other nodes' voltages, except in INITIAL, BEFORE BREAKPOINT and current."""
    allowed = ("initial", "current", "before_breakpoint")
    blocks = model.kinds[k].mechanism.program.blocks.items()
    return any(
        a.role == "pointer" and (k, a.name) in model.pointers
        for name, arguments in blocks
        if name not in allowed
        for a in arguments
    )


def _is_elsewhere(model: Model, pointer: tuple[int, str], to: Written) -> bool:
    kind, other = model.kinds[pointer[0]], model.kinds[to.kind]
    if "artificial" in (kind.mechanism.kind, other.mechanism.kind):
        return True
    nodes = np.stack((kind.node, other.node[to.instance]))
    return bool(np.ptp(stretch_of(model.forest.cell_offsets, nodes), axis=0).any())


def _reads_currents(kind: Kind) -> bool:
    program = kind.mechanism.program
    currents = {f"i{use.name}" for use in program.ions}
    return any(
        a.role == "ion" and a.name in currents and a.direction != "out"
        for a in program.blocks.get("current", ())
    )


def check_set_voltages(model: Model) -> None:
    """Refuse events that set voltages if the order within a step would differ from NEURON's.

    Different instances' events have no time order within a step, and thresholds are compared before
    the events that are due at its end.
    """
    setters = [k for k, kind in enumerate(model.kinds) if kind.mechanism.program.sets_v]
    if not setters:
        return
    node = np.concatenate([model.kinds[k].node for k in setters])
    name = model.kinds[setters[0]].mechanism.name
    late = [k for k in setters if "v" in model.kinds[k].mechanism.program.late]
    set_late = np.concatenate([node[:0], *(model.kinds[k].node for k in late)])
    looks = [kind.node for kind in model.kinds if _of_events(kind, "v", "set_v")]
    among = np.bincount(np.concatenate(looks), minlength=model.forest.num_nodes)
    pointed = any(np.isin(nodes, node).any() for nodes in model.pointers.values())
    sources, used = model.sources, np.zeros(model.sources.count, bool)
    used[model.forest.num_cells :] = True  # a cell's source is used if it has a connection
    used[model.netcons.source] = used[model.connections.source] = True
    above = sources.detector_node[used[sources.detector_source]]
    for is_so, what in (
        ((among[node] > 1).any(), "other events at the node depend on v or set it"),
        (pointed, "pointers point to it"),
        (any(_of_events(kind, "pointer") for kind in model.kinds), "events depend on pointers"),
        (
            np.isin(above, set_late).any(),
            "its threshold is compared; events of WATCH alone may set v",
        ),
        (model.bins, "events are delivered in bins"),
    ):
        if is_so:
            raise refused("network.v-set-by-events", name=name, what=what)


def check_written(model: Model) -> None:
    """Refuse pointers that set variables if the result would depend on the order of instances.

    The variable must belong to the same cell: within a step cells are simulated independently. If
    terms are added to it, this happens at the end of AFTER SOLVE: there and in BEFORE STEP nothing
    else may use it. If it is set, in BEFORE BREAKPOINT, its mechanism must not use it.
    """
    set_before = dict[tuple[int, str], np.ndarray]()  # by kind and state: instances that are set
    for (k, name), to in model.written.items():
        mechanism, other = (model.kinds[j].mechanism for j in (k, to.kind))
        is_put = bool(_putting(model, (k, name)))
        said = f"{mechanism.name}: pointer {name} points to {to.state} of {other.name}, which"
        nodes = np.stack((model.kinds[k].node, model.kinds[to.kind].node[to.instance]))
        if np.ptp(stretch_of(model.forest.cell_offsets, nodes), axis=0).any():
            raise refused("network.pointer-written-to-another-cell", said=said)
        for block in other.program.blocks:
            adds = other.compiled.adds(block, to.state)
            if block in ("after_initial", "after_solve", "before_step") and adds is None:
                what = block.upper().replace("_", " ")
                raise refused("network.pointer-target-not-added-to", said=said, what=what)
            diffuses = to.state in other.program.diffusing
            if is_put and (adds is not False or diffuses) and block != "initial":
                raise refused("network.pointer-target-used", said=said, name=mechanism.name)
        if is_put:
            before = set_before.get((to.kind, to.state), to.instance[:0])
            if np.isin(before, to.instance).any():
                raise refused("network.pointer-target-set-twice", said=said)
            set_before[to.kind, to.state] = np.append(before, to.instance)


def check_steered(model: Model) -> None:
    """Refuse pointers that set weights if the order of events within a step would matter.

    In a step all events that set a weight come before the events that are delivered with this
    weight; see `state.sources`.
    """
    netcons, steered = model.netcons, np.zeros(0, np.int64)
    for (k, name), to in model.steered.items():
        own, said = model.kinds[k].mechanism.name, f"pointer {name} points to a weight"
        for c in np.unique(netcons.kind[to.connection]).tolist():
            if model.kinds[c].mechanism.program.sets_weights:
                raise refused(
                    "network.pointer-weight-set-twice",
                    own=own,
                    said=said,
                    name=model.kinds[c].mechanism.name,
                )
        steered = np.append(steered, to.places(model))
        if len(np.unique(steered)) < len(steered):
            raise refused("network.pointer-weight-shared", own=own, said=said)
        if model.bins:
            raise refused("network.pointer-weight-in-bins", own=own, said=said)
        by = np.flatnonzero(netcons.kind == k)
        steers = to.connection[netcons.instance[by]]
        alike = (netcons.source[by] == netcons.source[steers]) & (
            netcons.delay[by] == netcons.delay[steers]
        )
        if alike.any():
            at = int(by[np.argmax(alike)])
            raise refused(
                "network.pointer-weight-same-delay", own=own, said=said, delay=netcons.delay[at]
            )


def check_read(model: Model) -> None:
    """Refuse pointers to variables if the result would depend on the order of events or instances.

    A kernel works on all nodes at once: it must not read a variable that it sets at another node.
    """
    for (k, name), to in model.read.items():
        reads, sets = _blocks_at(model, (k, name), to)
        mechanism, other = model.kinds[k].mechanism, model.kinds[to.kind].mechanism
        said = f"{mechanism.name}: pointer {name} points to {to.state} of {other.name}"
        if name in mechanism.program.assigned:
            _check_assigned(model, (k, name), to, said)
        if "receive" in reads & sets:
            raise refused("network.pointer-read-in-events", said=said)
        if k == to.kind and reads & sets:
            raise refused("network.pointer-to-same-mechanism", said=said)
        kinds = model.kinds[k], model.kinds[to.kind]
        loose = any(kind.mechanism.kind == "artificial" for kind in kinds)
        is_elsewhere = loose or (kinds[0].node != kinds[1].node[to.instance]).any()
        kernels = {*_FIRST}, {*_SECOND}
        if is_elsewhere and any(reads & blocks and sets & blocks for blocks in kernels):
            raise refused("network.pointer-read-at-another-node", said=said)
        _check_not_set(model, to, reads, said)


def _check_not_set(model: Model, to: Written, reads: set[str], said: str) -> None:
    """Refuse a POINTER that reads the variable `to` in blocks (`reads`) where POINTERs set it."""
    late = reads & {"after_initial", "after_solve", "before_step"}
    begins = reads & {"before_initial", "initial"}
    for pointer, at in model.written.items():
        is_same = (at.kind, at.state) == (to.kind, to.state)
        if not is_same or not np.isin(to.instance, at.instance).any():
            continue
        puts = _putting(model, pointer)
        if late or puts - {"before_initial", "initial"} or (puts and begins):
            raise refused(
                "network.pointer-reads-written",
                said=said,
                pointer=pointer[1],
                writer=model.kinds[pointer[0]].mechanism.name,
            )


def _check_assigned(model: Model, pointer: tuple[int, str], to: Written, said: str) -> None:
    """Refuse a POINTER, (mechanism, name), that BREAKPOINT sets, unless its target is simple.

    The target `to` must be another mechanism's variable that does not diffuse, and no other POINTER
    may refer to it. `said` names the POINTER in messages.
    """
    others = [
        at.instance
        for other, at in (*model.read.items(), *model.written.items())
        if other != pointer and (at.kind, at.state) == (to.kind, to.state)
    ]
    is_shared = any(np.isin(to.instance, instance).any() for instance in others)
    for is_so, what in (
        (pointer[0] == to.kind, "itself"),
        (is_shared or len(np.unique(to.instance)) < len(to.instance), "of others, too"),
        (to.state in model.kinds[to.kind].mechanism.program.diffusing, "that diffuses"),
    ):
        if is_so:
            raise refused("network.pointer-written-target", said=said, what=what)


def _putting(model: Model, pointer: tuple[int, str]) -> set[str]:
    k, name = pointer
    blocks = model.kinds[k].mechanism.program.blocks.items()
    return {
        b for b, arguments in blocks if any((a.role, a.name) == ("put", name) for a in arguments)
    }


def _of_events(kind: Kind, *roles: str) -> bool:
    blocks = kind.mechanism.program.blocks.items()
    events = (
        arguments for name, arguments in blocks if name in ("receive", "watch") or "netcons" in name
    )
    return any(a.role in roles for arguments in events for a in arguments)

"""Convert a model's mechanisms from NMODL, and find the targets of their POINTERs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from clhines.core.progress import each
from clhines.neuron.convert import (
    Rejected,
    RejectedError,
    begins_as,
    converted,
    reject,
    rejection,
    rounded_tables,
    split_name,
    table_rows,
    tables_of,
)
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.catalogue import CatalogueEntry
from clhines.neuron.read.places import ELEMENT, Variable
from clhines.neuron.read.written import read_pointed, read_written
from clhines.simulator.importing import refusal_flags
from clhines.simulator.mechanisms import UNLESS, Mechanism, nmodl
from clhines.simulator.refusals import refusal

_ROWS = 1e-12  # relative: TABLE rows may differ by this much (rounding)
_EACH = 8  # most pending self events per connection to an instance
_MOST_EVENTS = 1 << 24  # most pending self events for all instances of a mechanism

TablesByName = dict[str, nmodl.FunctionTable]


def convert_all(model: NeuronModel) -> None:
    for name, instances in each([*model.every.items()], "converting mechanisms"):
        channel = instances.entry.channel
        if channel is not None and channel.refused:
            model.rejected.append(Rejected(name, channel.refused))
            continue
        convert_mechanism(model, name)
        if name in model.mechanisms:
            model.rejected += _slots(model, name, model.mechanisms[name])


def convert_mechanism(
    model: NeuronModel, name: str, kept: Sequence[str] = (), draws: bool = False
) -> None:
    """Convert a mechanism of a model; if not possible, add the reasons to the model's rejections.

    `kept` are variables that POINTERs of other mechanisms read. With `draws`, present parameters
    let the mechanism draw from NEURON's shared generator.
    """
    try:
        model.mechanisms[name] = _mechanism_of(model, name, kept, draws)
    except RejectedError as error:
        model.rejected += error.rejected


def _mechanism_of(model: NeuronModel, name: str, kept: Sequence[str], draws: bool) -> Mechanism:
    entry, tables = model.every[name].entry, model.made_tables(name)
    statics = tuple(model.statics(name).items())
    entry = replace(entry, changes=replace(entry.changes, statics=statics))
    pointers = sorted({g.name for g in model.gaps if g.owner == name})
    use_tables = "usetable" not in entry.globals_ or bool(getattr(model.h, f"usetable_{name}"))
    second = int(model.h.secondorder) > 0 and entry.channel is None
    options = _room_for_events(model, name), kept, draws

    def convert(entry: CatalogueEntry) -> Mechanism:
        return converted(entry, pointers, use_tables, second, tables, *options)

    mechanism: Mechanism | None = None
    while mechanism is None:
        try:
            mechanism = convert(entry)
        except RejectedError as error:
            _take_table(model, name, tables, error)
    if rounded := rounded_tables(mechanism):  # NEURON's values, as ours could be near 0/0
        for block in rounded:
            table = model.made_table(name, block)
            if table is None:
                raise rejection(name, "neuron.table-not-filled", block=block)
            tables[nmodl.MADE.format(block)] = table
        mechanism = convert(entry)
    if others := _other_tables(model, name, mechanism):
        tables |= others
        mechanism = convert(entry)
    if lacking := model.lacking(name, mechanism.program.picked):
        changes = replace(entry.changes, streamless=tuple(lacking))
        mechanism = convert(replace(entry, changes=changes))
    return mechanism


def _take_table(model: NeuronModel, name: str, tables: TablesByName, error: RejectedError) -> None:
    """Add NEURON's values of the TABLE that `error` rejects to `tables`, or raise the error."""
    first, *others = error.rejected
    if first.id != "mod.table":
        raise error
    block = first.construct.split()[2]
    made = model.made_table(name, block)
    if made is None:
        way_out = f"call h.finitialize(), or {first.way_out}"
        raise RejectedError([replace(first, way_out=way_out), *others])
    tables[nmodl.MADE.format(block)] = made
    model.made.setdefault(name, []).append(block)


def asks_generator(model: NeuronModel, name: str) -> bool:
    """Whether a mechanism draws from NEURON's shared generator with its present parameters.

    The result is False if these parameters have other effects that are not supported.
    """
    mechanism = model.mechanisms[name]
    said, numbers = mechanism.program.unless, set[int]()
    for block in UNLESS:
        if block in mechanism.program.blocks:
            try:
                flags = refusal_flags(mechanism, block, _present(model, name, block))
            except LookupError:
                return False  # reported when a simulation takes NEURON's values
            numbers |= {number for number, where in flags if where.any()}
    return bool(numbers) and all(nmodl.ONE_GENERATOR in said[number] for number in numbers)


def _present(model: NeuronModel, name: str, block: str) -> dict[str, np.ndarray]:
    """Return the values of a block's inputs in NEURON; LookupError if one is not found."""
    program, values = model.mechanisms[name].program, dict[str, np.ndarray]()
    wanted = {a.name for a in program.blocks[block] if a.direction == "in"}
    for quantity in (*program.parameters, *program.states):
        base, place = split_name(quantity)
        if quantity.name not in wanted:
            continue
        owner = model.owner_of(name, base)
        if owner is not None:
            values[quantity.name] = owner.values(base, place)
        elif base.endswith(f"_{nmodl.GIVEN}"):
            values[quantity.name] = (model.pointers(name) != 0).astype(np.float64)
        else:
            raise LookupError(base)
    return values


def _other_tables(model: NeuronModel, name: str, mechanism: Mechanism) -> TablesByName:
    """Return NEURON's values of the TABLEs that would differ if they were filled now.

    NEURON fills a TABLE when a DEPEND variable changes, possibly before INITIAL sets variables.
    """
    tables, entry, refused = TablesByName(), model.every[name].entry, list[Rejected]()
    texts = tables_of(entry.text, entry.file) if mechanism.program.tables else {}
    for table in mechanism.program.tables:
        block, text = table.name, texts.get(table.name)
        if table.made or table.columns == ("x",):  # the latter is filled in each call
            continue
        refused += _differing(model, name, block, table.depends)
        if text is not None and text.aside:
            model.aside.append((name, block))
        if text is None or not text.beyond | text.begun:
            continue
        model.beyond.setdefault(name, set()).update(text.beyond)
        made = model.made_table(name, block) if text.beyond else None
        if made is None:
            said = begins_as(mechanism, text.begun, partial(model.first_of, name))
            if said:
                what = refusal("mod.table", name=block, variable=said)
                way_out = f"call h.finitialize(), or set usetable_{name} = 0"
                refused.append(Rejected(name, what, way_out, entry.file))
            continue
        rows = table_rows(mechanism, block, partial(model.first_of, name))
        present_rows = None if rows is None else np.ravel(rows)
        if present_rows is None or not np.allclose(
            present_rows, made.values, _ROWS, 0, equal_nan=True
        ):
            tables[nmodl.MADE.format(block)] = made
            model.made.setdefault(name, []).append(block)
    if refused:
        raise RejectedError(refused)
    return tables


def _differing(
    model: NeuronModel, name: str, block: str, depends: Sequence[str]
) -> Iterator[Rejected]:
    """Yield a rejection for each DEPEND variable of a TABLE that differs between instances."""
    entry = model.every[name].entry
    for variable in sorted({*depends} & {*entry.ranges}):
        if np.ptp(model.every[name].values(variable)):
            what = refusal("neuron.table-differs", block=block, one=variable)
            way_out = f"give all one value, or set usetable_{name} = 0"
            yield Rejected(name, what, way_out, entry.file)


def _room_for_events(model: NeuronModel, name: str) -> int:
    """Return an instance's limit of pending self events: `_EACH` per connection."""
    senders, count = model.wires.senders, len(model.every[name])
    target = model.wires.target
    if "net_send" not in model.every[name].entry.text or name not in senders.names:
        return nmodl.MAX_QUEUE
    instance = senders.instance[target[senders.name[target] == senders.names.index(name)]]
    targets = [event.target for event in model.pending.selves]
    pending = np.array([k for owner, k in targets if owner == name], np.int64)
    most = _EACH * np.bincount(instance, minlength=count) + np.bincount(pending, minlength=count)
    room = 1 << (int(most.max(initial=1)) - 1).bit_length()
    return max(nmodl.MAX_QUEUE, min(room, _MOST_EVENTS // max(count, 1)))


def find_pointed(model: NeuronModel) -> None:
    """Set `NeuronModel.pointed`: the targets of POINTERs that mechanisms read.

    A mechanism whose variable is such a target is converted again: it then stores the variable
    where other mechanisms can read it.
    """
    gap_nodes = {(gap.owner, gap.name, gap.instance): gap.node for gap in model.gaps}
    read = model.memory, model.places, model.every, model.mechanisms
    model.pointed, rejected = read_pointed(*read, gap_nodes)
    model.rejected += rejected
    kept = dict[str, set[str]]()
    for first in (targets[0] for targets in model.pointed.values() if targets):
        if first.owner in model.mechanisms:
            kept.setdefault(first.owner, set()).add(first.name)
    for owner, names in kept.items():
        convert_mechanism(model, owner, sorted(names))
    for (name, pointer), targets in model.pointed.items():
        model.rejected += _reasons_against(model, name, pointer, targets[0]) if targets else ()


def _reasons_against(
    model: NeuronModel, name: str, pointer: str, target: Variable
) -> Iterator[Rejected]:
    owner, variable = target.owner, target.name
    pointing = model.outside.pointing.get(owner)
    if pointing is not None and variable in pointing.unknown:
        yield reject(name, "neuron.pointer-depends-on-i-membrane", pointer=pointer, name=variable)
    if owner not in model.mechanisms:
        return
    played = {(p.variable.owner, p.variable.name) for p in model.players}
    states = model.mechanisms[owner].program.states
    is_kept = variable in {(q.public or q.name).split("[")[0] for q in states}
    if (owner, variable) in played or not is_kept:
        words = {"pointer": pointer, "variable": variable, "owner": owner}
        yield reject(name, "neuron.pointer-to-constant", **words)


def find_written(model: NeuronModel) -> None:
    """Find targets that POINTERs write; reject records of Vector elements that are no target."""
    plays = model.plays
    parts = model.memory, model.places, model.every, model.mechanisms
    model.written = read_written(*parts, plays.in_use)
    model.rejected += model.written.rejected
    for recorder in plays.recorders:
        variable, place = recorder.variable, recorder.place
        if variable is not None and place is not None and variable.owner == ELEMENT:
            if variable.number not in model.written.elements:
                model.rejected.append(plays.not_recorded(place))


def check_made(model: NeuronModel) -> list[Rejected]:
    """Reject Vectors that play into a DEPEND variable of a TABLE that NEURON has filled."""
    rejected, played = [], {(p.variable.owner, p.variable.name) for p in model.players}
    made = [(name, block) for name, blocks in model.made.items() for block in blocks]
    for name, block in [*made, *model.aside]:
        entry = model.every[name].entry
        for variable in tables_of(entry.text, entry.file)[block].depends:
            if (name, variable) in played:
                words = {"block": block, "variable": variable}
                way_out = f"set usetable_{name} = 0"
                rejected.append(reject(name, "neuron.table-played", way_out, **words))
    return rejected


def _slots(model: NeuronModel, name: str, mechanism: Mechanism) -> list[Rejected]:
    """Find a mechanism's self events and WATCH conditions in memory; reject it on failure."""
    net, instances = mechanism.program.net, model.every[name]
    if net is None or not (net.watches or net.sends):
        return []
    try:
        model.slots.place_of(instances.entry.number, "netsend")
        if net.watches:
            model.watched[name] = model.slots.watched(instances)
    except OSError as error:
        return [reject(name, "neuron.events-unreadable", error=error)]
    return []

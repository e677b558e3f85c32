"""Write saved states of simulations, and read and check them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np

from clhines.core.arrays import starts
from clhines.core.checks import shown
from clhines.core.errors import InputError
from clhines.core.files import PathLike, write_npz
from clhines.simulator.common.npz import Member, Npz
from clhines.simulator.model.model import Model
from clhines.simulator.model.schema import Field, split_name
from clhines.simulator.network.times import LAST_STEP, begins_of
from clhines.simulator.state.decisions import external_sums, incoming_scale, length, shape_of
from clhines.simulator.state.sources import ring_sizes

_WHAT = "a file that Simulation.save() has written"
_SCALAR = np.dtype(np.int64)
_TEXT = np.dtype("U184")  # a digest, and settings
_MOST = 2**31 - 1  # largest count, except for generators, where it may be their state
_MOST_DRAWN = 2**32 - 1


def signature(model: Model) -> str:
    """Return a digest of everything on which the arrays of a saved state depend."""
    digest = hashlib.sha256()
    for kind in model.kinds:
        digest.update(kind.mechanism.text.encode())
        for name in ("includes", "function_tables"):  # of NMODL, such as a field's waveform
            if given := getattr(kind.mechanism.language, name, ()):
                digest.update(repr(given).encode())
        for array in (kind.node, kind.factor, *kind.arrays().values()):
            digest.update(array.tobytes())
        if kind.last is not None:
            digest.update(repr(kind.last).encode())
    connections, events = model.connections, model.events
    arrays = [model.forest.parent, model.u, model.capacitance, model.threshold]
    arrays += [model.constant_d, model.constant_b, events.target, events.step, events.weight]
    arrays += [
        connections.source.astype(np.int64),
        connections.target.astype(np.int64),
        connections.weight,
    ]
    arrays += [connections.delay.astype(np.int64), connections.plastic]
    if model.num_extra:
        sources = model.sources
        arrays += [sources.detector_node, sources.detector_threshold, model.detector_hold]
    if model.layers is not None:
        arrays += [a for a in vars(model.layers).values() if isinstance(a, np.ndarray)]
    for array in arrays:
        digest.update(array.tobytes())
    digest.update(repr((model.dt, model.secondorder, model.seed, connections.rule)).encode())
    if model.exact:
        digest.update(_described(model))
    return digest.hexdigest()


def _described(model: Model) -> bytes:
    digest = hashlib.sha256()

    def add(value: object) -> None:
        if isinstance(value, np.ndarray):
            digest.update(repr((value.dtype.str, value.shape)).encode() + value.tobytes())
        elif is_dataclass(value):
            for one in fields(value):
                add(getattr(value, one.name))
        elif isinstance(value, dict):
            for key, entry in value.items():
                add(key)
                add(entry)
        elif isinstance(value, tuple):
            for entry in value:
                add(entry)
        else:
            digest.update(repr(value).encode())

    sources = model.sources
    of_sources = [getattr(sources, one.name) for one in fields(sources)]
    add((model.celsius, model.ions, *of_sources[:-1], model.netcons, model.pointers, model.played))
    if model.written:
        add(model.written)
    if model.read:
        add(model.read)
    add((model.random_ids, model.random_index, model.second_order_currents, model.bins))
    add((sources.ring_size, model.remote_v))
    return digest.digest()


def write(
    path: PathLike, arrays: dict[str, np.ndarray], step: int, digest: str, model: Model
) -> None:
    network = np.array(f"{digest} {_settings(model)}", _TEXT)
    write_npz(path, arrays | {"step": np.array(step, np.int64), "network": network})


def _settings(model: Model) -> str:
    return f"dt={model.dt!r} ms, secondorder={model.secondorder}, seed={model.seed}"


def _difference(saved_settings: str, model: Model) -> str:
    """Say how a saved state differs from a model; `saved_settings` is "" in earlier versions."""
    settings = _settings(model)
    if not saved_settings:
        return "of another network or another dt"
    pairs = zip(saved_settings.split(", "), settings.split(", "), strict=False)
    other = [f"{one} (here {two})" for one, two in pairs if one != two and one.isprintable()]
    return f"saved with {', '.join(other)}" if other else "of another network, with the same dt"


def read(
    path: PathLike, model: Model, dtype: np.dtype, digest: str
) -> tuple[int, dict[str, np.ndarray]]:
    """Read a saved state; return its step and arrays. InputError if it does not fit the model.

    `digest` is the model's `signature`.
    """
    with Npz(path, _WHAT) as file:
        if file.header("network")[1] == np.uint8:  # a network's text
            raise InputError(f"{file.name}: is a network, for Network.load(); expected {_WHAT}")
        has_settings = file.header("network")[1] == _TEXT
        text = _TEXT if has_settings else np.array(digest).dtype
        network, _, settings = str(file.read("network", Member((), text))).partition(" ")
        if network != digest:
            raise InputError(
                f"{file.name}: {_difference(settings, model)}; expected one saved by this "
                "simulation"
            )
        step = int(file.read("step", Member((), _SCALAR, 0, LAST_STEP)))
        other = file.header("v")[1]
        if other != dtype and other in (np.float64, np.float32):
            raise InputError(
                f"{file.name}: of a simulation in {other.name}; expected {dtype.name}, this one's"
            )
        expected = members(model, dtype, step)
        unknown = sorted(set(file.names) - set(expected) - {"network", "step"})
        if unknown:
            raise InputError(f"{file.name}: {shown(unknown[0])} is unknown; expected {_WHAT}")
        arrays = {name: file.read(name, member) for name, member in expected.items()}
        _check_events(f"{file.name}: ", arrays, model, step)
        return step, arrays


def members(model: Model, dtype: np.dtype, step: int) -> dict[str, Member]:
    return {
        f.key: Member(shape_of(model, f), f.dtype_in(dtype), *_bounds(model, f, step))
        for f in model.schema
    }


Bounds = tuple[float | np.ndarray | None, float | np.ndarray | None]


def _plastic_bounds(model: Model, field: Field, step: int) -> Bounds:
    rule, connections = model.connections.rule, model.connections
    assert rule is not None  # only models with a rule have these fields
    if field.family == "plastic_step":
        return -1, step
    if field.family == "plastic_trace":  # a spike count grows by one per step at most
        side, number = split_name(field.name)
        return (0, step + 1) if rule.about.counts(rule.kept[side][number]) else (None, None)
    low, high = (
        np.where(connections.plastic, w, connections.weight) for w in (rule.w_min, rule.w_max)
    )
    return low, high


def _bounds(model: Model, field: Field, step: int) -> Bounds:
    if field.key == "failed":  # a failed run cannot be saved
        return 0, 0
    if field.key == "held":
        return 0, model.detector_hold
    if field.key == "incoming":
        return _incoming(model)
    if field.family.startswith("plastic"):
        return _plastic_bounds(model, field, step)
    if field.dtype != "int64":
        return None, None
    if field.refers:
        return -1, length(model, field.refers) - 1
    if field.family == "queue":
        most = length(model, "event", field.kind)
        return (0, most) if field.name == "size" else (-1, most - 1)
    return 0, _MOST_DRAWN if field.family == "drawn" else _MOST


def _incoming(model: Model) -> Bounds:
    """Return the least and largest sum of pending weights that each target can have.

    These are minus and plus the summed weights of its connections and external events.
    """
    connections, targets = model.connections, model.num_targets
    largest = np.bincount(connections.target, connections.largest, targets)
    count = np.bincount(connections.target, minlength=targets) + len(model.events.step)
    scale = incoming_scale(model)
    most = (largest[:targets] + external_sums(model)[:targets]) / scale + count[:targets]
    most *= 1 + 2.0**-50  # allow for rounding in these sums
    return -most, most


def _check_events(where: str, arrays: Mapping[str, np.ndarray], model: Model, step: int) -> None:
    if not model.exact:
        return
    # earlier events were delivered by the middle of the last step
    least = float(begins_of(step, model.dt)) - model.dt
    for k, kind in enumerate(model.kinds):
        queue = model.schema.named(arrays, "queue", k)
        if not queue:
            continue
        time, size = queue["time"], queue["size"]
        if (queue["last"] >= np.maximum(size, 0)).any():
            raise InputError(f"{where}queue{k}_last is above queue{k}_size; expected below it")
        overdue = (np.arange(len(time))[:, None] < size) & (time < least)
        if overdue.any():
            q, j = np.argwhere(overdue)[0]
            raise InputError(
                f"{where}queue{k}_time[{q}, {j}] is {time[q, j]:g} ms; expected no self event of "
                f"{kind.mechanism.name} before {least:g} ms"
            )
    _check_rings(where, arrays, model, least)


def _check_rings(where: str, arrays: Mapping[str, np.ndarray], model: Model, least: float) -> None:
    """Raise InputError if an index is outside its ring buffer, or an event is due before `least`.

    `least` is in ms; `where` begins the message.
    """
    netcons, size = model.netcons, ring_sizes(model)
    source, cursor = netcons.source, arrays["cursor"]
    lag = arrays["count"][source] - cursor
    wrong = np.flatnonzero((lag < 0) | (lag > size[source]))
    if len(wrong):
        k = int(wrong[0])
        most, count = int(size[source[k]]), int(arrays["count"][source[k]])
        raise InputError(
            f"{where}cursor[{k}] is {cursor[k]}; expected {max(count - most, 0)} to {count}, the "
            "events of its source"
        )
    waiting = np.flatnonzero(lag > 0)
    at = source[waiting]
    due = arrays["ring"][starts(size)[at] + cursor[waiting] % size[at]] + netcons.delay[waiting]
    overdue = np.flatnonzero(due < least)
    if len(overdue):
        k = int(waiting[overdue[0]])
        raise InputError(
            f"{where}ring: connection {k} has an event that is due at {due[overdue[0]]:g} ms; "
            f"expected none before {least:g} ms"
        )

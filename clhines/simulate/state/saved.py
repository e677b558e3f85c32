"""Saved states of simulations: writing them, and reading them with checks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from clhines.checks import shown
from clhines.errors import InputError
from clhines.files import Member, Npz, PathLike, check_values, write_npz
from clhines.model.model import Model
from clhines.network.times import LAST_STEP
from clhines.simulate.state.decisions import external_sums, incoming_scale, ring_slots
from clhines.simulate.state.extended_saved import (
    bounds_of,
    check_events,
    described,
    extended_members,
)

_WHAT = "a file that save() has written"
_SCALAR = np.dtype(np.int64)


def signature(model: Model) -> str:
    """Return a digest of everything the arrays of a saved state depend on."""
    digest = hashlib.sha256()
    for kind in model.kinds:
        digest.update(kind.mechanism.text.encode())
        for array in (kind.node, kind.factor, *kind.arrays().values()):
            digest.update(array.tobytes())
    known, events = model.connections, model.events
    arrays = [model.forest.parent, model.u, model.capacitance, model.threshold]
    arrays += [model.constant_d, model.constant_b, events.target, events.step, events.weight]
    arrays += [known.source.astype(np.int64), known.target.astype(np.int64), known.weight]
    arrays += [known.delay.astype(np.int64), known.plastic]
    for array in arrays:
        digest.update(array.tobytes())
    digest.update(repr((model.dt, model.secondorder, model.seed, known.rule)).encode())
    if model.extended is not None:
        digest.update(described(model.extended))
    return digest.hexdigest()


def write(path: PathLike, arrays: dict[str, np.ndarray], step: int, digest: str) -> None:
    """Write the state at the beginning of a step."""
    write_npz(path, arrays | {"step": np.array(step, np.int64), "network": np.array(digest)})


def read(
    path: PathLike, model: Model, dtype: np.dtype, digest: str
) -> tuple[int, dict[str, np.ndarray]]:
    """Read a state; every number is one that a simulation of this model may have.

    Parameters
    ----------
    path : str, bytes or path-like
    model : Model
        Of the whole network.
    dtype : float64 or float32
        Of the simulation that goes on.
    digest : str
        Of `signature`.

    Returns
    -------
    step : int
    arrays : dict of name -> array
        All that `members` names.

    Raises
    ------
    InputError
        It cannot be read, is of another network or of the other precision, or is damaged.
    """
    with Npz(path, _WHAT) as file:
        network = file.read("network", Member((), np.array(digest).dtype))
        if str(network) != digest:
            raise InputError(
                f"{file.name}: of another network or another dt; expected one saved by this "
                "simulation"
            )
        step = int(file.read("step", Member((), _SCALAR, 0, LAST_STEP)))
        other = file.header("v")[1]
        if other != dtype and other in (np.float64, np.float32):
            raise InputError(
                f"{file.name}: of a simulation in {other.name}; expected {dtype.name}, as this one"
            )
        expected = members(model, dtype, step)
        unknown = sorted(set(file.names) - set(expected) - {"network", "step"})
        if unknown:
            raise InputError(f"{file.name}: {shown(unknown[0])} is unknown; expected {_WHAT}")
        found = {name: file.read(name, member) for name, member in expected.items()}
        if model.extended is not None:
            check_events(f"{file.name}: ", found, model, model.extended, step)
        return step, found


def checked(
    arrays: Mapping[str, object], known: Mapping[str, np.ndarray], model: Model, step: int
) -> dict[str, np.ndarray]:
    """Return the arrays of a state at the begin of a step, checked as those of a file.

    Parameters
    ----------
    arrays : dict of name -> array
    known : dict of name -> array
        Of the present state; their shapes and dtypes are expected.
    model : Model
    step : int

    Raises
    ------
    InputError
        One is missing, or has another shape, numbers of another kind or wrong values.
    """
    extended, found = model.extended, dict[str, np.ndarray]()
    plain = members(model, known["v"].dtype, step) if extended is None else {}
    for name, old in known.items():
        given = np.asarray(arrays[name]) if name in arrays else None
        if given is None or given.shape != old.shape:
            got = "missing" if given is None else given.shape
            raise InputError(f"{name} is {got}; expected an array of shape {old.shape}")
        kinds = {"f": "fiu", "i": "iu", "u": "iu"}.get(old.dtype.kind, old.dtype.kind)
        if given.dtype.kind not in kinds:
            raise InputError(f"{name} has dtype {given.dtype}; expected {old.dtype}")
        expected = plain.get(name)
        if extended is not None:
            expected = Member(old.shape, old.dtype, *bounds_of(name, old.dtype, known, extended))
        if expected is not None:
            check_values(name, given, expected)
        with np.errstate(over="ignore"):
            found[name] = given.astype(old.dtype)
        check_values(name, found[name], Member(old.shape, old.dtype))
    if extended is not None:
        check_events("", found, model, extended, step)
    return found


def members(model: Model, dtype: np.dtype, step: int) -> dict[str, Member]:
    """Return the members, besides step and digest, of a file saved at the beginning of `step`."""
    if model.extended is not None:
        return extended_members(model, dtype)
    cells, int32 = model.forest.num_cells, np.dtype(np.int32)
    found = {
        "v": Member((model.forest.num_nodes,), dtype),
        "failed": Member((cells,), int32, 0, 0),  # a run that failed cannot be saved
        "incoming": _incoming(model),
    }
    for k, kind in enumerate(model.kinds):
        for name in kind.mechanism.states:
            found[f"state{k}_{name}"] = Member((kind.count,), dtype)
    rule, given = model.connections.rule, model.connections
    if rule is not None and given.largest.any():
        float64 = np.dtype(np.float64)
        low, high = (np.where(given.plastic, w, given.weight) for w in (rule.w_min, rule.w_max))
        found["plastic_weight"] = Member((len(given.weight),), float64, low, high)
        for name in ("pre", "post"):
            found[f"plastic_trace_{name}"] = Member((cells,), float64, 0, step + 1)
            found[f"plastic_step_{name}"] = Member((cells,), int32, 0, step)
    return found


def _incoming(model: Model) -> Member:
    """Return the member of pending events: sums of at most the weights of all sources."""
    connections, targets = model.connections, model.num_targets
    largest = np.bincount(connections.target, connections.largest, targets)
    count = np.bincount(connections.target, minlength=targets) + len(model.events.step)
    scale = incoming_scale(model)
    most = (largest[:targets] + external_sums(model)[:targets]) / scale + count[:targets]
    most *= 1 + 2.0**-50  # of rounding these sums
    shape = ring_slots(model), targets
    return Member(shape, np.dtype(np.int64), -most, most)

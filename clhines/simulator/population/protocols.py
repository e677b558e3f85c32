"""A population's protocols: stops, stimuli, and the stimulus for features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from clhines.core.checks import as_indices, as_number, shown, to_array
from clhines.core.errors import InputError
from clhines.simulator.network.network import Network
from clhines.simulator.network.times import whole_steps
from clhines.simulator.population.parameters import ParameterPath

STIMULUS = {"amp": 0.0, "delay": 0.0, "dur": 1e9}
CLAMPS = ("iclamp", "IClamp")  # the built-in one and NEURON's
_UNITS = {"amp": "nA", "delay": "ms", "dur": "ms"}

Stimulus = Mapping[str, float]
Protocol = Mapping[str, float | Sequence[Stimulus]]


def by_step(
    model: Network, protocols: Mapping[str, Protocol], dt: float
) -> tuple[np.ndarray, list[dict[str, np.ndarray]]]:
    """Return each protocol's stop, in steps, and a dict of arrays (P,) for each current clamp.

    Every protocol uses as many clamps as the protocol with most stimuli; clamps that it does not
    need have duration 0.
    """
    stops, lists = [], []
    for name, protocol in protocols.items():
        if not isinstance(protocol, Mapping) or not {*protocol} <= {"stop", "stimuli"}:
            raise InputError(f"protocol {name} is {shown(protocol)}; expected stop and stimuli")
        steps = whole_steps(protocol.get("stop"), dt)
        if not steps:
            raise InputError(
                f"protocol {name}: stop is {shown(protocol.get('stop'))}; expected a whole "
                f"number of steps of {dt:g} ms"
            )
        stops.append(steps)
        stimuli = protocol.get("stimuli", ())
        if not isinstance(stimuli, Sequence):
            raise InputError(f"protocol {name}: stimuli is {shown(stimuli)}; expected a list")
        lists.append([_stimulus(model, name, one) for one in stimuli])
    none = dict(STIMULUS, dur=0.0, at=float(model.soma[0]))
    columns = []
    for k in range(max(len(each) for each in lists)):
        rows = [each[k] if k < len(each) else none for each in lists]
        columns.append({key: np.array([row[key] for row in rows]) for key in none})
    return np.array(stops), columns


def _stimulus(model: Network, protocol: str, values: Stimulus) -> dict[str, float]:
    if not isinstance(values, Mapping) or not {*values} <= {*STIMULUS, "at"}:
        raise InputError(
            f"protocol {protocol}: stimulus is {shown(values)}; expected amp, delay, dur and at"
        )
    if "amp" not in values:
        raise InputError(f"protocol {protocol}: stimulus is {shown(values)}; expected amp, nA")
    stimulus = {
        name: as_number(f"protocol {protocol}: {name}", values.get(name, default), _UNITS[name])
        for name, default in STIMULUS.items()
    }
    if stimulus["dur"] < 0:
        raise InputError(f"protocol {protocol}: dur is {stimulus['dur']:g} ms; expected 0 or more")
    node = np.asarray([to_array(f"protocol {protocol}: at", values.get("at", model.soma[0]))])
    at = as_indices(f"protocol {protocol}: at", node, model.forest.num_nodes, "node")
    return {**stimulus, "at": float(at[0])}


def stimulus_windows(
    model: Network,
    protocols: Mapping[str, Protocol],
    stimuli: Sequence[dict[str, np.ndarray]],
    features: Sequence[str],
    paths: Iterable[ParameterPath],
) -> dict[str, np.ndarray]:
    """Return the amplitude, delay and duration of the stimulus for features, (P,) each.

    This is the protocol's first stimulus or, if it has none, the model's only current clamp.
    """
    if not features:
        return {}
    windows = {name: np.zeros(len(protocols)) for name in STIMULUS}
    for k, (protocol, settings) in enumerate(protocols.items()):
        stimulus: Mapping[str, float]
        if settings.get("stimuli"):
            stimulus = {name: float(stimuli[0][name][k]) for name in STIMULUS}
        else:
            stimulus = _own_clamp(model, protocol, features, paths)
        for name in STIMULUS:
            windows[name][k] = stimulus[name]
    return windows


def _own_clamp(
    model: Network, protocol: str, features: Sequence[str], paths: Iterable[ParameterPath]
) -> dict[str, float]:
    """Return the amplitude, delay and duration of the model's only current clamp, by name.

    InputError, naming `protocol` and its `features`, if there is no clamp or several, or if `paths`
    (parameters to fit) change it.
    """
    clamps = list[dict[str, float]]()
    for group in (g for g in model.groups if g.mechanism.name in CLAMPS):
        delay = "del" if "del" in group.parameters else "delay"  # NEURON's, and the built-in one's
        columns = [np.broadcast_to(group.parameters[n], len(group)) for n in ("amp", delay, "dur")]
        rows = zip(*(column.tolist() for column in columns), strict=True)
        clamps += [dict(zip(STIMULUS, row, strict=True)) for row in rows if row[2] > 0]
    expected = "'stimuli': [{'amp': 0.0, 'delay': ..., 'dur': ...}], ms, to which features refer"
    if len(clamps) != 1:
        had = "no current clamp" if not clamps else f"{len(clamps)} current clamps"
        raise InputError(
            f"protocol {protocol} has no stimulus, and the model has {had}; expected {expected}"
        )
    changed = {path[1] for path in paths if path[0] in CLAMPS}
    if changed - {"amp"} or (changed and any("resistance" in name for name in features)):
        raise InputError(
            f"protocol {protocol} has no stimulus, and the model's clamp differs between sets; "
            f"expected {expected}"
        )
    return clamps[0]

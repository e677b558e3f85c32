"""A population's protocols: stops, stimuli, and the stimulus for features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from clhines.core.checks import as_indices, as_number, shown, to_array
from clhines.core.errors import InputError
from clhines.simulator.network.network import Network
from clhines.simulator.network.times import whole_steps

STIMULUS = {"amp": 0.0, "delay": 0.0, "dur": 1e9}
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
    protocols: Mapping[str, Protocol], stimuli: Sequence[dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Return the first stimulus of each protocol, to which features refer: (P,) by name."""
    for protocol, settings in protocols.items():
        if not settings.get("stimuli"):
            raise InputError(
                f"protocol {protocol} has no stimulus; expected 'stimuli': [{{'amp': 0.0, "
                "'delay': ..., 'dur': ...}], ms, to which features refer"
            )
    return {name: stimuli[0][name] for name in STIMULUS}

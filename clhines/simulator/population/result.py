"""PopulationResult: voltages, spikes and features by set and protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from clhines.core.checks import as_choice, as_whole_number, shown
from clhines.core.errors import meant
from clhines.simulator.analysis.spikes import RaggedArray
from clhines.simulator.common.checks import unchangeable


@unchangeable("an array or attribute of yours: results stay as they are")
@dataclass(frozen=True, eq=False)
class PopulationResult:
    """Results of a population.

    Attributes
    ----------
    t : (T,) float64, ms
    v : (N, P, T) real, mV
        At the recorded node; NaN after a protocol's stop. (N, P, 0) if the population has features.
    spike_set, spike_protocol : (k,) int64
        Sorted by set, protocol and time.
    spike_time : (k,) float64, ms
        Until the protocol's stop. A spike is a crossing of the model's threshold
        (`Network.threshold`, or a text's with ``spike:``); features use eFEL's, -20 mV.
    features : dict of str to (N, P) array or RaggedArray
        A RaggedArray has one array per set and protocol: ``features[name][n * P + p]``.
    protocols : tuple of str
        Their names, in the order of the arrays.
    """

    t: np.ndarray
    v: np.ndarray
    spike_set: np.ndarray
    spike_protocol: np.ndarray
    spike_time: np.ndarray
    features: Mapping[str, np.ndarray | RaggedArray] = field(default_factory=dict)
    protocols: tuple[str, ...] = ()

    def __repr__(self) -> str:
        names = f"; features {', '.join(self.features)}" if self.features else ""
        shape = self.v.shape[:2]
        sizes = f"{shape[0]} sets × {shape[1]} protocols × {len(self.t)} times"
        return f"PopulationResult({sizes}{names})"

    @property
    def num_spikes(self) -> np.ndarray:
        """Each set's spike count under each protocol, (N, P) int64.

        Spikes are those in `spike_time`, crossings of the model's threshold. The feature
        ``spike_count`` counts eFEL's peaks above -20 mV instead.
        """
        shape = self.v.shape[:2]
        both = self.spike_set * shape[1] + self.spike_protocol
        return np.bincount(both, minlength=shape[0] * shape[1]).reshape(shape)

    def __getattr__(self, name: str) -> object:
        if name == "spike_count":
            raise AttributeError(
                "spike_count is eFEL's feature, which counts peaks above -20 mV: "
                "features['spike_count']; expected num_spikes, which counts threshold crossings"
            )
        raise AttributeError(
            f"PopulationResult has no {shown(name)}{meant(name, (*vars(self), 'num_spikes'))}"
        )

    def spikes(self, number: int, protocol: int | str) -> np.ndarray:
        """Return the spike times of one set under one protocol, (j,) float64, ms.

        Parameters
        ----------
        number : int
            Of the set, from 0.
        protocol : int or str
            Number, from 0, or name of the protocol.

        Raises
        ------
        InputError
            There is no such set or protocol.
        """
        number = as_whole_number("number", number, 0, len(self.v) - 1)
        if isinstance(protocol, str):
            protocol = self.protocols.index(as_choice("protocol", protocol, self.protocols))
        protocol = as_whole_number("protocol", protocol, 0, self.v.shape[1] - 1)
        selected = (self.spike_set == number) & (self.spike_protocol == protocol)
        return self.spike_time[selected]

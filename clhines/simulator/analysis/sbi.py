"""A simulator for `sbi`: tensors of parameter sets to tensors of features, in one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from clhines.core.checks import shown
from clhines.core.errors import InputError, install, meant
from clhines.simulator.analysis import results as of_population
from clhines.simulator.analysis.extract import FEATURES
from clhines.simulator.analysis.results import PopulationLike

try:
    import torch
except ImportError as error:
    raise ImportError(f"clhines.analysis.sbi needs PyTorch ({error}): {install('sbi')}") from None


class Simulator:
    """Features of a population as a function of its parameters, for `sbi.inference`.

    Parameters
    ----------
    features : sequence of (str, str)
        Protocol and name of a feature of `simulator.analysis.FEATURES`. Of features with a value
        per spike the mean is taken.
    stimuli : mapping of str to (float, float), ms
        Begin and end of the stimulus of each protocol that `features` names.
    currents : mapping of str to float, nA, optional
        Of the stimuli; needed for input resistances.
    threshold : float, mV
        Of spikes.
    missing : float
        Value where a trace does not have the feature. Default: NaN, which sbi leaves out of its
        training.

    Raises
    ------
    InputError
    """

    def __init__(
        self,
        population: PopulationLike,
        features: Sequence[tuple[str, str]],
        stimuli: Mapping[str, tuple[float, float]],
        *,
        currents: Mapping[str, float] | None = None,
        threshold: float = -20.0,
        missing: float = float("nan"),
    ) -> None:
        of_population.check_population(population)
        self.population, self.features = population, [tuple(one) for one in features]
        if not self.features or any(len(one) != 2 for one in self.features):
            raise InputError(f"features is {shown(features)}; expected (protocol, feature) pairs")
        for protocol, name in self.features:
            if protocol not in population.protocols:
                protocols = population.protocols
                raise InputError(
                    f"features has protocol {shown(protocol)}; expected {', '.join(protocols)}"
                    f"{meant(protocol, protocols)}"
                )
            if name not in FEATURES:
                raise InputError(
                    f"features has {shown(name)}; expected {', '.join(FEATURES)}"
                    f"{meant(name, FEATURES)}"
                )
        self._used = dict.fromkeys(protocol for protocol, _ in self.features)
        of_population.check_names("stimuli", stimuli, self._used)
        self._stimuli, self._currents = dict(stimuli), dict(currents or {})
        self._threshold, self._missing = threshold, missing

    def __call__(self, theta: torch.Tensor) -> torch.Tensor:
        """Simulate parameter sets.

        Parameters
        ----------
        theta : (N, parameters) or (parameters,) tensor
            In the order of ``population.names``.

        Returns
        -------
        (N, features) or (features,) tensor
            With the dtype and on the device of `theta`.
        """
        if not isinstance(theta, torch.Tensor):
            raise InputError(f"theta is {type(theta).__name__}; expected a torch.Tensor")
        sets = np.atleast_2d(theta.detach().cpu().numpy().astype(np.float64))
        result = self.population.evaluate(sets)
        columns = np.empty((len(sets), len(self.features)))
        for protocol in self._used:
            values = of_population.features(
                result,
                self.population.protocols.index(protocol),
                {name for of, name in self.features if of == protocol},
                self._stimuli[protocol],
                current=self._currents.get(protocol),
                threshold=self._threshold,
            )
            for k, (of, name) in enumerate(self.features):
                if of == protocol:
                    columns[:, k] = of_population.mean_of(values[name])
        columns[np.isnan(columns)] = self._missing
        made = torch.from_numpy(columns).to(theta.device, theta.dtype)
        return made if theta.ndim == 2 else made[0]

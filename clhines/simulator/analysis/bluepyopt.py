"""An evaluator for BluePyOpt that simulates a whole generation at once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from clhines.core.errors import InputError, install
from clhines.simulator.analysis import results as of_population
from clhines.simulator.analysis.extract import FEATURES
from clhines.simulator.analysis.results import PopulationLike, Responses
from clhines.simulator.analysis.spikes import RaggedArray

try:
    import bluepyopt
    import bluepyopt.ephys as ephys
except ImportError as error:
    raise ImportError(
        f"clhines.analysis.bluepyopt needs BluePyOpt ({error}): {install('bluepyopt')}"
    ) from None

_EFEL_STEP = 0.1  # ms, eFEL's default step of interpolation
_EFEL_THRESHOLD = -20.0  # mV

Scores = list[float]


class Evaluator(bluepyopt.evaluators.Evaluator):
    """Scores of a population's parameter sets, by BluePyOpt's own features and objectives.

    Give an optimiser `map` as its ``map_function``: it then evaluates each generation in one batch.
    Features that `simulator.analysis.FEATURES` has are computed of all sets at once, the others by
    BluePyOpt, one set after another.

    Parameters
    ----------
    bounds : mapping of str to (float, float)
        Smallest and largest value of each of the population's parameters.
    calculator : bluepyopt.ephys.objectivescalculators.ObjectivesCalculator
        Its features refer to recordings ``PROTOCOL.soma.v``.
    recording : str
        Name of what the population records, in place of ``soma.v``.

    Attributes
    ----------
    param_names : list of str

    Raises
    ------
    InputError
    """

    def __init__(
        self,
        population: PopulationLike,
        bounds: Mapping[str, tuple[float, float]],
        calculator: ephys.objectivescalculators.ObjectivesCalculator,
        recording: str = "soma.v",
    ) -> None:
        of_population.check_population(population)
        of_population.check_names("bounds", bounds, population.names)
        if not isinstance(calculator, ephys.objectivescalculators.ObjectivesCalculator):
            raise InputError(
                f"calculator is {type(calculator).__name__}; expected an ObjectivesCalculator of "
                "bluepyopt.ephys"
            )
        make = bluepyopt.parameters.Parameter
        params = [make(name, bounds=tuple(bounds[name])) for name in population.names]
        super().__init__(calculator.objectives, params)
        self.population, self.calculator = population, calculator
        self.param_names = list(population.names)
        self._recordings = [f"{protocol}.{recording}" for protocol in population.protocols]
        self._batched: list[ephys.efeatures.eFELFeature] = []  # those that are computed at once
        self._objectives = []
        for objective in calculator.objectives:
            replaced = copy.copy(objective)
            if hasattr(objective, "features"):
                replaced.features = [self._replaced(feature) for feature in objective.features]
            self._objectives.append(replaced)

    def evaluate_many(self, sets: Sequence[Sequence[float]]) -> list[Scores]:
        result = self.population.evaluate(np.array([list(one) for one in sets], np.float64))
        columns = self._scores(result)
        scores = []
        for number, of_bluepyopt in enumerate(self._responses(result)):
            responses = {**of_bluepyopt, _AT_ONCE: columns[number]}
            scores.append([float(o.calculate_score(responses)) for o in self._objectives])
        return scores

    def map(self, function: Callable, items: Iterable, *others: Iterable) -> list:
        """Map as `map` does; if `function` is a method of this evaluator, all sets in one batch."""
        mine = getattr(function, "func", function) in (
            self.evaluate_with_lists,
            self.init_simulator_and_evaluate_with_lists,
        )
        if others or not mine:
            return list(map(function, items, *others))
        sets = list(items)
        return self.evaluate_many(sets) if sets else []

    def evaluate_with_lists(self, param_list: Sequence[float], target: str = "scores") -> Scores:
        """Return the scores, or with ``target="values"`` the values, of one parameter set."""
        if target == "scores":
            return self.evaluate_many([param_list])[0]
        if target != "values":
            raise InputError(f"target is {target!r}; expected 'scores' or 'values'")
        result = self.population.evaluate(np.array([list(param_list)], np.float64))
        values = self.calculator.calculate_values(self._responses(result)[0])
        return [values[objective.name] for objective in self.objectives]

    init_simulator_and_evaluate_with_lists = evaluate_with_lists  # what its optimisers call

    def evaluate_with_dicts(
        self, param_dict: Mapping[str, float], target: str = "scores"
    ) -> dict[str, float]:
        """Return the scores or values of one parameter set by the names of the objectives."""
        of_population.check_names("param_dict", param_dict, self.param_names)
        values = self.evaluate_with_lists([param_dict[n] for n in self.param_names], target)
        return {o.name: value for o, value in zip(self.objectives, values, strict=True)}

    def _responses(self, result: Responses) -> list[dict[str, dict[str, np.ndarray]]]:
        """Return the responses of each set, for features of BluePyOpt."""
        each = [of_population.traces(result, p) for p in range(len(self._recordings))]
        return [
            {
                name: {"time": t, "voltage": v[number]}
                for name, (t, v) in zip(self._recordings, each, strict=True)
            }
            for number in range(len(result.v))
        ]

    def _replaced(self, feature: ephys.efeatures.EFeature) -> ephys.efeatures.EFeature:
        """Return a feature that looks up its scores, if they are computed for all sets at once."""
        recordings = getattr(feature, "recording_names", {})
        for name in recordings.values():
            if name not in self._recordings:
                raise InputError(
                    f"feature {feature.name}: recording is {name!r}; expected "
                    f"{' or '.join(self._recordings)}"
                )
        is_efel = type(feature) is ephys.efeatures.eFELFeature and set(recordings) == {""}
        name = getattr(feature, "efel_feature_name", None)
        if not is_efel or name not in FEATURES or None in (feature.stim_start, feature.stim_end):
            return feature
        settings = feature.double_settings, feature.int_settings, feature.string_settings
        if any(settings) or (name.startswith("ohmic") and feature.stimulus_current is None):
            return feature
        self._batched.append(feature)
        return _ColumnFeature(len(self._batched) - 1)

    def _scores(self, result: Responses) -> np.ndarray:
        """(N, features) float64: scores of the features that are computed for all sets at once."""
        groups: dict[tuple, list[int]] = {}
        for k, f in enumerate(self._batched):
            step = _EFEL_STEP if f.interp_step is None else f.interp_step
            level = _EFEL_THRESHOLD if f.threshold is None else f.threshold
            window = f.stim_start, f.stim_end, f.stimulus_current
            key = (self._recordings.index(f.recording_names[""]), *window, level, step)
            groups.setdefault(key, []).append(k)
        scores = np.empty((len(result.v), len(self._batched)))
        for (protocol, begin, end, current, level, step), members in groups.items():
            values = of_population.features(
                result,
                protocol,
                {self._batched[k].efel_feature_name for k in members},
                (begin, end),
                current=current,
                threshold=level,
                interp_step=step,
            )
            for k in members:
                scores[:, k] = _score(self._batched[k], values[self._batched[k].efel_feature_name])
        return scores


class _ColumnFeature:
    """A feature whose scores are a column of the array that `Evaluator` computes at once."""

    def __init__(self, column: int) -> None:
        self.column = column

    def calculate_score(self, responses: Mapping[str, np.ndarray]) -> float:
        return float(responses[_AT_ONCE][self.column])


_AT_ONCE = ""  # no recording has this name


def _score(feature: ephys.efeatures.eFELFeature, values: np.ndarray | RaggedArray) -> np.ndarray:
    """(N,): mean distance from the feature's mean in its deviations, as `efel.get_distance`."""
    if isinstance(values, RaggedArray):
        distance: np.ndarray | RaggedArray = RaggedArray(
            values.offsets, np.abs(values.values - feature.exp_mean)
        )
    else:
        distance = np.abs(values - feature.exp_mean)
    score = of_population.mean_of(distance) / feature.exp_std
    score = np.where(np.isnan(score), feature.max_score, score)
    return np.minimum(score, feature.max_score) if feature.force_max_score else score

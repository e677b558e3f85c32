"""An evaluator for BluePyOpt."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from populations import AMPS, BEGIN, CHANNEL_SETS, END, two_currents

import clhines
from clhines import InputError


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of eFEL, in BluePyOpt
class TestBluePyOpt:
    FEATURES = (  # protocol, feature, further arguments of eFELFeature; the last two are not ours
        ("high", "spike_count", {}),
        ("high", "peak_voltage", {}),
        ("high", "mean_frequency", {"force_max_score": True, "max_score": 3.0}),
        ("high", "AHP_depth", {}),
        ("high", "all_ISI_values", {"interp_step": 0.05}),
        ("low", "voltage_base", {}),
        ("low", "ohmic_input_resistance_vb_ssse", {"stimulus_current": AMPS["low"]}),
        ("high", "AP_width", {}),
        ("low", "voltage_base", {"double_settings": {"voltage_base_start_perc": 0.5}}),
    )

    @pytest.fixture
    def calculator(self):
        pytest.importorskip("bluepyopt")
        import bluepyopt.ephys as ephys

        made = [
            ephys.efeatures.eFELFeature(
                f"{k}.{name}",
                efel_feature_name=name,
                recording_names={"": f"{protocol}.soma.v"},
                stim_start=BEGIN,
                stim_end=END,
                exp_mean=7.0 + k,
                exp_std=2.0,
                **more,
            )
            for k, (protocol, name, more) in enumerate(self.FEATURES)
        ]
        objectives = [ephys.objectives.SingletonObjective(f.name, f) for f in made[:-2]]
        objectives.append(ephys.objectives.MaxObjective("max", made[-3:]))
        objectives.append(ephys.objectives.WeightedSumObjective("sum", made[-2:], [1.0, 3.0]))
        return ephys.objectivescalculators.ObjectivesCalculator(objectives)

    @pytest.fixture
    def evaluator(self, population, calculator):
        import clhines.simulator.analysis.bluepyopt as adapter

        bounds = {"na": (0.01, 0.3), "k": (0.01, 0.1)}
        return adapter.Evaluator(population, bounds, calculator)

    def test_scores_are_those_of_bluepyopt(self, evaluator, calculator, population):
        import bluepyopt.ephys as ephys

        found = population.evaluate(CHANNEL_SETS)
        assert found.num_spikes[:, 1].min() == 0 and found.num_spikes[:, 1].max() > 2
        theirs = []
        for v in found.v:
            given = {}
            for p, protocol in enumerate(population.protocols):
                there, name = ~np.isnan(v[p]), f"{protocol}.soma.v"
                trace = found.t[there], v[p, there]
                given[name] = ephys.responses.TimeVoltageResponse(name, *trace)
            theirs.append(list(calculator.calculate_scores(given).values()))
        # features agree to 1e-9 and are of the order 100 at most; the deviation is 2
        np.testing.assert_allclose(
            evaluator.evaluate_many(CHANNEL_SETS), theirs, rtol=1e-9, atol=1e-7
        )
        one = dict(zip(evaluator.param_names, CHANNEL_SETS[1], strict=True))
        scores = evaluator.evaluate_with_dicts(one)
        assert list(scores) == [o.name for o in calculator.objectives]
        np.testing.assert_allclose(list(scores.values()), theirs[1], rtol=1e-9, atol=1e-7)

    def test_an_optimiser_evaluates_whole_generations(self, evaluator, population, monkeypatch):
        import bluepyopt.deapext.optimisations as optimisations

        sizes, evaluate = [], population.evaluate
        monkeypatch.setattr(population, "evaluate", lambda s: sizes.append(len(s)) or evaluate(s))
        given = {"offspring_size": 6, "seed": 3, "map_function": evaluator.map}
        optimiser = optimisations.DEAPOptimisation(evaluator, **given)
        _, best, log, _ = optimiser.run(max_ngen=2)
        assert sizes == log.select("nevals") == [6, 6]
        scores = evaluator.evaluate_with_lists(best[0])
        assert best[0].fitness.values == pytest.approx(scores, rel=1e-12)
        assert evaluator.map(abs, [-1, 2]) == [1, 2]

    def test_a_fit_by_an_executor_is_that_of_this_process(self, calculator):
        import bluepyopt.deapext.optimisations as optimisations

        import clhines.simulator.analysis.bluepyopt as adapter

        bounds, found = {"na": (0.01, 0.3), "k": (0.01, 0.1)}, []
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            for given in ({}, {"executor": pool, "batch": 2}):
                evaluator = adapter.Evaluator(
                    clhines.Population(*two_currents(), **given), bounds, calculator
                )
                of_fit = {"offspring_size": 6, "seed": 3, "map_function": evaluator.map}
                optimiser = optimisations.DEAPOptimisation(evaluator, **of_fit)
                last, best, _, _ = optimiser.run(max_ngen=2)
                scores = [tuple(one.fitness.values) for one in (*last, best[0])]
                found.append(([*map(list, (*last, best[0]))], scores))
        assert found[0] == found[1]  # all bits

    def test_values_are_those_of_bluepyopt(self, population):
        ephys = pytest.importorskip("bluepyopt.ephys")
        import clhines.simulator.analysis.bluepyopt as adapter

        feature = ephys.efeatures.eFELFeature(
            "count", "spike_count", {"": "high.v"}, BEGIN, END, exp_mean=1, exp_std=1
        )
        objective = ephys.objectives.SingletonObjective("count", feature)
        calculator = ephys.objectivescalculators.ObjectivesCalculator([objective])
        bounds = {"na": (0.01, 0.3), "k": (0.01, 0.1)}
        evaluator = adapter.Evaluator(population, bounds, calculator, recording="v")
        expected = population.evaluate(CHANNEL_SETS[:1]).num_spikes[0, 1]
        assert evaluator.evaluate_with_lists(CHANNEL_SETS[0], target="values") == [expected]
        with pytest.raises(InputError, match=r"recording is 'high.v'; expected low.soma.v or high"):
            adapter.Evaluator(population, bounds, calculator)
        with pytest.raises(InputError, match="bounds lacks k; expected na, k"):
            adapter.Evaluator(population, {"na": (0.0, 1.0)}, calculator, recording="v")
        with pytest.raises(InputError, match="calculator is list; expected an Objectives"):
            adapter.Evaluator(population, bounds, [objective])
        with pytest.raises(InputError, match="population is Evaluator; expected clhines.Popu"):
            adapter.Evaluator(evaluator, bounds, calculator)

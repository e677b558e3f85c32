"""Adapters for searches of parameters, against the packages that they are for."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import clhines
from clhines import InputError

BEGIN, END = 5.0, 45.0  # ms, of the stimulus
AMPS = {"low": 0.05, "high": 1.5}  # nA


def described():
    """A cell with channels under two currents, one of which it answers with spikes."""
    model = clhines.Network(clhines.discretise(clhines.sample_cells()[0], max_length=1e4))
    model.insert("hh")
    model.threshold = -20.0
    protocols = {
        name: {"stop": stop, "stimuli": [{"amp": AMPS[name], "delay": BEGIN, "dur": END - BEGIN}]}
        for name, stop in (("low", 60.0), ("high", 55.0))
    }
    return model, {"na": ("hh", "gnabar"), "k": ("hh", "gkbar")}, protocols


@pytest.fixture(scope="module")
def population(fast_queue, needs):
    needs(fast_queue, np.float64)
    return clhines.Population(*described(), queue=fast_queue)


SETS = np.array([[0.12, 0.036], [0.2, 0.03], [0.09, 0.05], [0.01, 0.036]])  # the last is silent


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

        found = population.evaluate(SETS)
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
        np.testing.assert_allclose(evaluator.evaluate_many(SETS), theirs, rtol=1e-9, atol=1e-7)
        one = dict(zip(evaluator.param_names, SETS[1], strict=True))
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
                    clhines.Population(*described(), **given), bounds, calculator
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
        expected = population.evaluate(SETS[:1]).num_spikes[0, 1]
        assert evaluator.evaluate_with_lists(SETS[0], target="values") == [expected]
        with pytest.raises(InputError, match=r"recording is 'high.v'; expected low.soma.v or high"):
            adapter.Evaluator(population, bounds, calculator)
        with pytest.raises(InputError, match="bounds lacks k; expected na, k"):
            adapter.Evaluator(population, {"na": (0.0, 1.0)}, calculator, recording="v")
        with pytest.raises(InputError, match="calculator is list; expected an Objectives"):
            adapter.Evaluator(population, bounds, [objective])
        with pytest.raises(InputError, match="population is Evaluator; expected clhines.Popu"):
            adapter.Evaluator(evaluator, bounds, calculator)


STIMULI = {"high": (BEGIN, END), "low": (BEGIN, END)}


class TestSbi:
    FEATURES = (("high", "spike_count"), ("high", "peak_voltage"), ("low", "voltage_base"))

    def test_features_are_those_of_the_traces(self, population):
        torch = pytest.importorskip("torch")
        import clhines.simulator.analysis.sbi as adapter

        simulator = adapter.Simulator(population, self.FEATURES, STIMULI)
        x = simulator(torch.from_numpy(SETS))
        assert x.dtype == torch.float64 and x.shape == (4, 3)
        found = population.evaluate(SETS)
        high = found.v[:, 1, : np.flatnonzero(found.t <= 55.0)[-1] + 1]
        for k in range(4):
            efel = pytest.importorskip("efel")
            efel.reset()
            efel.set_setting("interp_step", 0.025)
            trace = {"T": found.t[: high.shape[1]], "V": high[k]}
            trace |= {"stim_start": [BEGIN], "stim_end": [END]}
            names = ["spike_count", "peak_voltage"]
            (values,) = efel.get_feature_values([trace], names, raise_warnings=False)
            efel.reset()
            assert x[k, 0] == values["spike_count"][0] == found.num_spikes[k, 1]
            if x[k, 0]:
                assert float(x[k, 1]) == pytest.approx(values["peak_voltage"].mean(), rel=1e-9)
        assert torch.isnan(x[3, 1]) and not torch.isnan(x[:3]).any()
        filled = adapter.Simulator(population, self.FEATURES, STIMULI, missing=-99.0)
        one = filled(torch.from_numpy(SETS[3].astype(np.float32)))
        assert one.dtype == torch.float32 and one.shape == (3,) and one[1] == -99.0

    def test_sbi_simulates_a_batch_with_it(self, population):
        torch = pytest.importorskip("torch")
        pytest.importorskip("sbi")
        from sbi.inference import simulate_for_sbi
        from sbi.utils import BoxUniform
        from sbi.utils.user_input_checks import (
            check_sbi_inputs,
            process_prior,
            process_simulator,
        )

        import clhines.simulator.analysis.sbi as adapter

        prior, _, returns_numpy = process_prior(
            BoxUniform(torch.tensor([0.05, 0.02]), torch.tensor([0.2, 0.06]))
        )
        ours = adapter.Simulator(population, self.FEATURES, STIMULI, missing=0.0)
        simulator = process_simulator(ours, prior, returns_numpy)
        check_sbi_inputs(simulator, prior)
        given = {"num_simulations": 6, "simulation_batch_size": 4, "show_progress_bar": False}
        theta, x = simulate_for_sbi(simulator, prior, seed=1, **given)
        assert x.shape == (6, 3)
        torch.testing.assert_close(x, ours(theta), rtol=1e-6, atol=1e-6)  # sbi's are float32

    def test_what_is_wrong_is_refused(self, population):
        pytest.importorskip("torch")
        import clhines.simulator.analysis.sbi as adapter

        wrong = (
            ([("hihg", "spike_count")], {}, "protocol 'hihg'; expected low, high; did you mean"),
            ([("high", "spike_cuont")], {}, "did you mean"),
            ([("high", "spike_count")], {}, "stimuli lacks high"),
            ([], {}, "features is .*; expected .protocol, feature. pairs"),
        )
        for features, stimuli, text in wrong:
            with pytest.raises(InputError, match=text) as error:
                adapter.Simulator(population, features, stimuli)
            assert "\n" not in str(error.value)
        with pytest.raises(InputError, match="theta is ndarray; expected a torch.Tensor"):
            adapter.Simulator(population, self.FEATURES, STIMULI)(SETS)


@pytest.mark.parametrize(
    ("name", "package"), [("bluepyopt", "BluePyOpt"), ("sbi", "PyTorch"), ("sonata", "h5py")]
)
def test_a_package_that_is_missing_is_named_in_one_line(name, package, monkeypatch):
    import importlib
    import sys

    for module in ("bluepyopt", "torch", "h5py"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"clhines.simulator.analysis.{name}", raising=False)
    with pytest.raises(ImportError, match=rf"^clhines.analysis.{name} needs {package} ") as error:
        importlib.import_module(f"clhines.simulator.analysis.{name}")
    assert "\n" not in str(error.value) and "pip install" in str(error.value)

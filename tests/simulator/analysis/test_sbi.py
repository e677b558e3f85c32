"""A simulator for sbi."""

import numpy as np
import pytest
from populations import BEGIN, CHANNEL_SETS, END

from clhines import InputError

STIMULI = {"high": (BEGIN, END), "low": (BEGIN, END)}


class TestSbi:
    FEATURES = (("high", "spike_count"), ("high", "peak_voltage"), ("low", "voltage_base"))

    def test_features_are_those_of_the_traces(self, population):
        torch = pytest.importorskip("torch")
        import clhines.simulator.analysis.sbi as adapter

        simulator = adapter.Simulator(population, self.FEATURES, STIMULI)
        x = simulator(torch.from_numpy(CHANNEL_SETS))
        assert x.dtype == torch.float64 and x.shape == (4, 3)
        found = population.evaluate(CHANNEL_SETS)
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
        one = filled(torch.from_numpy(CHANNEL_SETS[3].astype(np.float32)))
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
            adapter.Simulator(population, self.FEATURES, STIMULI)(CHANNEL_SETS)

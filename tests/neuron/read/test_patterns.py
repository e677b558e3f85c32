"""PatternStim: compare the gids' spikes, in time order, with NEURON's."""

import pytest
from forked import printed_by

pytestmark = pytest.mark.neuron


PATTERN = """
soma = make_section("soma", "hh", L=20, diam=20)
pc = h.ParallelContext()
synapses = [h.ExpSyn(soma(0.5)) for _ in range(2)]
pc.set_gid2node(3, 0)
pc.cell(3, h.NetCon(soma(0.5)._ref_v, None, sec=soma))
netcons = [pc.gid_connect(gid, synapse) for gid, synapse in zip((3, 5), synapses)]
for netcon, weight in zip(netcons, (0.02, 0.003)):
    netcon.weight[0], netcon.delay = weight, 1
rows = 300  # more than NEURON sends at once
stim, v = h.PatternStim(), h.Vector().record(soma(0.5)._ref_v)
gids = h.Vector([3 + 2 * (k % 7 > 3) for k in range(rows)])
stim.play(h.Vector(rows).indgen(0.1).add(0.05), gids)
found = []
for fake in (0, 1):
    stim.fake_output = fake
    for way in (h.continuerun, lambda stop: clhines.neuron.run(stop, engine="reference")):
        h.finitialize(-65)
        lines = listed()
        way(30)
        found.append([lines, list(v)])
h.finitialize(-65)
times = h.Vector(rows).indgen(0.1)
times.x[200], times.x[201] = times.x[201], times.x[200]
stim.play(times, gids)
h.finitialize(-65)
found.append([listed(), []])
print(json.dumps(found))
"""


def test_fake_output_of_pattern_stim_is_as_in_neuron():
    """For fake_output 0 and 1 NEURON 9 sends the same spikes: those of gids on other ranks."""
    import numpy as np

    *result, ((late,), _) = printed_by(PATTERN)
    said = "the times of PatternStim[0] do not ascend; sort them"
    assert late == f"PatternStim: {said}"
    assert [lines for lines, _ in result] == [[]] * 4
    truth, *others = (np.array(v) for _, v in result)
    assert np.ptp(truth) > 50
    for other in others:
        assert np.abs(other - truth).max() < 1e-9 * np.abs(truth).max()  # as in `test_run`

"""FUNCTION_TABLE: hoc's tables from Vectors, from equidistant numbers, and constant ones."""

import numpy as np
import pytest
from forked import printed_by

import clhines
from tests.support import mod_files

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron
NAMES = "m", "minf", "mtau", "k"


@pytest.fixture(scope="module")
def model():
    """A soma with a channel and a point process, its records, and Vectors for their tables."""
    mod_files.loaded()
    soma = h.Section(name="soma")
    soma.L = soma.diam = 20
    soma.insert("pas")
    soma.insert("ext_functab")
    point, clamps = h.ext_funpoint(soma(0.5)), [h.IClamp(soma(0.5)) for _ in range(2)]
    for clamp, (delay, dur, amp) in zip(clamps, [(1, 6, 0.1), (7.5, 9, -0.1)], strict=True):
        clamp.delay, clamp.dur, clamp.amp = delay, dur, amp
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(-90, 20, 37))
    y = 1 / (1 + np.exp(-(x + 50) / 9))
    vectors = [x, y, 3e-4 * y, rng.uniform(1, 6, 15), np.array([0, 0.2, 1]), rng.uniform(1, 2, 9)]
    channel = soma(0.5).ext_functab
    records = [h.Vector().record(soma(0.5)._ref_v), h.Vector().record(point._ref_s)]
    records += [h.Vector().record(getattr(channel, f"_ref_{name}")) for name in NAMES]
    return (soma, clamps), point, records, [h.Vector(v) for v in vectors]


def _by_vectors(point, x, y, current, tau, knots, scale):
    h.table_inf_ext_functab(y, x)
    h.table_tau_ext_functab(tau._ref_x[0], 5, -85, -20, 3, knots._ref_x[0])
    h.table_scale_ext_functab(scale._ref_x[0], 9, -100, 0.5)
    point.table_inf(current, x)


def _by_numbers(point, x, y, current, tau, knots, scale):
    h.table_inf_ext_functab(y._ref_x[0], 37, -80, -30)
    h.table_tau_ext_functab(3.5)
    h.table_scale_ext_functab(1.2)
    point.table_inf(current._ref_x[5], 20, x._ref_x[5])


def _run(records, run):
    h.dt, h.steps_per_ms = 0.025, 40
    h.finitialize(-70)
    run(15)
    return np.array(records)[:, 1:]  # ASSIGNED variables start with the values after the last run


@pytest.mark.parametrize("give", [_by_vectors, _by_numbers])
def test_as_neuron(model, give):
    _, point, records, vectors = model
    give(point, *vectors)
    expected = _run(records, h.continuerun)
    assert np.ptp(expected[0]) > 10 and np.ptp(expected[2]) > 0.05

    def pieces(stop):
        for until in (3, 5, stop):
            clhines.neuron.run(until)

    engines = "reference", "steps", "epochs", "epochs-gpu"
    runs = [lambda t, e=e: clhines.neuron.run(t, engine=e) for e in engines]
    size = np.abs(expected).max(axis=1, keepdims=True)
    for run in (*runs, pieces):
        assert (np.abs(_run(records, run) - expected) <= 1e-10 * size).all()


def test_a_changed_table_is_read_again(model):
    _, point, records, vectors = model
    _by_vectors(point, *vectors)
    first = _run(records, clhines.neuron.run)
    vectors[1].mul(0.5)
    ours, expected = _run(records, clhines.neuron.run), _run(records, h.continuerun)
    vectors[1].mul(2)
    assert np.abs(ours - first).max() > 0.1
    np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-13)


def test_refused(model):
    _, point, _, vectors = model
    _by_vectors(point, *vectors)
    vectors[0].reverse()
    h.table_inf_ext_functab(5)
    lines = [str(one) for one in clhines.neuron.check()]
    vectors[0].reverse()
    [line] = lines
    assert line.startswith("ext_funpoint: FUNCTION_TABLE inf without a table")
    assert line.endswith("call its table_inf() in hoc, with knots that ascend")


def test_no_table_is_refused():
    """In a new process, in which the functions have no table."""
    program = f"""
h.nrn_load_dll({str(mod_files.library())!r})
soma = h.Section(name="soma")
point = h.ext_funpoint(soma(0.5))
print(json.dumps([str(one) for one in clhines.neuron.check()]))
"""
    [line] = printed_by(program)
    assert "FUNCTION_TABLE inf without a table" in line and "call its table_inf()" in line

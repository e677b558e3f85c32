"""Gradients on devices against the reference engine, and cases that only the latter supports."""

from types import SimpleNamespace

import central_differences
import numpy as np
import pytest
import small_networks

import clhines
from clhines import InputError, Mechanism, Network, Simulation
from clhines.simulator.gradients import by_device
from clhines.simulator.gradients.plan import unsupported
from clhines.solver.device import devices

TABLED = """NEURON { SUFFIX tabled USEION na READ ena WRITE ina RANGE gbar GLOBAL shift }
PARAMETER { gbar = 0.02 shift = 1 }
ASSIGNED { v (mV) ena (mV) ina (mA/cm2) minf hinf htau }
STATE { m h }
INITIAL { rates(v) m = minf h = hinf }
BREAKPOINT { SOLVE states METHOD cnexp ina = gbar*m^3*h*(v - ena) }
DERIVATIVE states { rates(v) m' = (minf - m)/0.1 h' = (hinf - h)/(shift + htau) }
PROCEDURE rates(v (mV)) {
    TABLE minf, hinf, htau FROM -120 TO 80 WITH 400
    minf = 1/(1 + exp(-(v + 35)/8)) hinf = 1/(1 + exp((v + 60)/7)) htau = 1 + v/200
}
"""


def tree(copies, tabled, seed=4):
    rng = np.random.default_rng(seed)
    parent = np.array([-1, 0, 1, 1, 0])
    parents = np.concatenate([np.where(parent < 0, -1, parent + 5 * k) for k in range(copies)])
    area, axial = [500.0, 300.0, 200.0, 0.0, 400.0], [0.0, 0.1, 0.05, 0.2, 0.1]
    arrays = (np.tile(a, copies) for a in (area, axial, np.multiply(area, 1e-5)))
    net = Network.from_arrays(parents, 5 * np.arange(copies + 1), *arrays)
    nodes = np.concatenate([[0, 1, 2, 4] + 5 * np.arange(copies)[:, None]]).reshape(-1)
    pas = net.insert("pas", nodes, g=rng.uniform(1e-4, 2e-4, len(nodes)), e=-65.0)
    groups = [(pas, "g"), (pas, "e")]
    if tabled:
        net.ion("na", e=50.0)
        group = net.insert(Mechanism.from_nmodl(TABLED), nodes, gbar=rng.uniform(1, 2, len(nodes)))
        groups += [(group, "gbar"), (group, "shift"), (group, "m")]
    else:
        hh = net.insert("hh", net.soma, gnabar=rng.uniform(0.1, 0.2, copies))
        groups += [(hh, "gnabar"), (hh, "el"), (hh, "n")]
    clamp = net.add("iclamp", net.soma, delay=0.2, dur=2.0, amp=rng.uniform(0.1, 0.2, copies))
    return net, [*groups, (clamp, "amp"), "v_init", "cm"]


def gradient_of(net, of, duration, mode="auto", **options):
    with Simulation(net, 0.025, **options) as sim:
        sim.record("v", net.soma)
        sim.record("v", net.soma + 2, every=0.05, matrix=np.ones((1, net.num_cells)))
        rows, _ = central_differences.rows_of(sim, duration, 2)
        loss = central_differences.weighted_squares(rows)
        return sim.gradient(duration, loss, of, mode=mode)


def assert_close(found, expected, of):
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    for one in of:
        size = np.abs(expected[one]).max()
        assert size > 0
        np.testing.assert_allclose(found[one], expected[one], rtol=1e-8, atol=1e-9 * size)


@pytest.mark.parametrize(("tabled", "secondorder"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("copies", [1, 6])
def test_gradients_are_those_of_the_reference(fast_queue, copies, tabled, secondorder):
    """Compare gradients with `reference`; six copies fill no whole number of vectors."""
    net, of = tree(copies, tabled)
    expected = gradient_of(net, of, 2.0, engine="reference", secondorder=secondorder)
    result = gradient_of(net, of, 2.0, queue=fast_queue, secondorder=secondorder)
    assert_close(result, expected, of)


@pytest.mark.parametrize("tabled", [False, True])
def test_each_quantity_alone(fast_queue, tabled):
    """A gradient by one quantity leaves out what others need: the start, sums of the matrix."""
    net, of = tree(3, tabled)
    expected = gradient_of(net, of, 0.5, engine="reference")
    for one in of:
        assert_close(gradient_of(net, [one], 0.5, queue=fast_queue), expected, [one])


def test_ion_currents_of_point_processes(fast_queue):
    """A point process gives a current of an ion, in nA, to a pool of the ion in the node."""
    text = """NEURON { POINT_PROCESS source USEION ca READ eca WRITE ica RANGE g }
        PARAMETER { g = 1e-4 } ASSIGNED { v eca ica (nA) } STATE { m }
        INITIAL { m = 0.1 } BREAKPOINT { SOLVE states METHOD cnexp ica = g*m*(v - eca) }
        DERIVATIVE states { m' = (1 + v/100 - m)/2 }"""
    net = Network.from_arrays([-1, 0, 0], [0, 3], [500.0, 300.0, 400.0], [0.1] * 3, [0.005] * 3)
    pool, pas = net.insert("ca_pool", [0, 2]), net.insert("pas", "all", g=1e-4, e=-65.0)
    source = net.add(Mechanism.from_nmodl(text), [0, 2], g=[1e-4, 2e-4])
    of = [(source, "g"), (pas, "g"), *((pool, name) for name in dict(pool.parameters))]
    results = []
    for options in ({"engine": "reference"}, {"queue": fast_queue}):
        with Simulation(net, 0.025, **options) as sim:
            sim.record("cai", [0, 2])
            sim.record("v", [1])
            rows, _ = central_differences.rows_of(sim, 1.0, 2)
            results.append(sim.gradient(1.0, central_differences.weighted_squares(rows), of))
    assert results[1].how == "reverse, on the device"
    assert_close(results[1], results[0], of[:1])
    for one in of[1:]:
        np.testing.assert_allclose(results[1][one], results[0][one], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_states_have_names_of_the_kernels_variables(fast_queue, mode):
    """The kernels have variables ``by_b``, ``by_d``, ``by_values`` and ``later_of``, too."""
    text = """
        density named
        parameter node = 2 ms
        state b = 0.1
        db/dt = (1 + v/50 - b)/node [1/ms]
        state d = 0.2
        dd/dt = b - d [1/ms]
        state values = 0.3
        dvalues/dt = d - values [1/ms]
        state of = 0.4
        dof/dt = values*b - of [1/ms]
        current i = 1e-4*(b + d + values + of)*(v + 60) [mA/cm2]
    """
    net = Network.from_arrays([-1, 0, 0], [0, 3], [500.0] * 3, [0.1] * 3, [0.005] * 3)
    of = [(net.insert(text, "all"), "node")]
    expected = gradient_of(net, of, 2.0, engine="reference")
    assert_close(gradient_of(net, of, 2.0, mode, queue=fast_queue), expected, of)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("tabled", [False, True])
def test_functions_for_lanes_of_a_gpu(fast_queue, monkeypatch, tabled, dtype):
    """Compare gradients by GPU functions, which have no branches, with `reference`."""
    others = {**vars(devices), "is_cpu": lambda _: False}
    monkeypatch.setattr(by_device, "devices", SimpleNamespace(**others))
    net, of = tree(6, tabled)
    expected = gradient_of(net, of, 2.0, engine="reference")
    with Simulation(net, 0.025, queue=fast_queue, dtype=dtype) as sim:
        sim.record("v", net.soma)
        run = sim.vjp(1.0, of)
        run.forward()
        assert run._run._steps.spec.lanes is not None
    result = gradient_of(net, of, 2.0, queue=fast_queue, dtype=dtype)
    if dtype == "float64":
        assert_close(result, expected, of)
        return
    for one in of:
        size = np.abs(expected[one]).max()
        np.testing.assert_allclose(result[one], expected[one], atol=1e-3 * size)


QUOTIENT = "exp((v + 90)/k)/(1 + exp((v + 90)/k))"
STEEP = """density steep
parameter k = 0.01
parameter most = 1
state m = 0
dm/dt = most*%s - m
current i = 1e-3*m
"""


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_exponentials_that_overflow(fast_queue, monkeypatch, dtype, mode):
    """A CPU refuses infinity over infinity. A GPU limits it, and its derivatives are right.

    The quotient is 1, so the derivative by `most` equals the one with a constant 1. The derivative
    by k is below exp(-2000): the quotient's rounding error remains, times (v + 90)/k^2.
    """

    def derivatives(names, quotient, mode, **options):
        net = Network.from_arrays([-1, -1], [0, 1, 2], [400.0] * 2, [0.0] * 2, [0.004] * 2)
        group = net.insert(STEEP % quotient, [0, 1], k=0.01, most=1.0)
        with Simulation(net, 0.05, v_init=[-64.0, -65.0], **options) as sim:
            sim.record("v", [0, 1])
            run = sim.gradient(1.0, lambda v: (0.0, np.ones_like(v)),
                               [(group, name) for name in names], mode=mode)  # fmt: skip
            return [float(slope) for slope in run.slopes]

    options = ["most", "k"], QUOTIENT, mode
    if devices.is_cpu(fast_queue.device):
        with pytest.raises(InputError, match="not finite"):
            derivatives(*options, queue=fast_queue, dtype=dtype)
        others = {**vars(devices), "is_cpu": lambda _: False}
        monkeypatch.setattr(by_device, "devices", SimpleNamespace(**others))
    by_most, by_k = derivatives(*options, queue=fast_queue, dtype=dtype)
    [expected] = derivatives(["most"], "1", "reverse", engine="reference")
    assert by_most == pytest.approx(expected, rel=1e-9 if dtype == "float64" else 1e-4)
    assert abs(by_k) <= 4 * np.finfo(dtype).eps * 30 / 0.01**2 * abs(by_most)


def test_one_record_of_nodes_in_any_order(fast_queue):
    """A single record has nodes of several copies, one twice, or in descending order."""
    net, of = tree(3, False)
    for nodes in (np.arange(15)[::-1], [6, 1, 6, 12]):
        slopes = []
        for options in ({"engine": "reference"}, {"queue": fast_queue}):
            with Simulation(net, 0.025, **options) as sim:
                sim.record("v", nodes)
                run = sim.vjp(0.5, of)
                slopes.append(run.backward(run.forward()))
        for expected, found in zip(*slopes, strict=True):
            size = np.abs(expected).max()
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * size)


STARTED = """density started
parameter gbar = 1e-4
parameter shift = 0
state m = 1/(1 + exp(-(v + 60 + shift)/10))
dm/dt = 1/(1 + exp(-(v + 50)/10)) - m
current i = gbar*m*(v + 20)
"""


@pytest.mark.parametrize("name", ["gbar", "shift", "v_init"])
def test_copies_that_start_alike_start_once(fast_queue, name):
    """Copies start alike if they differ only in `gbar`, which INITIAL does not read."""
    copies = 3
    different = np.linspace(1.0, 2.0, 2 * copies)
    net = Network.from_arrays(
        [-1, 0, -1, 2, -1, 4], [0, 2, 4, 6], [400.0] * 6, [0.0, 0.1] * 3, [0.004] * 6
    )
    values = {} if name == "v_init" else {name: different * (1e-4 if name == "gbar" else 0.3)}
    group = net.insert(STARTED, np.arange(6), **values)
    v_init = -65.0 + different if name == "v_init" else -65.0
    slopes = []
    for options in ({"engine": "reference"}, {"queue": fast_queue}):
        with Simulation(net, 0.05, v_init=v_init, **options) as sim:
            sim.record("v", net.soma)
            run = sim.vjp(2.0, [(group, "gbar")])
            rows = run.forward()
            slopes += run.backward(rows)
    assert run._run._steps.start.shape[1] == (1 if name == "gbar" else run._run._steps.lanes)
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-9)


def test_axial_resistivity(fast_queue):
    """Compare slopes by Ra, for which derivatives by matrix entries are summed, in two cells."""
    cable = clhines.discretise(clhines.sample_cells()[0], max_length=200)
    net = Network([cable, cable])
    hh = net.insert("hh", net.soma, gnabar=[0.1, 0.2])
    of = ["Ra", "cm", (hh, "gnabar")]
    expected = gradient_of(net, of, 0.5, engine="reference")
    result = gradient_of(net, of, 0.5, queue=fast_queue)
    for one in of:
        size = np.abs(expected[one]).max()
        np.testing.assert_allclose(result[one], expected[one], rtol=1e-8, atol=1e-9 * size)


@pytest.mark.parametrize("slots", [21, 7, 2])
def test_a_run_goes_back_as_often_as_wanted(fast_queue, monkeypatch, slots):
    """Store all 21 states of 20 steps, or fewer."""
    monkeypatch.setattr(by_device.DeviceGradient, "slots", lambda _: slots)
    net, of = tree(2, False)
    for options in ({"engine": "reference"}, {"queue": fast_queue}):
        with Simulation(net, 0.025, **options) as sim:
            sim.record("v", net.soma)
            run = sim.vjp(0.5, of)
            with pytest.raises(InputError, match=r"backward\(\) before forward\(\)"):
                run.backward([])
            rows = run.forward()
            first, again = run.backward(rows), run.backward(rows)
            from_start = run.forward()
            once_more = run.backward(from_start)
        np.testing.assert_array_equal(rows, from_start)
        for a, *others in zip(first, again, once_more, strict=True):
            for b in others:
                np.testing.assert_array_equal(a, b)
            assert np.abs(a).max() > 0


def test_runs_at_once_have_memory_of_their_own(fast_queue):
    """Two open runs have separate memory; a later run reuses the memory of an ended one."""
    net, of = tree(2, False)
    with Simulation(net, 0.025, queue=fast_queue) as sim:
        sim.record("v", net.soma)
        results = []
        for _ in range(2):
            runs = [sim.vjp(duration, of) for duration in (0.5, 0.3)]
            rows = [run.forward() for run in runs]
            results.append([run.backward(of_run) for run, of_run in zip(runs, rows, strict=True)])
        del runs
        for duration, slopes in zip((0.5, 0.3), results[1], strict=True):
            run = sim.vjp(duration, of)
            for a, b in zip(run.backward(run.forward()), slopes, strict=True):
                np.testing.assert_array_equal(a, b)
    for a, b in zip(*results, strict=True):
        for one, other in zip(a, b, strict=True):
            np.testing.assert_array_equal(one, other)


def test_single_precision(fast_queue):
    net, of = tree(6, False)
    expected = gradient_of(net, of, 2.0, engine="reference")
    result = gradient_of(net, of, 2.0, queue=fast_queue, dtype="float32")
    for one in of:
        size = np.abs(expected[one]).max()
        np.testing.assert_allclose(result[one], expected[one], atol=1e-3 * size)


def test_a_little_memory_keeps_fewer_states(fast_queue, monkeypatch):
    net, of = tree(1, False)
    expected = gradient_of(net, of, 1.0, engine="reference")
    kept = []
    real = by_device.DeviceGradient.slots

    def slots(self):
        kept.append(real(self))
        return kept[-1]

    monkeypatch.setattr(by_device.DeviceGradient, "slots", slots)
    for memory, every in ((1e9, 41), (10000.0, 17)):
        monkeypatch.setattr(by_device, "MEMORY", memory)
        result = gradient_of(net, of, 1.0, queue=fast_queue)
        np.testing.assert_allclose(result["v_init"], expected["v_init"], rtol=1e-8, atol=1e-12)
        assert kept[-1] == every
    sim = Simulation(net, 0.05, queue=fast_queue)
    sim.record("v", [0])
    run = sim.vjp(1.0, ["v_init"])
    by_rows = [2 * rows for rows in run.forward()]
    once, again = run.backward(by_rows), run.backward(by_rows)
    np.testing.assert_array_equal(once, again)
    monkeypatch.setattr(by_device, "MEMORY", 1000.0)
    with pytest.raises(InputError, match="expected fewer copies at once"):
        gradient_of(net, of, 1.0, queue=fast_queue)


@pytest.mark.parametrize("word", ["grid_times", "exact_times", "played", "noise", "pointers"])
def test_other_networks_are_for_the_reference(word):
    sim = Simulation(small_networks.NETWORKS[word][0](), 0.05, engine="reference")
    sim.record("v", [0])
    records, _ = sim._recordings.of_run(0, 1)
    assert (not unsupported(sim.model, records)) == (word == "grid_times")


def test_records_of_currents_are_for_the_reference(fast_queue, caplog):
    caplog.set_level("INFO", "clhines")
    net = small_networks.plain()
    sim = clhines.Simulation(net, 0.05, queue=fast_queue)
    sim.record("hh.i", [0])
    gradient = sim.gradient(1.0, lambda i: (i.sum(), np.ones_like(i)), ["v_init"])
    how = "reverse, on the host in float64 (records of more than voltages, states and ions)"
    assert f"a gradient is computed: {how}" in caplog.text and how in repr(gradient)
    assert gradient["v_init"][0]


@pytest.mark.parametrize(("tabled", "secondorder"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("copies", [1, 6])
def test_tangents_are_those_of_the_reference(fast_queue, copies, tabled, secondorder):
    net, of = tree(copies, tabled)
    numbers = ("gbar", "shift") if tabled else ("gnabar", "el")
    of = [(net.groups[1], name) for name in numbers] + [(net.groups[2], "amp")]
    parameters = {"secondorder": secondorder}
    expected = gradient_of(net, of, 2.0, engine="reference", **parameters)
    result = gradient_of(net, of, 2.0, "forward", queue=fast_queue, **parameters)
    assert result.how == "forward, on the device"
    assert_close(result, expected, of)


def test_one_number_goes_forward(fast_queue):
    net, of = tree(6, False)
    for some, mode, how in (
        (of[2:3], "auto", "forward, on the device"),
        (of[2:3], "reverse", "reverse, on the device"),
        (of[2:4], "auto", "reverse, on the device"),
        (of, "auto", "reverse, on the device"),  # the start and the matrix
    ):
        assert gradient_of(net, some, 0.1, mode, queue=fast_queue).how == how
    with pytest.raises(InputError, match="more than parameters that only steps read"):
        gradient_of(net, of, 0.1, "forward", queue=fast_queue)
    with pytest.raises(InputError, match="expected 'reverse' .no device"):
        gradient_of(net, of[2:4], 0.1, "forward", engine="reference")


ADAPTS = """point adapts
parameter begin = 0.1
state w = begin
state g = 0
state z = begin
dw/dt = (0.004*(v + 70) - w)/100
dg/dt = -g/5
current i = 0.03*(v + 70) + w + z - g - 0.9 [nA]
on event: g += weight
spike: v > -50 mV
reset: v = -60 mV; w += 0.1
"""


def test_states_that_events_do_not_change(fast_queue):
    cable = [2e4, 100.0, 100.0], [0.0, 0.1, 0.1], [0.3, 1e-3, 1e-3]
    net = Network.from_arrays([-1, 0, 1], [0, 3], *cable)
    group = net.add(ADAPTS, net.soma, begin=[0.1])
    net.connect([0], group, weight=0.1, delay=0.5)
    of = [(group, "begin"), "v_init"]
    expected = gradient_of(net, of, 2.0, engine="reference")

    assert_close(gradient_of(net, of, 2.0, queue=fast_queue), expected, of)


CALCIUM = """NEURON { SUFFIX calcium USEION ca WRITE ica RANGE gbar }
PARAMETER { gbar = 0.001 }
ASSIGNED { v (mV) ica (mA/cm2) }
BREAKPOINT { ica = gbar*(v - 120) }
"""


def test_the_first_row_of_a_current(fast_queue):
    net = small_networks.plain()
    group = net.insert(Mechanism.from_nmodl(CALCIUM), [0])
    for options in ({"engine": "reference"}, {"queue": fast_queue}):
        with Simulation(net, 0.025, **options) as sim:
            sim.record("ica", [0])
            g = sim.gradient(
                0.025, lambda r: (r[0, 0], np.array([[1.0], [0.0]])), [(group, "gbar")]
            )
        assert g[group, "gbar"] == pytest.approx(-65.0 - 120.0, rel=1e-9)


SODIUM = """NEURON { SUFFIX sodium USEION na READ ena WRITE nai, ina RANGE gbar, begin }
PARAMETER { gbar = 0.001 begin = 12 }
ASSIGNED { v (mV) ena (mV) ina (mA/cm2) }
STATE { nai }
INITIAL { nai = begin }
BREAKPOINT { SOLVE states METHOD cnexp ina = gbar*(v - ena) }
DERIVATIVE states { nai' = (10 - nai)/5 }
"""


def test_parameters_named_as_an_ions_variables(fast_queue):
    net, _ = tree(1, tabled=False)
    group = net.insert(Mechanism.from_nmodl(SODIUM), net.soma)
    of = [(net.groups[1], "ena"), (group, "begin"), "v_init"]
    expected = gradient_of(net, of, 1.0, engine="reference")
    assert_close(gradient_of(net, of, 1.0, queue=fast_queue), expected, of)


BLOCK = """NEURON { SUFFIX block NONSPECIFIC_CURRENT i RANGE gbar }
PARAMETER { gbar = 0.001 }
ASSIGNED { v (mV) i (mA/cm2) }
STATE { r m }
BREAKPOINT { SOLVE states METHOD cnexp r = 0.01*(v + 90) i = gbar*r*m*(v + 70) }
DERIVATIVE states { m' = (r - m)/3 }
"""


def test_states_that_breakpoint_sets(fast_queue):
    net, _ = tree(1, tabled=False)
    of = [(net.insert(Mechanism.from_nmodl(BLOCK), net.soma), "gbar")]
    expected = gradient_of(net, of, 1.0, engine="reference")
    assert_close(gradient_of(net, of, 1.0, queue=fast_queue), expected, of)

"""Epochs of whole cells for networks with exact times against the reference on the host.

The two add the same numbers in another order, so that each step differs by some units in the last
place; the networks below do not amplify that by more than 100 times the number of steps.
"""

from concurrent.futures import ThreadPoolExecutor

import mod_files
import networks
import numpy as np
import pyopencl as cl
import pytest
from exact_cells import CELLS, NODES, READS, RELAY, network, with_artificial, with_relays

from clhines import BuildError, DeviceError, InputError, Mechanism, Network, Simulation
from clhines.simulator.gpu import plan
from clhines.simulator.gpu.artificial import epoch_of
from clhines.simulator.gpu.launch import PlanLaunch
from clhines.simulator.network.groups import inside
from clhines.solver.device import devices, program

ENGINE = "epochs-gpu"  # for any device
OWN = """
NEURON { SUFFIX own RANGE ica NONSPECIFIC_CURRENT i }
STATE { c }
ASSIGNED { v (mV) i (mA/cm2) ica (mA/cm2) }
BREAKPOINT { SOLVE states METHOD cnexp ica = 1e-5*(v + 60)*(1 + c) i = ica }
DERIVATIVE states { c' = -ica*1000 - c/9 }
"""  # ica is a variable of its own, even if other mechanisms have ions
GIVEN = """
NEURON { SUFFIX given NONSPECIFIC_CURRENT i RANGE gbar, low, rate, inf }
PARAMETER { gbar = 1e-4 (S/cm2) low = -60 (mV) }
STATE { m }
ASSIGNED { v (mV) i (mA/cm2) inf tau (ms) rate (/ms) }
INITIAL { settle(v) m = 0 }
BREAKPOINT { SOLVE states METHOD cnexp i = gbar*m*(v - low) rate = inf/tau }
DERIVATIVE states { settle(v) m' = (inf - m)/tau }
PROCEDURE settle(v (mV)) { inf = 1/(1 + exp(-(v + 60)/9)) tau = 2 + 1/(1 + exp((v + 50)/9)) }
"""  # inf and tau keep their values between blocks: users may set them, and INITIAL sets them
DT, STOP = 0.05, 20.0  # ms
EPS = 100 * (STOP / DT) * np.finfo(np.float64).eps
STATES = {"ext_nmda": ("g", "open"), "ext_table": ("n", "steps", "middles", "seen", "factor")}


def recorded(sim, groups):
    nodes = np.arange(NODES * CELLS)
    numbers = {"v": sim.record("v", nodes)}
    numbers |= {name: sim.record(name, nodes[nodes % NODES != 4]) for name in ("cai", "ica", "eca")}
    for mechanism, names in STATES.items():
        numbers |= {(mechanism, name): sim.record(name, groups[mechanism]) for name in names}
    return numbers


def test_as_the_reference(double_queue):
    """Compare voltages, concentrations, states, outputs, spikes; a second run has the same bits."""
    results = []
    for engine in ("reference", ENGINE, ENGINE):
        net, groups = network()
        sim = Simulation(net, DT, queue=double_queue, engine=engine, chunk=130)
        assert sim.engine == engine
        numbers = recorded(sim, groups)
        results.append((sim.run(STOP), sim.voltages(), sim.weights()))
    (expected, *_), (first, v, weights), (second, *again) = results
    assert len(expected.spike_cell) > 6
    assert max(expected[numbers["v"]].max(), -expected[numbers["ica"]].min()) > 0
    for name, number in numbers.items():
        scale = np.abs(expected[number]).max()
        assert scale > 0, name
        np.testing.assert_allclose(first[number], expected[number], 0, EPS * scale, err_msg=name)
        assert np.array_equal(first[number], second[number])
    assert np.array_equal(first.spike_cell, expected.spike_cell)
    np.testing.assert_allclose(first.spike_time, expected.spike_time, 0, 1e-12 * STOP)
    assert all(map(np.array_equal, (v, weights), again))


def test_cells_of_several_work_groups(double_queue, monkeypatch):
    """Several work-groups per cell give the same results; two threads can simulate at once."""
    runs, like = [], np.arange(NODES * CELLS)
    for most in (plan.MOST_WARPS, 0):
        monkeypatch.setattr(plan, "MOST_WARPS", most)
        net, groups = network()
        sim = Simulation(net, DT, queue=double_queue, engine=ENGINE, chunk=130)
        parts = sim.runner.kernels.launches[0].plan.spec.parts
        assert (parts > 1) == (not most and sim.runner.limits.ptx)
        numbers = recorded(sim, groups)
        runs.append(sim.run(STOP))
    for number in numbers.values():
        scale = np.abs(runs[0][number]).max()
        np.testing.assert_allclose(runs[1][number], runs[0][number], 0, EPS * scale)
    assert np.array_equal(runs[0].spike_cell, runs[1].spike_cell)
    assert np.array_equal(runs[0].spike_time, runs[1].spike_time)

    def run(_):
        queue = cl.CommandQueue(double_queue.context)
        sim = Simulation(network()[0], DT, queue=queue, engine=ENGINE, chunk=7)
        number = sim.record("v", like)
        return sim.run(STOP)[number]

    with ThreadPoolExecutor(2) as pool:
        for result in pool.map(run, range(4)):
            assert np.array_equal(result, runs[1][numbers["v"]])


def test_equal_cells_and_float32(fast_queue):
    results = {}
    for engine, dtype in ((ENGINE, "float32"), ("steps", "float32"), ("reference", "float64")):
        options = {"queue": fast_queue, "engine": engine, "secondorder": 1}
        sim = Simulation(network(like=True)[0], DT, dtype, **options)
        number = sim.record("v", np.arange(NODES * CELLS))
        result = sim.run(20.0)
        results[engine] = result[number], result.spike_cell
    far = {k: np.abs(v[0] - results["reference"][0]).max() for k, v in results.items()}
    assert np.array_equal(results[ENGINE][1], results["reference"][1])
    assert far[ENGINE] < max(0.05, 2 * far["steps"])


def test_goes_on_from_what_steps_saved(double_queue, tmp_path):
    runs = []
    for engine in ("steps", ENGINE):
        net, groups = network()
        sim = Simulation(net, DT, queue=double_queue, engine=engine)
        numbers = recorded(sim, groups)
        if engine == "steps":
            sim.run(2.05)
            sim.save(tmp_path / "state.npz")
        else:
            sim.restore(tmp_path / "state.npz")
        runs.append(sim.run(10.0))
    assert len(runs[0].spike_cell) > 2
    assert np.array_equal(*(run.spike_cell for run in runs))
    for number in numbers.values():
        scale = np.abs(runs[0][number]).max()
        np.testing.assert_allclose(runs[1][number], runs[0][number], 0, EPS * scale)


CASES = {
    "ahead": (lambda: with_artificial(), {}),
    "later": (lambda: with_artificial(3.0), {}),
    "together": (lambda: with_artificial(0.001), {}),
    "second order": (lambda: with_artificial(0.3), {"secondorder": 2}),
}


@pytest.mark.parametrize("binned", [False, True], ids=["exact", "bins"])
@pytest.mark.parametrize("case", CASES)
def test_artificial_cells_go_ahead(double_queue, case, binned):
    runs, (build, options) = [], CASES[case]
    of_cpus = ["epochs-cpu"] if devices.is_cpu(double_queue.device) else []
    for engine in ("reference", ENGINE, ENGINE, *of_cpus):
        net, groups = build()
        if binned:
            inside(net).added.bins = True
        sim = Simulation(net, DT, queue=double_queue, engine=engine, chunk=130, **options)
        numbers = recorded(sim, groups)
        if len(runs) != 2:  # the third records neither states of instances nor artificial cells
            numbers |= {x: sim.record(x, groups["several"]) for x in ("g", "open")}
            numbers |= {x: sim.record(x, groups["ext_fire"]) for x in ("m", "fired")}
        runs.append((sim.run(STOP), sim.arrays(), numbers))
    (expected, arrays, numbers), *others = runs
    assert expected[numbers["fired"]].max() > 0 and expected[numbers["open"]].max() > 0
    assert len(set(expected.spike_cell)) > 6
    for result, state, records in others:
        for name, number in records.items():
            scale = max(np.abs(expected[numbers[name]]).max(), 1e-6)
            difference = np.abs(result[number] - expected[numbers[name]]).max()
            assert difference <= EPS * scale, name
        assert np.array_equal(result.spike_cell, expected.spike_cell)
        np.testing.assert_allclose(result.spike_time, expected.spike_time, 0, 1e-12 * STOP)
        for name in ("count", "cursor", "held"):
            assert np.array_equal(state[name], arrays[name])


def test_rings_of_artificial_cells_are_those_of_steps_when_saved(double_queue, tmp_path):
    """Epochs continue a state that `steps` saved, and the reverse, with equal results."""
    runs = []
    for engines in (("steps", "steps"), ("steps", ENGINE), (ENGINE, "steps")):
        path = tmp_path / f"{'-'.join(engines)}.npz"
        for engine in engines:
            net, _ = with_artificial(0.001)
            sim = Simulation(net, DT, queue=double_queue, engine=engine)
            if path.exists():
                sim.restore(path)
            result = sim.run(10.0)
            sim.save(path)
        runs.append((result, sim.voltages()))
    (expected, v), *others = runs
    assert len(expected.spike_cell) > 6
    for result, end in others:
        assert np.array_equal(result.spike_cell, expected.spike_cell)
        np.testing.assert_allclose(result.spike_time, expected.spike_time, 0, 1e-12 * STOP)
        np.testing.assert_allclose(end, v, 0, EPS * np.abs(v).max())


SENDS = """
NEURON { POINT_PROCESS sends RANGE first, every NONSPECIFIC_CURRENT i }
PARAMETER { first = 0.05 (ms) every = 0.1 (ms) }
ASSIGNED { v (mV) i (nA) }
INITIAL { net_send(first, 1) }
BREAKPOINT { i = 0 }
NET_RECEIVE(w) { if (flag == 1) { net_event(t) net_send(every, 1) } }
"""
TAKES = """
NEURON { POINT_PROCESS takes RANGE g NONSPECIFIC_CURRENT i }
STATE { g (uS) }
ASSIGNED { v (mV) i (nA) }
INITIAL { g = 0 }
BREAKPOINT { SOLVE s METHOD cnexp i = g*v }
DERIVATIVE s { g' = -g/2 }
NET_RECEIVE(w (uS)) { g = g + w }
"""


def small():
    """Return one cell: hh at the soma, two `pas` nodes, of which one has a synapse."""
    net = Network.from_arrays([-1, 0, 0], [0, 3], [500.0] * 3, [0, 0.1, 0.1], [0.005] * 3)
    net.insert("hh", [0])
    net.insert("pas", [1, 2], g=1e-4, e=-70.0)
    return net, net.add(Mechanism.from_nmodl(TAKES), [1])


def voltages(net, engine, dt, queue):
    sim = Simulation(net, dt, queue=queue, engine=engine)
    number = sim.record("v", np.arange(3))
    return sim, sim.run(200 * dt)[number]


@pytest.mark.parametrize("steps", [2, 3, 5])
@pytest.mark.parametrize("dt", [0.1, 0.025, 0.07])
def test_events_at_the_middle_of_a_step(double_queue, dt, steps):
    """An instance sends in the middle of each step; an event due there to rounding is not late."""
    results = []
    for engine in ("reference", ENGINE):
        net, takes = small()
        sends = net.add(Mechanism.from_nmodl(SENDS), [0], first=dt / 2, every=dt)
        net.connect(sends, takes, [0], 1e-5, steps * dt)
        results.append(voltages(net, engine, dt, double_queue)[1])
    np.testing.assert_allclose(results[1], results[0], 0, EPS * np.abs(results[0]).max())
    assert np.ptp(results[0]) > 1


def test_layers_of_artificial_cells_where_cells_need_launches_of_a_step(double_queue):
    """Events without delay arrive in their step: one work-group holds all cells that send them."""
    results = []
    for engine in ("reference", ENGINE):
        net, takes = small()
        fire = net.add_artificial(mod_files.ours("ext_fire"), 70)
        net.connect(fire, fire, np.arange(1, 70), 1.2, 0.0, source_index=np.arange(69))
        net.connect(fire, takes, [0], 3e-3, 0.0, source_index=[69])
        net.connect(net.add_detector([0], -20.0), fire, [5], 1.2, DT)
        sim, v = voltages(net, engine, DT, double_queue)
        results.append(v)
    assert epoch_of(sim.model) == (1, True)
    np.testing.assert_allclose(results[1], results[0], 0, EPS * np.abs(results[0]).max())


@pytest.mark.optimised
def test_currents_of_electrodes_in_two_layers(double_queue):
    """A clamp injects into the inner layer, and the field into the outer one."""
    results, twice = [], np.arange(6) % 3
    for engine in ("reference", ENGINE):
        net = Network.from_arrays(
            [-1, 0, 0, -1, 3, 3], [0, 3, 6], np.where(twice, 0.0, 500.0), [0.0] * 6, [5e-3] * 6,
            around=[1, 2, -1, 4, 5, -1], g_around=np.where(twice, 1e-3, 0.0),
        )  # fmt: skip
        net.insert("pas", at=net.soma)
        net.add("iclamp", at=[0], delay=0.0, dur=1.0, amp=[0.1])
        net.field(np.linspace(-50, 50, 6), ([0.0, 0.5], [1.0, 1.0]))
        sim = Simulation(net, DT, queue=double_queue, engine=engine)
        sim.run(0.4)
        results.append(sim.voltages())
    np.testing.assert_allclose(results[1], results[0], 0, EPS * np.abs(results[0]).max())
    assert np.ptp(results[0]) > 1


def test_gap_junctions_and_currents_that_are_read(double_queue):
    """A gap junction reads other cells' v at the begin of a step, also after odd step numbers."""
    runs, total = [], NODES * CELLS
    for engine, pieces in (("reference", [1]), (ENGINE, [1]), (ENGINE, [0.35, 0.65])):
        net, groups = network()
        net.insert(Mechanism.from_nmodl(READS), np.arange(total))
        gaps = net.add(mod_files.ours("ext_gap"), np.arange(5, total, NODES), g=2e-3)
        net.set_pointer(gaps, "vgap", to=np.roll(np.arange(5, total, NODES), 1))
        sim = Simulation(net, DT, queue=double_queue, engine=engine)
        numbers = recorded(sim, groups)
        results = [sim.run(STOP * piece) for piece in pieces]
        runs.append([np.concatenate([r[n] for r in results])[-99:] for n in numbers.values()])
    for expected, *others in zip(*runs, strict=True):
        for rows in others:
            np.testing.assert_allclose(rows, expected, 0, EPS * np.abs(expected).max())
    alone, _ = network()
    sim = Simulation(alone, DT, queue=double_queue, engine=ENGINE)
    sim.run(STOP)
    assert np.abs(sim.voltages() - runs[1][0][-1]).max() > 1e-3  # the mechanisms have an effect


@pytest.mark.parametrize("binned", [False, True], ids=["exact", "bins"])
def test_events_within_a_step_within_a_cell(double_queue, binned):
    """Each layer receives earlier layers' events within the step; launches have several steps."""
    results = []
    for engine, chunk in (("reference", 130), (ENGINE, 130), (ENGINE, 7)):
        net, groups = with_relays()
        inside(net).added.bins = binned
        sim = Simulation(net, DT, queue=double_queue, engine=engine, chunk=chunk, secondorder=2)
        numbers = recorded(sim, groups) | {x: sim.record(x, groups["relay"]) for x in ("n", "last")}
        results.append((sim.run(STOP), numbers))
    kernels = sim.runner.kernels
    assert kernels.epoch > 4 and kernels.launches[0].spec.layers == 5
    (expected, numbers), *others = results
    assert (expected[numbers["last"]][-1] > 1).all()
    for result, records in others:
        for name, number in records.items():
            eps = EPS * np.abs(expected[numbers[name]]).max()
            np.testing.assert_allclose(result[number], expected[numbers[name]], 0, eps, str(name))
        assert np.array_equal(result.spike_cell, expected.spike_cell)
        np.testing.assert_allclose(result.spike_time, expected.spike_time, 0, 1e-12 * STOP)


def test_a_variable_that_is_named_as_the_current_of_an_ion(double_queue):
    """A variable named ica need not be an ion's; compare a state that reads it."""
    results = []
    for engine in ("reference", ENGINE):
        net = Network.from_arrays([-1, 0, 1], [0, 3], [500.0] * 3, [0.0, 0.1, 0.1], [0.005] * 3)
        for mechanism in (mod_files.ours("ext_ca"), Mechanism.from_nmodl(OWN)):
            group = net.insert(mechanism, [0, 1, 2])
        sim = Simulation(net, DT, queue=double_queue, engine=engine)
        number = sim.record("c", group)
        results.append(sim.run(STOP)[number])
    assert np.ptp(results[0]) > 1e-3
    np.testing.assert_allclose(results[1], results[0], 0, EPS * np.abs(results[0]).max())


def test_kernels_have_no_numbers_of_before_the_start(double_queue):
    """Values of states before INITIAL, which an earlier run left, compile no other kernels."""
    every, results, built = np.arange(4), [], []
    for inf in (0.0, 0.25, np.linspace(0.1, 0.9, 4), np.repeat([0.1, 0.2], 2)):
        net = Network.from_arrays([-1, 0, -1, 2], [0, 2, 4], [500.0] * 4, [0, 0.1] * 2, [0.005] * 4)
        net.insert(Mechanism.from_nmodl(GIVEN), every, inf=inf)
        sim = Simulation(net, DT, queue=double_queue, engine=ENGINE)
        number = sim.record("v", every)
        results.append(sim.run(1.0)[number])
        built.append(len(program.build_seconds))
    assert built == built[:1] * 4
    assert all(np.array_equal(v, results[0]) for v in results)


def test_what_epochs_do_not_take(fast_queue):
    net, _ = network()
    relay = net.add(Mechanism.from_nmodl(RELAY), [5, 11])
    net.connect(relay, relay, [1], 1.0, 0.0, source_index=[0])
    with pytest.raises(InputError, match="takes no events between cells within a step"):
        Simulation(net, DT, queue=fast_queue, engine=ENGINE)


def failing(monkeypatch, error):
    """Raise `error` in place of the first epoch kernel."""

    def fail(self, queue, arguments):
        raise error

    monkeypatch.setattr(devices, "is_cpu", lambda device: False)  # `auto` chooses epochs
    monkeypatch.setattr(PlanLaunch, "bind", fail)


@pytest.mark.parametrize(
    ("error", "begun"),
    [
        (BuildError("kernel of a spec\n1  source"), False),
        (cl.RuntimeError("OUT_OF_RESOURCES"), True),
    ],
    ids=["build", "launch"],
)
def test_goes_on_by_steps_where_epochs_cannot_be_launched(double_queue, monkeypatch, error, begun):
    """With `auto`, epochs fail, one warning comes, and `steps` continues with its own bits."""
    failing(monkeypatch, error)
    runs, warned = [], r"does not run on .*; the simulation goes on with engine='steps'$"
    for engine in ("steps", "auto"):
        net, groups = network()
        sim = Simulation(net, DT, queue=double_queue, engine=engine, chunk=30)
        numbers = recorded(sim, groups)
        if begun:
            networks.go_on(sim, 4, {**sim.arrays(), "v": sim.voltages() + 2})
        if engine == "auto":
            assert sim.engine == ENGINE
            with pytest.warns(UserWarning, match=warned) as caught:
                runs.append(sim.run(4.0))
            assert len(caught) == 1 and "\n" not in str(caught[0].message)
        else:
            runs.append(sim.run(4.0))
        assert sim.engine == "steps"
    for number in numbers.values():
        assert np.array_equal(runs[0][number], runs[1][number])
    assert np.array_equal(runs[0].spike_time, runs[1].spike_time)


def test_epochs_that_were_asked_for_and_cannot_be_launched(double_queue, monkeypatch):
    failing(monkeypatch, BuildError("kernel of a spec\n1  source"))
    sim = Simulation(network()[0], DT, queue=double_queue, engine=ENGINE)
    with pytest.raises(DeviceError, match="does not build; expected engine='steps'$") as error:
        sim.run(1.0)
    assert "\n" not in str(error.value)


NOISY = """
point flicker
parameter g = 1e-3 uS
parameter size = 0.1 nA
state m = 0.5
dm/dt = (1/(1 + exp(-(v + 60)/5)) - m)/2
current i = g*m*(v + 60) + size*noise [nA]
"""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_noise(typed_queue, dtype):
    """`inoise` and a text with noise share one set of functions for normal numbers."""
    results = []
    for engine in ("reference", "steps", ENGINE):
        net, _ = network()
        somas = np.arange(CELLS) * NODES
        net.add("inoise", at=somas, std=0.05)
        net.add(NOISY, at=somas)
        sim = Simulation(net, DT, dtype, queue=typed_queue, engine=engine)
        sim.record("v", somas)
        results.append(sim.run(2.0)[0])
    eps = 100 * (2.0 / DT) * np.finfo(dtype).eps
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], 0, eps * np.abs(results[0]).max())
    assert np.abs(np.diff(results[0], axis=0)).min() > 0  # the noise has an effect

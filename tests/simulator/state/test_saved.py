"""State files of simulations; a file without a state for this network is refused in one line."""

import zipfile
from dataclasses import replace

import numpy as np
import pytest
import test_branching
from exact_cells import network as exact_network
from networks import go_on

from bench.cells import ring_cell
from clhines import InputError, Mechanism, Network, Simulation
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cpu.blocks import CellBlocks
from clhines.simulator.gpu.epochs import CellEpochs
from clhines.simulator.model import compile
from clhines.simulator.network.plasticity import STDP
from clhines.simulator.network.times import LAST_STEP, begins_of
from clhines.simulator.simulation import take_state
from clhines.simulator.state.saved import members, signature

DT = 0.025
RULE = STDP(0.01, 0.012, tau_plus=5.0, tau_minus=8.0, w_min=0.0, w_max=0.08)
CABLE = discretise(ring_cell(2, 0.6, 3, seed=3, stems=1), max_length=90.0)


def simulation(other_rule=None, **options):
    cells = np.arange(3)
    net = Network(CABLE, 3)
    net.insert("hh", "soma")
    net.insert("pas", net.forest.num_nodes - 1, g=1e-4, e=-65.0)
    syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    net.connect(cells, syn, (cells + 1) % 3, 0.05, 1.0, rule=RULE)
    net.connect(cells, syn, (cells + 2) % 3, 0.01, 0.5, rule=other_rule)
    net.add_event(syn, [0, 1], [0.2, 6.0], 0.08)
    return Simulation(net, DT, **({"engine": "reference"} | options))


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """Return a simulation, its file after 2.5 ms, and the file's arrays."""
    sim = simulation()
    assert len(sim.run(2.5).spike_time) == 3
    path = tmp_path_factory.mktemp("saved") / "state.npz"
    sim.save(path)
    with np.load(path) as file:
        return sim, path, dict(file)


def assert_refused(sim, path, *said):
    before, step = sim.voltages(), sim.step
    with pytest.raises(InputError) as error:
        sim.restore(path)
    text = str(error.value)
    assert len(text.splitlines()) == 1
    assert len(text) < 300
    assert all(word in text for word in (str(path), *said)), text
    np.testing.assert_array_equal(sim.voltages(), before)
    assert sim.step == step


def test_the_file_holds_what_is_checked(state):
    sim, path, arrays = state
    expected = members(sim.model, np.dtype(np.float64), sim.step)
    assert set(arrays) == set(expected) | {"network", "step"}
    assert np.any(arrays["incoming"])
    later = simulation()
    later.restore(path)
    again = sim.run(5.0), later.run(5.0)
    np.testing.assert_array_equal(again[0].spike_time, again[1].spike_time)
    sim.restore(path)


# of files: name:dtype:shape
PLAIN = """
failed:int32:3 incoming:int64:42,3 plastic_step_post:int32:3 plastic_step_pre:int32:3
plastic_trace_post:float64:3 plastic_trace_pre:float64:3 plastic_weight:float64:6
state0_h:float64:3 state0_m:float64:3 state0_n:float64:3 state1_g:float64:3 v:float64:21
"""
EXACT = """
held:int32:5 count:int64:14 cursor:int64:15 drawn10_r:int64:2 failed:int32:2 ion_cai:float64:12
ion_cao:float64:12 ion_dica:float64:12 ion_dik:float64:12 ion_eca:float64:12 ion_ek:float64:12
ion_ica:float64:12 ion_ik:float64:12 ion_ki:float64:12 ion_ko:float64:12 output10_i:float64:2
output4_seen:float64:12 output9_i:float64:1 played9_amp:float64:1 ring:float64:338
state0_h:float64:12 state0_m:float64:12 state0_n:float64:12 state10_x:float64:2
state11_fired:float64:3 state11_m:float64:3 state11_silent:float64:3 state11_t0:float64:3
state2_m:float64:12 state4_factor:float64:12 state4_middles:float64:12 state4_n:float64:12
state4_steps:float64:12 state5_g:float64:1 state5_open:float64:1 state6_on:float64:1
state6_when:float64:1 state7_g:float64:2 state7_sum:float64:2 v:float64:12 weight:float64:36
"""
QUEUE = """
queue{0}_time:float64:16,{1} queue{0}_flag:float64:16,{1} queue{0}_sent:float64:16,{1}
queue{0}_connection:int64:16,{1} queue{0}_size:int64:{1} queue{0}_last:int64:{1}
queue{0}_armed:bool:{2},{1} queue{0}_above:bool:{2},{1}
"""


@pytest.mark.parametrize("which", ["plain", "exact"])
def test_names_in_files_stay(which, tmp_path):
    """The names, types and shapes of arrays in files stay: with STDP, and with exact times."""
    if which == "plain":
        sim, expected = simulation(), PLAIN
    else:
        sim = Simulation(test_branching.network()[0], 0.1, engine="reference")
        queues = (QUEUE.format(*sizes) for sizes in ((5, 1, 0), (6, 1, 3), (7, 2, 0), (11, 3, 0)))
        expected = " ".join([EXACT, *queues])
    sim.save(tmp_path / "state.npz")
    with np.load(tmp_path / "state.npz") as file:
        arrays = {name: file[name] for name in file.files if name not in ("network", "step")}
    result = [f"{k}:{a.dtype}:{','.join(map(str, a.shape))}" for k, a in arrays.items()]
    assert sorted(result) == sorted(expected.split())
    assert list(arrays) == [field.key for field in sim.model.schema]


def test_what_a_generator_has_drawn_may_be_its_state():
    """A state of scop_random is any 32-bit number; a larger one is refused."""
    sim = Simulation(test_branching.network()[0], 0.1, engine="reference")
    arrays = sim.arrays()
    arrays["drawn10_r"][:] = 2**31 + 5, 2**32 - 1
    go_on(sim, 0, arrays)
    np.testing.assert_array_equal(sim.arrays()["drawn10_r"], arrays["drawn10_r"])
    arrays["drawn10_r"][0] = 2**32
    with pytest.raises(InputError, match=r"drawn10_r\[0\] is 4294967296"):
        go_on(sim, 0, arrays)


@pytest.mark.parametrize("bad", [-1, -(2**62), 2**31, 2**62])
def test_a_step_that_no_run_has(state, bad, tmp_path):
    """Refuse steps that no run reaches; a negative one would index outside the ring of events."""
    sim, _, arrays = state
    np.savez(tmp_path / "bad.npz", **{**arrays, "step": np.int64(bad)})
    assert_refused(sim, tmp_path / "bad.npz", "step is", "expected 0 to")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("step", lambda a: a.astype(np.int32)),
        ("step", lambda a: a.astype(float)),
        ("step", lambda a: a[None]),
        ("v", lambda a: a[:-1]),
        ("v", lambda a: a.astype(np.int64)),
        ("v", lambda a: np.where(np.arange(len(a)) == 2, np.nan, a)),
        ("v", lambda a: a.astype(complex)),
        ("v", lambda a: a.astype(object)),
        ("failed", lambda a: a + 1),
        ("failed", lambda a: a - 1),
        ("incoming", lambda a: a.T),
        ("incoming", lambda a: a + 2**62),
        ("incoming", lambda a: np.full_like(a, -(2**63))),
        ("incoming", lambda a: a.astype(float)),
        ("state0_m", lambda a: a * np.inf),
        ("state0_m", lambda a: a.astype(np.float32)),
        ("plastic_weight", lambda a: a + 1),
        ("plastic_weight", lambda a: a[::-1]),
        ("plastic_step_pre", lambda a: a - 1000),
        ("plastic_step_post", lambda a: a + 1000),
        ("plastic_step_post", lambda a: a + 2**20),
        ("plastic_trace_pre", lambda a: a - 1e3),
        ("plastic_trace_post", lambda a: a + 1e9),
        ("network", lambda a: np.str_("x" * 64)),
        ("network", lambda a: np.str_("short")),
        ("network", lambda a: np.zeros(3)),
    ],
)
def test_every_array_is_checked(state, name, change, tmp_path):
    """Numbers that are indices out of range are refused, too."""
    sim, _, arrays = state
    with np.errstate(invalid="ignore"):
        wrong = change(arrays[name])
    np.savez(tmp_path / "bad.npz", **{**arrays, name: wrong})
    assert_refused(sim, tmp_path / "bad.npz")


def test_members_that_are_missing_or_unknown(state, tmp_path):
    sim, _, arrays = state
    for name in arrays:
        path = tmp_path / "bad.npz"
        np.savez(path, **{k: v for k, v in arrays.items() if k != name})
        assert_refused(sim, path, repr(name), "missing")
    np.savez(path, **arrays, other=np.zeros(3))
    assert_refused(sim, path, "'other' is unknown")


def test_the_precision_is_that_of_the_file(double_queue, tmp_path):
    both = [simulation(engine="steps", queue=double_queue, dtype=t) for t in ("float64", "float32")]
    for sim, other in (both, both[::-1]):
        sim.run(1.0)
        sim.save(tmp_path / "state.npz")
        names = [np.dtype(s.dtype).name for s in (sim, other)]
        assert_refused(other, tmp_path / "state.npz", f"in {names[0]}; expected {names[1]}")
    host = simulation(dtype="float32")  # the reference computes in float64
    both[0].save(tmp_path / "state.npz")
    host.restore(tmp_path / "state.npz")


def test_devices_take_what_was_checked(double_queue, state, tmp_path):
    _, path, arrays = state
    for way in ("steps", "epochs"):
        sim = simulation(engine=way, queue=double_queue)
        sim.restore(path)
        np.savez(tmp_path / "bad.npz", **{**arrays, "step": np.int64(-5)})
        assert_refused(sim, tmp_path / "bad.npz", "step is -5")


def test_networks_that_differ_in_what_is_plastic(state, tmp_path):
    _, path, _ = state
    assert_refused(simulation(RULE), path, "of another network")


@pytest.mark.parametrize("seed", range(40))
def test_fuzz(state, seed, tmp_path):
    sim, path, arrays = state
    rng = np.random.default_rng(seed)
    bad = tmp_path / "bad.npz"
    if seed % 2:
        data = bytearray(path.read_bytes())
        for _ in range(rng.integers(1, 6)):
            data[rng.integers(len(data))] = rng.integers(256)
        if seed % 4 == 3:
            del data[rng.integers(len(data)) :]
        bad.write_bytes(data)
    else:
        names = rng.permutation(sorted(arrays))
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(bad, "w") as new:
            for name, other in zip(sorted(arrays), names, strict=True):
                taken = other if rng.random() < 0.2 else name
                new.writestr(f"{name}.npy", old.read(f"{taken}.npy"))
    try:
        sim.restore(bad)
    except InputError as error:
        assert len(str(error).splitlines()) == 1
    else:
        sim.save(bad)
        with np.load(bad) as file:
            for name in file:
                if file[name].dtype != np.float64 or file[name].shape != arrays[name].shape:
                    np.testing.assert_array_equal(file[name], arrays[name])
    sim.restore(path)
    sim.run(DT)
    sim.restore(path)


TICK = """
NEURON { ARTIFICIAL_CELL Tick RANGE n }
ASSIGNED { n }
INITIAL { n = 0 net_send(1, 1) }
NET_RECEIVE(w) { if (flag == 1) { n = n + 1 net_send(1, 1) } else { n = n + 100 } }
"""


def ticking(fast_queue, engine="reference"):
    net = Network(CABLE, 1)
    net.insert("pas", "all")
    tick = net.add_artificial(Mechanism.from_nmodl(TICK), 2)
    net.connect(net.spike_source([[0.5, 4.0]]), tick, [1], 0.0, 1.0)
    sim = Simulation(net, DT, queue=fast_queue, engine=engine)
    sim.record("n", tick)
    return sim


@pytest.mark.parametrize("engine", ["reference", "steps"])
def test_events_of_long_ago_and_indices_out_of_range_are_refused(fast_queue, engine, tmp_path):
    """Refuse self events of the far past, which `run` would deliver one by one."""
    sim = ticking(fast_queue, engine)
    sim.run(2.5)
    sim.save(tmp_path / "state.npz")
    arrays, (step, before) = sim.arrays(), (sim.step, sim.voltages())
    with np.load(tmp_path / "state.npz") as file:
        held = dict(file)
    for name, place, value, said in (
        ("queue0_time", (0, 1), -1e12, "expected no self event of Tick before 2.475 ms"),
        ("queue0_last", 0, 5, "queue0_last"),
        ("queue0_last", 0, 2**40, "queue0_last"),
        ("queue0_size", 0, -1, "queue0_size"),
        ("queue0_size", 0, 2**31, "queue0_size"),
        ("queue0_connection", (0, 0), 99, "queue0_connection"),
        ("queue0_connection", (0, 0), -5, "queue0_connection"),
        ("cursor", 0, 9, "cursor"),
        ("cursor", 0, 0, "ring: connection 0 has an event that is due at 1.5 ms"),
        ("count", -1, 0, "cursor"),
        ("count", 0, 2**40, "count"),
        ("ring", -1, -1e12, "ring: connection 0"),
    ):
        wrong = {k: a.copy() for k, a in arrays.items()}
        wrong[name][place] = value
        with pytest.raises(InputError, match=said) as error:
            go_on(sim, step, wrong)
        assert "\n" not in str(error.value)
        np.savez(tmp_path / "bad.npz", **{**held, name: wrong[name].astype(held[name].dtype)})
        assert_refused(sim, tmp_path / "bad.npz", name.partition("_")[0] if said == name else "")
    assert (sim.step, sim.voltages().tolist()) == (step, before.tolist())
    go_on(sim, step, arrays)
    rest = sim.run(3.0)[0][-1]
    sim.restore(tmp_path / "state.npz")
    assert sim.run(3.0)[0][-1].tolist() == rest.tolist() == [5.0, 205.0]


def test_events_of_a_late_state_are_due_by_neurons_clock(tmp_path):
    """After 2.6e7 ms the sums of half steps are 1 ms less than the steps times dt."""
    sim, late = ticking(None, "reference"), LAST_STEP - 500
    sim.run(2.5)
    arrays = sim.arrays()
    for name in ("queue0_time", "ring"):
        arrays[name] += begins_of(late, DT) - begins_of(sim.step, DT)
    go_on(sim, late, arrays)
    assert sim.run(3.0)[0][-1].tolist() == [5.0, 205.0]


@pytest.mark.parametrize("engine", ["epochs-cpu", "epochs-gpu"])
def test_a_state_takes_the_place_of_the_last_one(engine, monkeypatch):
    """A restored state with another constant ion value compiles the kernels of lists again."""
    compiled = []
    for owner in (CellBlocks, CellEpochs):

        def compile_(self, *arguments, done=owner.compile):
            compiled.append(engine)
            return done(self, *arguments)

        monkeypatch.setattr(owner, "compile", compile_)
    net, groups = exact_network()
    sim = Simulation(net, DT, engine=engine)
    sim.run(3.0)
    start = sim.arrays()
    other = {**start, "v": start["v"] + 3.0, "weight": 1.5 * start["weight"]}
    of_ion = int(engine == "epochs-gpu")
    elsewhere = {**other, "ion_ek": start["ion_ek"] + 5.0}
    for state, counts in ((other, 0), (elsewhere, of_ion), (start, of_ion)):
        compiled.clear()
        take_state(sim, 120, {name: a.copy() for name, a in state.items()}, 1.0)
        assert len(compiled) == counts
        sim.run(4.0)
        fresh = Simulation(net, DT, engine=engine)
        take_state(fresh, 120, {name: a.copy() for name, a in state.items()}, 1.0)
        fresh.run(4.0)
        result, expected = sim.arrays(), fresh.arrays()
        assert np.ptp(result["v"] - start["v"]) > 1
        for name, values in expected.items():
            np.testing.assert_array_equal(result[name], values, err_msg=name)
    host = Simulation(net, DT, engine="reference")
    for one in (sim, host):  # a parameter that was set stays
        one.set(groups["hh"], gnabar=0.2)
        arrays = {name: a.copy() for name, a in start.items()}
        take_state(one, 120, {**arrays, "ion_ek": start["ion_ek"] + 5.0}, 1.0)
        one.run(4.0)
    np.testing.assert_allclose(sim.voltages(), host.voltages(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("engine", ["epochs-cpu", "epochs-gpu"])
def test_what_a_failed_build_leaves_is_built_again(engine, tmp_path, monkeypatch):
    net, groups = exact_network()
    sim = Simulation(net, DT, engine=engine)
    sim.run(3.0)
    sim.save(tmp_path / "state.npz")
    numbers = sim.record("i", groups["hh"])
    owner = CellBlocks if engine == "epochs-cpu" else CellEpochs
    with monkeypatch.context() as patch:

        def fails(self, *_):
            raise MemoryError("no room")

        patch.setattr(owner, "compile", fails)
        with pytest.raises(MemoryError):
            sim.run(1.0)
    sim.restore(tmp_path / "state.npz")
    rows = sim.run(1.0)[numbers]
    fresh = Simulation(net, DT, engine=engine)
    fresh.run(3.0)
    expected = fresh.record("i", groups["hh"])
    np.testing.assert_array_equal(rows[-40:], fresh.run(1.0)[expected][-40:])
    assert np.ptp(rows) > 0


LOOKED_UP = """
NEURON { SUFFIX looked NONSPECIFIC_CURRENT i RANGE k, g }
PARAMETER { k = 9  g = 1e-5 }
ASSIGNED { v i inf }
STATE { n }
INITIAL { rates(v) n = inf }
BREAKPOINT { SOLVE s METHOD cnexp i = g*n*(v + 70) }
DERIVATIVE s { rates(v) n' = (inf - n)/5 }
PROCEDURE rates(v) { TABLE inf DEPEND k FROM -100 TO 100 WITH 200
  inf = 1/(1 + exp(-(v + 45)/k)) }
"""


@pytest.mark.parametrize("engine", ["steps", "epochs-cpu", "reference"])
def test_voltages_stay_where_a_change_is_refused(engine):
    net, _ = exact_network()
    group = net.insert(Mechanism.from_nmodl(LOOKED_UP), [0, 6, 12])
    sim = Simulation(net, DT, engine=engine)
    sim.run(3.0)
    before = sim.voltages()
    sim.set(group, k=[9.0, 10.0, 11.0])
    with pytest.raises(InputError, match="k differs between instances"):
        sim.run(DT)
    sim.set(group, k=9.0)
    np.testing.assert_array_equal(sim.voltages(), before)
    assert np.ptp(before) > 1


def clamped(dtype, engine):
    """Return a simulation with -0.3 nA from t = 0 on, and its records: v, current, least v."""
    net = Network(CABLE, 2)
    net.insert("hh", "soma")
    clamp = net.add("iclamp", net.soma, dur=5.0, amp=0.3)
    sim = Simulation(net, DT, dtype=dtype, engine=engine)
    sim.record("v", net.soma)
    sim.record("i", clamp)
    sim.record("v", net.soma, reduce="min")
    return sim


ENGINES = ["reference", "steps", "epochs-cpu", "epochs-gpu"]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_row_after_a_state_of_the_start_is_right_or_nan(engine, tmp_path):
    """Restore before any run, and after a run with currents of a later time."""
    sim = clamped("float64", engine)
    sim.save(tmp_path / "start.npz")
    expected = sim.run(5 * DT)
    for before in (0, 220):
        sim = clamped("float64", engine)
        sim.run(before * DT)  # the clamp is over after 200 steps
        sim.restore(tmp_path / "start.npz")
        v, current, least = sim.run(5 * DT).values
        np.testing.assert_array_equal(v, expected.values[0])
        np.testing.assert_array_equal(current[1:], expected.values[1][1:])
        np.testing.assert_array_equal(least, expected.values[2])
        assert engine.startswith("epochs") or np.isnan(current[0]).all()
        finite = ~np.isnan(current[0])
        np.testing.assert_array_equal(current[0][finite], expected.values[1][0][finite])


@pytest.mark.parametrize("engine", ENGINES)
def test_records_of_no_steps_have_the_precision(engine):
    sim = clamped("float32", engine)
    some, nothing = sim.run(2 * DT), sim.run(0.0)
    assert [a.dtype for a in nothing.values] == [a.dtype for a in some.values]
    assert [a.shape for a in nothing.values] == [(0, 2), (0, 2), (2,)]


def test_a_state_depends_on_the_instance_whose_globals_all_have():
    model = simulation().model
    kinds = [(replace(model.kinds[0], last=last), *model.kinds[1:]) for last in (None, 0, 1)]
    assert len({signature(replace(model, kinds=some)) for some in kinds}) == 3


def test_a_state_depends_on_the_values_of_a_field():
    """MPI ranks, too, compare these digests: all must have the same waveform."""
    signatures = set()
    for t, y in (([0, 1], [0, 1]), ([0, 2], [0, 1]), ([0, 1], [0, 2])):
        net = Network(CABLE)
        net.field(np.arange(net.forest.num_nodes), (t, y))
        signatures.add(signature(compile(net, DT)))
    assert len(signatures) == 3

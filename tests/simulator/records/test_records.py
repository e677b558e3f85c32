"""What is kept of recorded values, against NumPy on all rows; i_membrane against NEURON."""

import importlib.util
import logging
import math
import subprocess
import sys

import networks
import numpy as np
import pytest

from clhines import InputError, Network, Simulation
from clhines.simulator.records import records
from clhines.solver.device import devices

DT, ENGINES = 0.025, ("reference", "steps", "epochs")
EVERY = 4  # steps
TIMES, COMBINATIONS, THRESHOLD = 6.0, 3, -20.0


def matrix(nodes):
    """Weights of (COMBINATIONS, nodes)."""
    return np.random.default_rng(4).normal(size=(COMBINATIONS, nodes))


def asked(sim, what, nodes, threshold):
    """Numbers of all that is kept of a variable, by name."""
    found = {r: sim.record(what, nodes, reduce=r) for r in ("min", "max", "mean", "integral")}
    for name in ("count", "crossings"):
        found[name] = sim.record(what, nodes, reduce=name, threshold=threshold)
    found["every"] = sim.record(what, nodes, every=EVERY * DT)
    combined = {"matrix": matrix(len(nodes)), "every": EVERY * DT}
    return {**found, "matrix": sim.record(what, nodes, **combined)}


@pytest.mark.parametrize(
    ("engine", "dtype"),
    [("reference", "float64"), ("steps", "float32"), ("epochs", "float64"), ("epochs", "float32")],
)
def test_kept_values_are_those_of_all_rows(fast_queue, needs, monkeypatch, engine, dtype):
    """Reductions, rows and combinations, with the same bits in other chunks and in two runs."""
    needs(fast_queue, dtype)
    net, syn = networks.mixed_network()
    nodes = np.arange(len(net.area))[::3]
    sim = Simulation(net, DT, dtype, queue=fast_queue, engine=engine)
    rows = {what: sim.record(what, nodes) for what in ("v", "i_membrane")}
    rows["g"] = sim.record("g", syn)
    kept = {what: asked(sim, what, nodes, 0.01 if what != "v" else THRESHOLD)
            for what in ("v", "i_membrane")}  # fmt: skip
    most = sim.record("g", syn, reduce="max")
    result = sim.run(TIMES)
    assert np.array_equal(result[most], result[rows["g"]][1:].max(axis=0))
    for what, numbers in kept.items():
        found = {name: result[number] for name, number in numbers.items()}
        every = result[rows[what]]
        exact = every.astype(np.float64)
        threshold = np.dtype(dtype).type(0.01 if what != "v" else THRESHOLD)
        crossed = (every[:-1] < threshold) & (threshold <= every[1:])
        eps = np.finfo(dtype).eps
        assert np.array_equal(found["min"], every[1:].min(axis=0))
        assert np.array_equal(found["max"], every[1:].max(axis=0))
        # one rounding each of the sum, what it has lost, and the quotient or product
        bound = 4 * eps * np.abs(exact[1:]).sum(axis=0)
        total = np.array([math.fsum(column) for column in exact[1:].T])
        assert (np.abs(found["mean"] * len(crossed) - total) <= bound).all()
        assert (np.abs(found["integral"] / DT - total) <= bound).all()
        assert crossed.any()
        assert np.array_equal(found["count"], crossed.sum(axis=0))
        for k, times in enumerate(found["crossings"].T):
            own = result.t[1:][crossed[:, k]]
            assert np.array_equal(times[: len(own)], own) and np.isnan(times[len(own) :]).all()
        assert np.array_equal(found["every"], every[::EVERY])
        assert np.allclose(result.times[numbers["every"]], result.t[::EVERY], 0, 1e-12)
        # roundings of weights, products and the sum; those of NumPy's sums
        weights, exact = matrix(len(nodes)), exact[::EVERY]
        roundings = 3 * eps + len(nodes) * np.finfo(float).eps
        bound = roundings * np.abs(exact) @ np.abs(weights.T)
        assert (np.abs(found["matrix"] - exact @ weights.T) <= bound).all()
    cut = Simulation(net, DT, dtype, queue=fast_queue, engine=engine, chunk=57)
    numbers = asked(cut, "i_membrane", nodes, 0.01)
    again = cut.run(TIMES)
    assert all(
        np.array_equal(again[numbers[name]], result[number], equal_nan=True)
        for name, number in kept["i_membrane"].items()
    )
    monkeypatch.setattr(records, "ROOM", 100_000)  # chunks of some 30 steps
    twice = Simulation(net, DT, dtype, queue=fast_queue, engine=engine)
    numbers = asked(twice, "v", nodes, THRESHOLD)
    first, second = twice.run(3.3), twice.run(TIMES - 3.3)
    both = [(first[k], second[k], result[kept["v"][name]]) for name, k in numbers.items()]
    least, most, _, _, count, times, rows, combined = both
    assert np.array_equal(np.minimum(*least[:2]), least[2])
    assert np.array_equal(np.maximum(*most[:2]), most[2])
    assert np.array_equal(count[0] + count[1], count[2])
    assert np.array_equal(np.isfinite(times[0]).sum(0) + np.isfinite(times[1]).sum(0), count[2])
    assert np.array_equal(np.concatenate(rows[:2]), rows[2])
    assert np.array_equal(np.concatenate(combined[:2]), combined[2])


@pytest.mark.neuron
@pytest.mark.parametrize("engine", ENGINES)
def test_i_membrane_is_neurons(fast_queue, needs, engine):
    """All nodes of a spiking cell in every fourth step, and what electrodes outside would see."""
    pytest.importorskip("neuron", reason="NEURON is not installed: pip install neuron")
    import test_simulation_neuron as with_neuron

    needs(fast_queue, "float64")
    h = with_neuron.h
    (cable,) = with_neuron.branching_cells(1)
    net = with_neuron.our_network(cable)
    net.add("iclamp", at=net.soma, delay=1.0, dur=2.0, amp=0.6)
    syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    net.add_event(syn, 0, 4.0, 0.05)
    sim = Simulation(net, DT, queue=fast_queue, engine=engine, v_init=with_neuron.V_INIT)
    nodes = np.arange(cable.num_nodes)
    current = sim.record("i", syn, every=EVERY * DT)
    number = sim.record("i_membrane", nodes, every=EVERY * DT)
    seen = sim.record("i_membrane", nodes, every=EVERY * DT, matrix=matrix(len(nodes)))
    result = sim.run(8.0)

    sections, soma, segments = with_neuron.neuron_cell(cable)
    clamp = h.IClamp(soma)
    clamp.delay, clamp.dur, clamp.amp = 1.0, 2.0, 0.6
    synapse, stim = h.ExpSyn(soma), h.NetStim()
    synapse.tau, synapse.e = 2.0, 0.0
    stim.number, stim.start, stim.noise = 1, 3.0, 0
    connection = h.NetCon(stim, synapse)
    connection.delay, connection.weight[0] = 1.0, 0.05
    h.cvode.use_fast_imem(1)
    with_neuron.initialise(0)
    theirs, synaptic = [], []
    for step in range(round(8.0 / DT)):
        h.fadvance()
        if step % EVERY == EVERY - 1:
            theirs.append([segments[node].i_membrane_ for node in segments])
            synaptic.append(synapse.i)
    h.cvode.use_fast_imem(0)
    theirs, ours = np.array(theirs), result[number][1:]
    largest = np.abs(theirs).max()
    assert len(sections) > 10 and largest > 0.1
    assert np.abs(theirs.sum(axis=1)).max() == pytest.approx(0.6)  # what the electrode gives
    assert np.abs(ours[:, list(segments)] - theirs).max() < 1e-8 * largest
    assert np.abs(synaptic).max() > 1.0
    assert np.abs(result[current][1:, 0] - synaptic).max() < 1e-8 * np.abs(synaptic).max()
    potentials = theirs @ matrix(len(nodes))[:, list(segments)].T
    assert np.abs(result[seen][1:] - potentials).max() < 1e-8 * np.abs(potentials).max()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"every": 0.03}, "every is 0.03 ms; expected a multiple of dt"),
        ({"every": 0.0}, "every is 0.0 ms; expected a multiple of dt"),
        ({"reduce": "sum"}, "reduce='sum'; expected min, max"),
        ({"reduce": "max", "every": 0.05}, "expected one of the two"),
        ({"reduce": "count"}, "threshold is None; expected a number"),
        ({"threshold": 1.0}, "threshold is 1.0; expected None"),
        ({"matrix": np.ones((2, 3))}, r"matrix has shape \(2, 3\); expected \(k, 2\)"),
        ({"matrix": [[1.0, np.nan]]}, r"matrix\[0, 1\] is nan"),
    ],
)
def test_what_cannot_be_kept_is_rejected(given, message):
    """In one line that names what is wrong."""
    net, _ = networks.simple_network()
    sim = Simulation(net, DT, engine="reference")
    with pytest.raises(InputError, match=message):
        sim.record("v", [0, 1], **given)
    assert not sim.run(0.1).values


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_of_no_steps(fast_queue, needs, engine):
    """Reductions of nothing: no value, no crossing, an integral of 0."""
    needs(fast_queue, "float64")
    net, _ = networks.simple_network()
    sim = Simulation(net, DT, queue=fast_queue, engine=engine)
    numbers = {name: sim.record("v", [0], reduce=name) for name in ("max", "mean", "integral")}
    count = sim.record("v", [0], reduce="count", threshold=0.0)
    result = sim.run(0.0)
    assert np.isnan(result[numbers["max"]]).all() and np.isnan(result[numbers["mean"]]).all()
    assert result[numbers["integral"]].tolist() == [0.0] and result[count].tolist() == [0]
    assert np.isfinite(sim.run(DT)[numbers["mean"]]).all()


def test_i_membrane_of_second_order_is_rejected():
    """The currents of its steps are others."""
    net, _ = networks.simple_network()
    sim = Simulation(net, DT, engine="reference", secondorder=True)
    with pytest.raises(InputError, match="expected secondorder=False"):
        sim.record("i_membrane", [0])


def test_currents_that_cannot_be_recorded_are_rejected():
    """Those of constants are not computed; instances once; crossings need a value before."""
    net, syn = networks.simple_network()
    passive = net.insert("pas", "soma", g=1e-4, e=-65.0)
    sim = Simulation(net, DT, engine="reference")
    with pytest.raises(InputError, match="current of pas has constants and v alone"):
        sim.record("i", passive)
    with pytest.raises(InputError, match="an instance of expsyn twice"):
        sim.record("i", syn, [0, 0])
    with pytest.raises(InputError, match="of a current; expected a voltage or a state"):
        sim.record("i", syn, reduce="count", threshold=0.0)


@pytest.mark.parametrize("engine", ENGINES)
def test_computed_records_follow_set(fast_queue, needs, engine, caplog):
    """After `set` those of electrodes and mechanisms are of the new values, without planning."""
    needs(fast_queue, "float64")
    caplog.set_level(logging.INFO, "clhines")
    found = []
    for amps in ([0.3], [0.1, 0.3]):
        net, syn = networks.simple_network()
        clamp = net.add("iclamp", at=net.soma[:1], delay=0.2, dur=5.0, amp=[amps[0]])
        sim = Simulation(net, DT, queue=fast_queue, engine=engine)
        numbers = [sim.record("i_membrane", net.soma), sim.record("i", clamp), sim.record("i", syn)]
        for amp in amps[1:]:
            sim.run(1.0)
            sim.set(clamp, amp=amp)
            sim.reset()
        result = sim.run(1.0)
        found.append([result[k] for k in numbers])
    assert engine == "reference" or not [m for m in caplog.messages if "planned again" in m]
    assert (found[0][1][20:] == -0.3).all()
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, 0, 1e-11)


def test_a_failed_run_has_no_reductions(fast_queue):
    """Its rows end before the failure; what is made of later ones too is not a number."""
    from clhines import SimulationError

    net = Network.from_arrays([-1], [0, 1], [100.0], [0.0], [1e-3])
    net.add("point x\ncurrent i = -exp(t*400) [nA]", at=0)
    sim = Simulation(net, DT, "float32", queue=fast_queue)
    rows = sim.record("v", [0])
    names = "mean", "max"
    kept = [sim.record("v", [0], reduce=name) for name in names]
    times = sim.record("v", [0], reduce="crossings", threshold=0.0)
    with pytest.raises(SimulationError) as raised:
        sim.run(2.0)
    result = raised.value.result
    assert 0 < len(result[rows]) < 80 and np.isfinite(result[rows]).all()
    assert all(np.isnan(result[k]).all() for k in kept)
    assert (result[times] <= result.t[-1]).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_go_to_files(fast_queue, needs, tmp_path, engine):
    """In two runs, several chunks: the rows that stay; a file that is there is not overwritten."""
    needs(fast_queue, "float64")
    net, syn = networks.mixed_network()
    sim = Simulation(net, DT, queue=fast_queue, engine=engine, chunk=10)
    whole = [sim.record("v", net.soma), sim.record("g", syn, every=3 * DT)]
    names = [tmp_path / "v.npz"]
    if importlib.util.find_spec("h5py"):
        names.append(tmp_path / "g.h5")
    files = [sim.record("v", net.soma, to=names[0])]
    files += [sim.record("g", syn, every=3 * DT, to=name) for name in names[1:]]
    runs = [sim.run(0.6), sim.run(0.35)]
    expected = [np.concatenate([run[k] for run in runs]) for k in whole]
    times = [np.concatenate([run.times[k] for run in runs]) for k in whole]
    assert all(run[k].shape[0] == len(run.times[k]) == 0 for run in runs for k in files)
    parts = [np.load(path) for path in sorted(tmp_path.glob("v-*.npz"))]
    assert len(parts) > 3
    np.testing.assert_array_equal(np.concatenate([p["values"] for p in parts]), expected[0])
    np.testing.assert_array_equal(np.concatenate([p["t"] for p in parts]), times[0])
    for name in names[1:]:
        import h5py

        with h5py.File(name) as file:
            np.testing.assert_array_equal(file["values"][:], expected[1])
            np.testing.assert_array_equal(file["t"][:], times[1])
    with pytest.raises(InputError, match="v-00000.npz is there already"):
        sim.record("v", net.soma, to=names[0])
    sim.record("v", net.soma, to=tmp_path / "new.npz")
    with pytest.raises(InputError, match="new.npz is of another record; expected another name"):
        sim.record("v", net.soma, to=tmp_path / "new.npz")
    (tmp_path / "later-00007.npz").touch()
    with pytest.raises(InputError, match="later-00007.npz is there already"):
        sim.record("v", net.soma, to=tmp_path / "later.npz")
    with pytest.raises(InputError, match="to: there is no folder .*nowhere; expected one"):
        sim.record("v", net.soma, to=tmp_path / "nowhere" / "v.npz")
    with pytest.raises(InputError, match="to is 'v.txt'; expected a name that ends in .npz"):
        sim.record("v", net.soma, to="v.txt")
    with pytest.raises(InputError, match="to is for rows"):
        sim.record("v", net.soma, to=tmp_path / "x.npz", reduce="max")


def test_expressions_and_constant_parameters_are_rejected():
    net = Network(networks.CABLES[0], 3)
    hh, leak = net.insert("hh", net.soma), net.insert("pas", g=1e-4)
    sim = Simulation(net, DT, engine="reference")
    for what, where in (("ina = gnabar*m^3*h*(v - 50)", hh), ("x = v", net.soma), ("=", leak)):
        with pytest.raises(InputError, match="is an expression; expected a name: record its var"):
            sim.record(what, where)
    said = "'gnabar' of hh is the same in all of a run; expected v, i, m, h, n"
    with pytest.raises(InputError, match=said):
        sim.record("gnabar", hh)
    with pytest.raises(InputError, match="'g' of pas is the same in all of a run; expected v$"):
        sim.record("g", leak)


def test_an_index_without_a_group_is_refused(fast_queue):
    net = Network.from_arrays([-1, 0, 1], [0, 3], [10.0] * 3, [0.01] * 3, [1e-4] * 3)
    net.add("iclamp", at=net.soma, amp=0.1)
    sim = Simulation(net, queue=fast_queue)
    for what in ("v", "i_membrane"):
        with pytest.raises(InputError, match=r"index is \[0\] for nodes; expected None"):
            sim.record(what, net.soma, index=[0])


FULL = """
import resource, sys
import numpy as np
from clhines import InputError
from clhines.simulator.records.records import RecordWriter

most = 200_000  # bytes of a file: as a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
stream, rows, said = RecordWriter(sys.argv[1]), 0, []
while len(said) < 2:  # and once more after the first error
    try:
        stream.append(rows + np.arange(100.0), np.full((100, 40), float(rows)))
        rows += 100
    except InputError as error:
        said.append(str(error))
print(rows, *said, sep="\\n")
"""


def test_a_full_disk_leaves_an_hdf5_file_that_can_be_read(tmp_path):
    """libhdf5 ended the process (segmentation fault) at its end, after a write that failed."""
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("resource")
    path = tmp_path / "x.h5"
    done = subprocess.run(
        [sys.executable, "-c", FULL, path], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    rows, *said = done.stdout.splitlines()
    assert said == [f"{path} cannot be written: File too large"] * 2
    with h5py.File(path) as file:
        assert file["t"][:].tolist() == list(range(int(rows)))
        assert file["values"].shape == (int(rows), 40)
    assert int(rows) > 0
    assert path.stat().st_size < 200_000


def test_a_result_has_the_records_made_before_its_run(fast_queue):
    net = Network.from_arrays([-1, 0, 1], [0, 3], [10.0] * 3, [0.01] * 3, [1e-4] * 3)
    net.add("iclamp", at=net.soma, amp=0.1)
    sim = Simulation(net, queue=fast_queue)
    none = sim.run(0.1)
    with pytest.raises(InputError, match=r"result\[0\]: the run has 0 records; expected a call of"):
        none[0]
    first = sim.record("v", net.soma)
    one = sim.run(0.1)
    later = sim.record("v", [1, 2])
    with pytest.raises(InputError, match=r"result\[1\]: the run has 1 record; expected 0 to 0: re"):
        one[later]
    with pytest.raises(InputError, match=r"result\[-2\]: the run has 1 record"):
        one[-2]
    assert one[-1] is one[first]
    assert [a.shape for a in one] == [(4, 1)]
    assert [a.shape for a in none] == []


@pytest.mark.parametrize("engine", ["steps", "epochs-cpu", "epochs-gpu"])
def test_currents_of_texts_where_events_act_at_exact_times(fast_queue, needs, engine):
    """Of instances that share vectors, and of some that do not: rows are those of `reference`."""
    needs(fast_queue, "float64")
    if engine == "epochs-cpu" and not devices.is_cpu(fast_queue.device):
        pytest.skip("for CPUs")
    found = []
    for name in ("reference", engine):
        net = Network.from_arrays([-1] * 9, range(10), [1e3] * 9, [0.0] * 9, [0.01] * 9)
        net.insert("hh")
        net.ion("ca")
        slow = net.insert("km_yamada", gbar=np.linspace(1e-4, 9e-4, 9))
        synapse = net.add("expsyn", net.soma[::2], tau=2.0)
        net.add_event(synapse, np.arange(5), time=np.arange(5) * 0.1, weight=0.01)
        sim = Simulation(net, DT, queue=fast_queue, engine=name)
        numbers = [sim.record("i", group) for group in (net.groups[0], slow, synapse)]
        result = sim.run(1.0)
        found.append([result[k] for k in numbers])
    for expected, rows in zip(*found, strict=True):
        assert (np.ptp(expected[:, 0]) > 0) and np.isfinite(expected).all()
        np.testing.assert_allclose(rows, expected, 0, 1e-11 * np.abs(expected).max())


def test_masks_say_where_is_recorded():
    """Of nodes and of instances, as in NumPy; of another shape they are refused."""
    net = Network.from_arrays([-1, 0, 1], [0, 3], [10.0] * 3, [0.01] * 3, [1e-4] * 3)
    group = net.insert("hh", [2, 0])
    sim = Simulation(net, engine="reference")
    pairs = [
        (sim.record("v", [False, True, True]), sim.record("v", [1, 2], name="nodes")),
        (sim.record("hh.m", np.arange(3) == 2, name="m"), sim.record("hh.m", [2], name="m2")),
        (sim.record("m", group, [False, True], name="1"), sim.record("m", group, 1, name="is 1")),
    ]
    result = sim.run(1.0)
    for masked, by_number in pairs:
        np.testing.assert_array_equal(result[masked], result[by_number])
        assert result[masked].std() > 0
    with pytest.raises(InputError, match=r"at is a mask of shape \(2,\); expected \(3,\)"):
        sim.record("v", [True, False])
    with pytest.raises(InputError, match=r"index is a mask of shape \(3,\); expected \(2,\)"):
        sim.record("m", group, [True, False, True])


def test_what_to_record_instead_is_told():
    net = Network.from_arrays([-1], [0, 1], [10.0], [0.0], [1e-4])
    clamp = net.add("iclamp", at=0)
    net.insert("pas")
    with pytest.raises(InputError, match="t of amp is empty; expected one time or more"):
        net.play(clamp, 0, "amp", [], [])
    sim = Simulation(net, engine="reference")
    with pytest.raises(InputError, match="the current of pas has constants and v alone; expected"):
        sim.record("pas.i", 0)
    with pytest.raises(InputError, match="'i' of nodes; expected 'v', 'i_membrane', a name as 'hh"):
        sim.record("i", 0)

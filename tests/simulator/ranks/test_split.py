"""A network on the ranks of MPI: the bits of one process, whatever the split; failures end all."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import exact_ranks
import mod_files
import numpy as np
import pytest
from mpi_runs import mpiexec, needs_mpi
from networks import CABLES, DT, dendrites_network, mixed_network, noisy_network, simple_network
from rank_program import busy_network, interrupted, not_finite, run_cases

from clhines import InputError, Network, Simulation
from clhines.cli import main
from clhines.simulator.cpu.vectors import CellEpochs
from clhines.simulator.engines import arena_run
from clhines.simulator.engines.arena_run import ArenaRun, EventList
from clhines.simulator.engines.cells_run import CellsRun
from clhines.simulator.engines.run import Job, Request
from clhines.simulator.engines.steps import Steps
from clhines.simulator.gpu.epochs import BlockEpochs
from clhines.simulator.model import compile
from clhines.simulator.model.model import Model
from clhines.simulator.network.ring import ring_cables, ring_network
from clhines.simulator.ranks import partition
from clhines.simulator.state.decisions import Decisions
from clhines.solver.device import arrays, copies
from clhines.solver.device.arrays import to_device
from clhines.solver.device.devices import limits

EXACT = Path(__file__).parents[2] / "support" / "exact_ranks.py"
PROGRAM = Path(__file__).with_name("rank_program.py")


# ------------------------------------------------------------------------- without MPI


def test_split_by_hand():
    np.testing.assert_array_equal(partition.split(np.ones(8), 4), [0, 2, 4, 6, 8])
    np.testing.assert_array_equal(partition.split(np.array([6.0, 1, 1, 1, 1, 2]), 2), [0, 1, 6])
    np.testing.assert_array_equal(partition.split(np.array([1.0, 1, 9, 1]), 4), [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(partition.split(np.array([100.0, 1, 1]), 2), [0, 1, 3])
    np.testing.assert_array_equal(partition.split(np.ones(5), 1), [0, 5])


@pytest.mark.parametrize("size", [2, 3, 7, 50])
def test_split_is_even(size):
    costs = np.random.default_rng(size).uniform(1, 9, 200)
    bounds = partition.split(costs, size)
    assert bounds[0] == 0
    assert bounds[-1] == 200
    assert (np.diff(bounds) >= 1).all()
    sums = np.add.reduceat(costs, bounds[:-1])
    assert sums.max() <= costs.sum() / size + costs.max()


def test_too_many_ranks():
    with pytest.raises(InputError, match="3 cells on 4 ranks; expected a cell for each"):
        partition.split(np.ones(3), 4)


def test_costs_count_states():
    net = Network(CABLES[:1], 2)
    net.insert("hh", "soma")
    net.insert("pas", "dendrites")
    costs = partition.cell_costs(compile(net))
    np.testing.assert_array_equal(costs, CABLES[0].num_nodes + 1 + 3 * 5)


def test_parts_make_up_the_whole():
    """Each number of a part stands for one of the network."""
    whole = compile(mixed_network()[0], DT, seed=7)
    bounds = partition.split(partition.cell_costs(whole), 3)
    shares = [partition.Share(whole, *bounds[[r, r + 1]].tolist()) for r in range(3)]
    parts = [share.model() for share in shares]
    for name in ("u", "capacitance", "constant_d", "threshold", "v_init"):
        joined = np.concatenate([getattr(p, name) for p in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name))
    for share, part in zip(shares, parts, strict=True):
        targets = share.targets
        assert part.num_targets == len(targets)
        np.testing.assert_array_equal(part.cell_of_target(), whole.cell_of_target()[targets])
        mine = share.on_grid
        np.testing.assert_array_equal(
            targets[part.connections.target], whole.connections.target[mine]
        )
        np.testing.assert_array_equal(part.connections.source, whole.connections.source[mine])
        for k, (kind, of) in enumerate(zip(part.kinds, whole.kinds, strict=True)):
            low, high = share.instances[k].start, share.instances[k].stop
            assert kind.mechanism == of.mechanism
            assert kind.first_instance == of.first_instance + low
            np.testing.assert_array_equal(kind.node + share.low, of.node[low:high])
            for p in of.mechanism.parameters:
                np.testing.assert_array_equal(kind.arrays()[p], of.arrays()[p][low:high])
    assert sum(len(p.events.step) for p in parts) == len(whole.events.step)


def test_a_state_cut_and_joined_is_the_same():
    for build in (mixed_network, busy_network):
        sim = Simulation(build()[0], DT, engine="reference", seed=7)
        sim.run(2.0)
        saved = sim.runner.save()
        for size in (1, 2, 5):
            bounds = partition.split(partition.cell_costs(sim.model), size).tolist()
            parts = [partition.Share(sim.model, *b) for b in pairwise(bounds)]
            cut = [part.cut(saved) for part in parts]
            joined = partition.join(parts, cut)
            assert set(joined) == set(saved)
            for name, values in saved.items():
                np.testing.assert_array_equal(joined[name], values, err_msg=name)


def uneven_network():
    """Only the last cells have what makes a difference: active dendrites, noise, larger trees."""
    net = Network([CABLES[0]] * 4 + [CABLES[2], CABLES[1]])
    last = net.forest.cell_offsets[4]
    nodes = np.flatnonzero(net.area > 0)
    net.insert("hh", np.union1d(net.soma, nodes[nodes >= last]))
    net.insert("pas", np.setdiff1d(nodes[nodes < last], net.soma))
    net.add("inoise", at=net.soma[[4, 5, 5]], mean=0.05, std=0.05)
    net.add("iclamp", at=net.soma[1::2], dur=5.0, amp=0.4)
    return net, None


def uneven_times():
    """As `uneven_network`, with ions, and instances that take events one by one.

    The last cells alone have several at a node, values that are played, and other potentials.
    """
    net = Network([CABLES[0]] * 4 + [CABLES[2], CABLES[1]])
    net.insert("hh", net.soma)
    for name in ("ext_cad", "ext_ca", "ext_kca"):
        net.insert(mod_files.ours(name), net.soma[4:])
    net.insert("pas", np.setdiff1d(np.flatnonzero(net.area > 0), net.soma))
    at = np.concatenate([net.soma[:5] + 1, net.soma[[5, 5, 5]] + 1])
    syn = net.add(mod_files.ours("ext_nmda"), at)
    clamp = net.add(mod_files.ours("ext_clamp"), net.soma[1::2])
    net.play(clamp, 2, "amp", [0, 0.5, 1.0], [0, 0.4, 0.2])
    times = [np.arange(0.2, 1.5, 0.3 + 0.1 * k) for k in range(len(at))]
    net.connect(net.spike_source(times), syn, np.arange(len(at)), [[0.01, 1.0]], 0.1)
    return net, None


def sized_network():
    """Small and large cells, which `BlockEpochs` plans apart on a small device."""
    cables = [*ring_cables(3, levels=5), *ring_cables(3, levels=3)]
    return ring_network([cables[k] for k in (0, 3, 1, 4, 2, 5)], 12, delay=0.5), None


@pytest.mark.parametrize(
    ("executor", "build", "dtype"),
    [
        ("sizes", sized_network, "float64"),
        ("cells", uneven_network, "float64"),
        ("cells", uneven_network, "float32"),
        ("cells", noisy_network, "float64"),
        ("blocks", uneven_network, "float64"),
        ("blocks", noisy_network, "float32"),
        ("blocks", dendrites_network, "float64"),
        ("lists", uneven_network, "float64"),
        ("lists", uneven_network, "float32"),
        ("lists", dendrites_network, "float64"),
        ("steps", uneven_network, "float32"),
        ("steps", dendrites_network, "float64"),
        ("cpu.blocks", uneven_times, "float64"),
        ("cpu.blocks", uneven_times, "float32"),
        ("gpu.arena_epochs", uneven_times, "float64"),
    ],
)
def test_a_cell_has_the_same_bits_in_any_part(fast_queue, needs, build, executor, dtype):
    """Voltages after some steps without a spike from elsewhere, on each engine."""
    needs(fast_queue, dtype)
    whole = compile(build()[0], DT, seed=7)
    cells = whole.forest.num_cells
    expected = voltages(whole, fast_queue, dtype, executor)
    assert np.ptp(expected[whole.soma]) > 1e-3
    several = build in (uneven_network, uneven_times)
    for bounds in ((0, 1), (1, cells)) if several else ((2, cells),):
        part = partition.Share(whole, *bounds).model()
        low, high = whole.forest.cell_offsets[list(bounds)]
        found = voltages(part, fast_queue, dtype, executor, Decisions.of(whole, split=True))
        np.testing.assert_array_equal(found, expected[low:high])


def voltages(model: Model, queue, dtype, executor, decisions=None):
    request = Request(None, queue, np.dtype(dtype), executor, 60, None, "auto", {})
    job = Job(model, request, decisions, True)
    if executor in ("blocks", "sizes", "lists"):
        room = limits(queue.device)
        apart, lists = executor == "sizes", True if executor == "lists" else None
        room = replace(room, compute_units=1) if apart else room
        make = partial(BlockEpochs, limits=room, by_node=lists)
        run = CellsRun(job, make)
        assert not lists or run.cells.launches[0].spec.by_node
        assert not apart or len(run.cells.launches) > 1
    elif "." in executor:
        run = import_module(f"clhines.simulator.{executor}").make(job)
    elif executor == "cells":
        run = CellsRun(job, CellEpochs)
    else:
        run = ArenaRun(job, Steps)
    run.begin(60, [])
    for first in range(0, 60, 20):
        run.advance(first, 20, first)
    return run.voltages()


def counted(patch, apart):
    """Whether each copy that follows blocks; where `apart`, as of memory of a device's own."""
    core, blocking = arrays.cl._cl, []

    def call(own, *given, **named):
        blocking.append(bool(named["is_blocking"]))
        return own(*given, **named)

    for name in ("_enqueue_read_buffer", "_enqueue_write_buffer"):
        patch.setattr(core, name, partial(call, getattr(core, name)))
    if apart:
        patch.setattr(copies, "fine_grained", lambda _: False)
    return blocking


@pytest.mark.parametrize("apart", [False, True])
def test_new_events_come_with_one_wait(fast_queue, needs, monkeypatch, apart):
    """Their number with as many as usual; a second wait for more, and for some after none."""
    needs(fast_queue, np.float64)
    blocking, rng = counted(monkeypatch, apart), np.random.default_rng(4)
    apart = apart or not copies.fine_grained(fast_queue.device)
    count = arrays.within_reach(fast_queue, (1,), np.dtype(np.int32))
    events = EventList(fast_queue, 400, np.dtype(np.float64), count)
    source, t = rng.integers(0, 9, 400), rng.uniform(0, 5, 400)
    for name, values in (("spike_source", source), ("spike_time", t)):
        array = events.arguments[name]
        arrays.set_soon(array, 0, values.astype(array.dtype), fast_queue)
    begin = 0
    for more, waits in ((0, 1), (63, 2), (64, 1), (65, 2), (128, 1), (80, 1)):  # from 65 on 128
        arrays.set_soon(count, 0, np.array([begin + more], np.int32), fast_queue)
        blocking.clear()
        *found, (values,) = events.new([(count, 0, 1)])
        assert values == [begin + more]
        assert sum(blocking) == (waits if apart else 0)
        for own, every in zip(found, (source, t), strict=True):
            np.testing.assert_array_equal(own, every[begin : begin + more])
        begin += more
    assert begin == events.capacity


def test_events_of_other_ranks_take_one_copy(fast_queue, needs, monkeypatch):
    """Rings by hand, in arrays that are kept: more than there was room for come last."""
    needs(fast_queue, np.float64)
    sizes, rng = np.array([3, 4, 5]), np.random.default_rng(5)
    rings, counts, fans = np.zeros(12), np.array([0, 3, 7]), [[1], [0, 2], []]
    regions = {
        "ring_first": [0, 3, 7], "ring_size": sizes, "event_count": counts, "event_live": counts,
        "fan": [1, 0, 2], "first_fan": [0, 1, 3, 3], "stale": [0, 0, 0],
    }  # fmt: skip
    ends = np.cumsum([len(values) for values in regions.values()])
    ints = SimpleNamespace(offset=dict(zip(regions, [0, *ends.tolist()], strict=False)))
    run = SimpleNamespace(
        queue=fast_queue,
        limits=limits(fast_queue.device),
        clock=to_device(fast_queue, rings, np.float64),
        ints=to_device(fast_queue, np.concatenate([*regions.values()]), np.int32),
        arenas={"clock": SimpleNamespace(offset={"ring": 0}), "ints": ints},
    )
    monkeypatch.setattr(arena_run, "_TAKEN_WORDS", 16)
    taking, stale = arena_run.Taking(run), np.zeros(3)
    blocking = counted(monkeypatch, False)
    for some, room in (([1], 16), ([0, 0, 1], 16), ([0, 0, 0, 1, 1, 1, 1, 2, 2], 32)):
        source, time = np.array(some), rng.uniform(0, 9, len(some))
        blocking.clear()
        taking.take(source, time)
        assert blocking == [False]
        assert len(taking._words) == room
        for s, t in zip(some, time, strict=True):
            rings[regions["ring_first"][s] + counts[s] % sizes[s]] = t
            counts[s] += 1
            stale[fans[s]] = 1
        found = dict(zip(regions, np.split(run.ints.get(fast_queue), ends[:-1]), strict=True))
        np.testing.assert_array_equal(run.clock.get(fast_queue), rings)
        for name, values in (("event_count", counts), ("event_live", counts), ("stale", stale)):
            np.testing.assert_array_equal(found[name], values)


def test_refusals(fast_queue):
    with pytest.raises(InputError, match="comm is int; expected one of mpi4py"):
        Simulation(simple_network()[0], DT, comm=3, queue=fast_queue)


@pytest.mark.parametrize("asked", ["--mpi", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"])
def test_without_mpi4py(monkeypatch, capsys, asked):
    """Under a launcher too: four processes that each simulate the whole would help nobody."""
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    more = [asked] if asked == "--mpi" else []
    if not more:
        monkeypatch.setenv(asked, "4")
    assert main.main(["simulate", "ring", "--cells", "2", *more]) == 2
    assert re.search(r"MPI needs mpi4py.*pip install '\.\[mpi\]'", capsys.readouterr().err)


# ---------------------------------------------------------------------------- with MPI


def test_a_process_without_mpi_says_its_own_error_alone():
    """As one of a launcher's that does not use MPI, whose others are no business of it."""
    command = [sys.executable, "-c", "import clhines; raise ValueError('own')"]
    said = {
        size: subprocess.run(
            command, capture_output=True, text=True, check=False,
            env={**os.environ, "PMI_SIZE": size},
        )
        for size in ("1", "2")
    }  # fmt: skip
    assert said["2"].stderr == said["1"].stderr
    assert said["2"].stderr.endswith("ValueError: own\n")
    assert said["2"].returncode == 1


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """What one process without MPI finds, and the folder with the states that it saved."""
    folder = tmp_path_factory.mktemp("ranks")
    return folder, run_cases(folder, 0)


@pytest.fixture(scope="module")
def ranks(one_process):
    """Run the cases on so many ranks, which go on from the states of one rank less."""
    done = {}

    def run(count):
        if count not in done:
            if count > 2:
                run(count - 1)
            done[count], _ = mpiexec(count, PROGRAM, "cases", one_process[0], count - 1)
        return done[count]

    return run


@pytest.mark.mpi
@needs_mpi
# 18 or 12, 12 or 6, 12 or 6 nodes per rank
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow), 4])
def test_networks_with_exact_times_have_the_same_bits_on_ranks(exact, count):
    """Events, pointers over ranks, artificial cells; a state saved by one process."""
    folder, expected = exact
    done, _ = mpiexec(count, EXACT, folder)
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / f"found{count}.json").read_text()) == expected
    for engine in ("steps", "epochs-cpu", "epochs-gpu"):
        assert expected[engine][1] == expected[engine][2] and expected[engine][3] > 20


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """What one process finds of a network with exact times, and where it has saved."""
    folder = tmp_path_factory.mktemp("exact")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLHINES_DEVICE", "cpu")  # one engine is for CPUs alone
        found = {engine: exact_ranks.found(folder, None, engine) for engine in exact_ranks.ENGINES}
        yield folder, found


def check_differing(texts):
    """Of two ranks: what differs is named by both, an error of one alone by its number."""
    first, second = texts
    said = first.pop(), second.pop()
    assert all("shift of nmbegun is " in x and "; expected one value" in x for x in said)
    expected = ["digest of the network", "dtype", "duration", None, "digest of what is recorded"]
    assert len(first) == len(second) == len(expected)
    for name, one, other in zip(expected, first, second):
        if name is None:
            assert one.startswith("RankError: rank 1: duration is 'x' ms")
            assert other.startswith("InputError: duration is 'x' ms")
        else:
            assert one == other
            assert one.startswith(f"InputError: {name} is ")
            assert one.endswith("on rank 0; expected the same on all ranks")


@pytest.mark.mpi
@needs_mpi
@pytest.mark.parametrize("count", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_the_same_bits_on_any_number_of_ranks(one_process, ranks, count):
    """Spikes, records, voltages, weights; going on from the state of another number of ranks."""
    folder, expected = one_process
    done = ranks(count)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / f"found{count}.json").read_text())
    assert expected["busy auto"]["count"] > 40
    assert expected["busy auto, later"]["count"] > 40
    assert expected["busy auto"]["weights"] != expected["busy auto, later"]["weights"]
    assert expected["rewarded"]["weights"] != expected["rewarded, later"]["weights"]
    names = [name for name in expected if name in found]
    assert len(names) >= 4
    for name in names:
        assert found[name] == expected[name], name
    if count == 2:
        assert found["not finite"] == not_finite(None)
        assert found["interrupted"] == interrupted(None)
        check_overflow(found["overflow"])
        check_differing(found["differing"])
    assert not list(folder.glob("*.part"))


@pytest.mark.mpi
@needs_mpi
@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("fails", "ValueError: the third epoch\nhas failed"),
        ("outside", "ValueError: somewhere else"),
        ("refused", "clhines.core.errors.InputError: num_cells is 0; expected a whole number"),
        ("killed", "signal 9"),
    ],
)
def test_a_failing_rank_ends_all(tmp_path, scenario, expected):
    done, seconds = mpiexec(2, PROGRAM, scenario, tmp_path)
    assert done.returncode != 0
    assert seconds < 30
    assert done.stderr.count(expected) + done.stdout.count(expected) == 1, done.stderr
    assert done.stderr.count("clhines: rank 1 of 2 stops all") == (scenario != "killed")


@pytest.mark.mpi
@needs_mpi
def test_ranks_that_call_different_methods_raise_and_go_on(tmp_path):
    """All pairs of methods, a new simulation, two objects, one that is closed: none hangs."""
    done, _ = mpiexec(2, PROGRAM, "pairs", tmp_path, seconds=300)
    assert done.returncode == 0, done.stderr
    (said, spikes), (other, own) = json.loads((tmp_path / "pairs.json").read_text())
    assert said == other and spikes == own == sorted(spikes) and spikes
    names = {
        "two objects": ("run() of object 1", "that of object 2"),
        "closed": ("run()", "run() of a closed simulation"),
    }
    for pair, text in said.items():
        first, second = names.get(pair) or (f"{name}()" for name in pair.split())
        assert text == (
            f"InputError: rank 0 calls {first} and rank 1 {second}; expected the same call on all "
            "ranks"
        ), pair
    assert len(said) == 92


def check_overflow(found):
    """One rank has too many spikes, the others say which one, or have too many as well."""
    assert "SpikeOverflowError" in [kind for kind, _ in found]
    for kind, message in found:
        assert "room for 4;" in message
        assert kind == "SpikeOverflowError" or re.match(r"rank \d: ", message)


def ring(*more):
    return "-m", "clhines.cli", "simulate", "ring", "--cells", "6", "--duration", "10", *more


@pytest.mark.mpi
@needs_mpi
def test_the_command_line(tmp_path):
    """Rank 0 writes and prints, once; the file is that of one process."""
    done, _ = mpiexec(2, *ring("--json", "--out", tmp_path / "two.npz"))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["ranks"] == 2
    assert 0 < report["exchange"] < 1
    words = [str(w) for w in ring("--json", "--out", tmp_path / "one.npz")[2:]]
    assert main.main(words) == 0
    one, two = (np.load(tmp_path / f"{name}.npz") for name in ("one", "two"))
    assert len(one["spike_time"])
    assert sorted(one) == sorted(two)
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


@pytest.mark.mpi
@needs_mpi
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            ["--out", "/nowhere/ring.npz"],
            "rank 0: --out /nowhere/ring.npz: cannot be written",
        ),
        (["--cells", "1"], "clhines: 1 cell on 2 ranks"),
        (["--bogus"], "unrecognized arguments: --bogus"),
    ],
)
def test_errors_are_told_once(more, expected):
    done, _ = mpiexec(2, *ring(*more))
    assert done.returncode == 2
    assert done.stderr.count(expected) == 1
    own = done.stderr.partition("-----")[0]  # Open MPI's launcher adds a block of its own
    assert len(own.strip().splitlines()) == 1
    assert not done.stdout

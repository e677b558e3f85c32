"""Threads in one process: locks, forks, errors that pickle, closed objects, constant memory."""

import copy
import gc
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from processes import output_of
from systems import dissimilar, make_system

import clhines
from bench.made import chain
from bench.ring import ring_cables, ring_network
from clhines import Forest, InputError, Simulation, Solver, solve_tridiagonal
from clhines.solver.device import devices, program
from clhines.solver.device.guard import Holder
from clhines.solver.device.program import MOST_CONTEXTS


def small_ring():
    return ring_network(ring_cables(2, levels=2), 3)


def in_threads(work, count=8):
    """Run ``work(k)`` in threads at the same time; return the exceptions raised."""
    raised = []

    def caught(k):
        try:
            work(k)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=caught, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


@pytest.mark.parametrize("sharing", ["solver", "factors", "queue"])
def test_several_threads_get_the_bits_of_one(fast_queue, sharing):
    forest = Forest.from_parents(dissimilar(60, least=20))
    systems = [make_system(forest, np.float32, seed=k) for k in range(4)]
    if sharing == "factors":
        systems = [systems[0], *(make_system(forest, np.float32, rows=k) for k in (1, 2, 5))]
        systems[1:] = [type(s)(forest, systems[0].d, systems[0].u, s.b) for s in systems[1:]]
    solver = Solver(forest, "fine", np.float32, queue=fast_queue)
    factors = solver.factor(systems[0].d, systems[0].u)

    def solve(system, with_solver):
        if sharing == "factors":
            return factors.solve(system.b)
        return with_solver.solve(**system.arrays)

    expected = [solve(system, solver) for system in systems]
    wrong = []

    def work(k):
        mine = (
            Solver(forest, "fine", np.float32, queue=fast_queue) if sharing == "queue" else solver
        )
        for turn in range(20):
            j = (k + turn) % 4
            wrong.extend([j] * (not np.array_equal(solve(systems[j], mine), expected[j])))

    assert in_threads(work) == []
    assert wrong == []


def test_several_threads_advance_one_simulation(fast_queue):
    one = Simulation(small_ring(), queue=fast_queue, dtype="float32")
    one.run(4.0)
    several = Simulation(small_ring(), queue=fast_queue, dtype="float32")
    assert in_threads(lambda _: several.run(0.5)) == []
    assert several.step == one.step
    assert np.array_equal(several.voltages(), one.voltages())


FORKED = """
import os, sys, time
import numpy as np
from clhines import DeviceError, Forest, Solver
forest, ones = Forest([-1, 0, 1]), np.ones(3, np.float32)
def solve(solver=None):
    return (solver or Solver(forest, dtype=np.float32)).solve(4 * ones, -ones, ones)
used = sys.argv[1]
solver = Solver(forest, dtype=np.float32) if used == "clhines" else None
if used == "pyopencl":
    import pyopencl
    pyopencl.create_some_context(interactive=False)
child = os.fork()
if child == 0:
    for known in (solver, None):
        try:
            found = f"solved {solve(known)[0]:.3f}"
        except DeviceError as error:
            found = str(error)
        print(found, flush=True)
    del solver, known
    os._exit(0)
until = time.monotonic() + 60
while os.waitpid(child, os.WNOHANG) == (0, 0):
    if time.monotonic() > until:
        os.kill(child, 9)
        sys.exit("the child hangs")
    time.sleep(0.05)
print(f"parent {solve(solver)[0]:.3f}")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork() here")
@pytest.mark.parametrize("used", ["nothing", "clhines", "pyopencl"])
def test_a_forked_process_is_refused_and_does_not_hang(fast_queue, used):
    if used == "pyopencl" and not Path("/proc/self/maps").exists():
        pytest.skip("who has loaded OpenCL can be seen on Linux only")
    place = [k for k, d in devices.all_devices() if d == fast_queue.device]
    environment = {"CLHINES_DEVICE": place[0], "PYOPENCL_CTX": place[0]}
    *child, parent = output_of("-c", FORKED, used, **environment).splitlines()
    assert parent == "parent 0.357"  # 5/14, by hand
    if used == "nothing":
        assert child == ["solved 0.357"] * 2
        return
    assert len(child) == 2
    for line in child:
        assert "was forked from process" in line
        assert line.endswith("multiprocessing.get_context('spawn')")


def resident_bytes():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def one_solver(queue):
    system = make_system(Forest(chain(30)), np.float32)
    Solver(system.forest, dtype=np.float32, device=queue.device).solve(**system.arrays)


def one_tridiagonal(queue):
    ones = np.ones((3, 20), np.float32)
    solve_tridiagonal(ones, 4 * ones, ones, ones, device=queue.device)


def one_simulation(queue):
    Simulation(one_simulation.network, device=queue.device, dtype="float32").run(0.1)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux says how much there is")
@pytest.mark.parametrize("call", [one_solver, one_tridiagonal, one_simulation])
def test_memory_stays_flat(fast_queue, call):
    """A call leaves less than 34 kB in memory; a leaked context would be 3.4 MiB."""
    one_simulation.network = small_ring()
    for _ in range(15):
        call(fast_queue)
    before, calls = resident_bytes(), 60
    for _ in range(calls):
        call(fast_queue)
    assert (resident_bytes() - before) / calls < 34e3


def test_a_device_has_one_context(fast_queue):
    forest = Forest(chain(3))
    one, two = (Solver(forest, dtype=np.float32, device=fast_queue.device) for _ in range(2))
    assert one.queue != two.queue
    assert one.queue.context == two.queue.context


def test_programs_of_contexts_that_callers_drop_are_dropped(fast_queue):
    forest = Forest(chain(3))
    contexts = [cl.Context([fast_queue.device]) for _ in range(MOST_CONTEXTS + 2)]
    queues = [cl.CommandQueue(context) for context in contexts]  # Intel's runtime keeps none
    solvers = [Solver(forest, dtype=np.float32, queue=queue) for queue in queues]
    kept = [len(program.kept(queue.context)) for queue in queues]
    assert kept[:2] == [0, 0]
    assert min(kept[2:]) > 0
    builds = len(program.build_seconds)
    Solver(forest, dtype=np.float32, queue=queues[-1])
    assert len(program.build_seconds) == builds  # the context is cached
    b = cla.to_device(queues[0], np.ones(3, np.float32))
    u, d = 0 * b, 1 + b  # dropped programs live on with their solvers
    assert (solvers[0].solve(d, u, b).get() == 0.5).all()


SMALL = """
import numpy as np
import pyopencl as cl
from clhines import METHODS, Forest, Simulation, Solver
from clhines.solver.device import devices
from clhines.solver import reference
from bench.made import chain
from bench.ring import ring_cables
from bench.ring import ring_network
from clhines.simulator.events.grid import ALGORITHMS
from clhines.solver.tune import random_system
(found,) = [d for _, d in devices.all_devices() if "Portable" in d.platform.name]
assert found.max_work_group_size == 16, found.max_work_group_size
queue = devices.make_queue(found)
forest = Forest.repeat([chain(50)], 7)
d, u, b = random_system(forest, np.float64, 0)
for method in METHODS:
    x = Solver(forest, method, queue=queue).solve(d, u, b)
    assert reference.residual(forest, d, u, b, x) < 1e-14, method
cables = ring_cables(2, levels=2)
network = ring_network(cables, 3)
truth = Simulation(network, engine="reference")
truth.run(8.0)
for engine in ("steps", "auto"):
    sim = Simulation(network, queue=queue, engine=engine)
    sim.record("v", [0, 1])
    spikes = sim.run(8.0).spike_time
    assert len(spikes) and np.abs(sim.voltages() - truth.voltages()).max() < 1e-6
print("all well")
"""


def test_devices_with_small_work_groups(fast_queue):
    """PoCL reports the limit that its environment sets, and refuses larger work-groups."""
    if "Portable" not in fast_queue.device.platform.name:
        pytest.skip("the limit of this device is what it is")
    flags = "-cl-opt-disable"  # in half the time
    environment = {"POCL_MAX_WORK_GROUP_SIZE": "16", "POCL_EXTRA_BUILD_FLAGS": flags}
    assert output_of("-c", SMALL, timeout=240, **environment) == "all well\n"


N = 4
D, U, B = np.full(N, 4.0), np.full(N, -1.0), np.arange(1.0, N + 1)


@pytest.fixture
def forest():
    return clhines.Forest.repeat([np.array([-1, 0, 1, 1])], 1)


def test_closed_tridiagonals_and_simulations(queue, needs):
    needs(queue, np.float64)
    with clhines.Tridiagonal([N], queue=queue) as systems:
        systems.solve(U[1:], D, U[1:], B)
    assert "closed" in repr(systems)
    with pytest.raises(InputError, match="closed"):
        systems.solve(U[1:], D, U[1:], B)
    net = clhines.Network(clhines.discretise(clhines.sample_cells()[0], nseg=1))
    net.insert("pas")
    for engine in ("reference", "auto"):
        options = {} if engine == "reference" else {"queue": queue}
        with clhines.Simulation(net, engine=engine, **options) as sim:
            sim.run(0.1)
        assert "closed" in repr(sim)
        for call in (lambda: sim.run(0.1), sim.voltages, lambda: sim.record("v", 0), sim.reset):
            with pytest.raises(InputError, match="the Simulation is closed"):
                call()


def test_what_holds_a_device_is_not_pickled(queue, needs, forest):
    needs(queue, np.float64)
    net = clhines.Network(clhines.discretise(clhines.sample_cells()[0], nseg=1))
    for held in (
        clhines.Solver(forest, queue=queue),
        clhines.Tridiagonal([N], queue=queue),
        clhines.Simulation(net, engine="reference"),
    ):
        assert isinstance(held, Holder)
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(InputError, match=f"a {type(held).__name__} holds a device"):
                copied(held)


def test_forests_and_plans_are_pickled(forest):
    ragged = clhines.Forest(np.array([-1, 0, -1, 2, 2]), np.array([0, 2, 5]))
    for one in (forest, ragged):
        unpickled = pickle.loads(pickle.dumps(one))
        assert np.array_equal(unpickled.parent, one.parent)
        assert np.array_equal(unpickled.cell_offsets, one.cell_offsets)
        for a in (unpickled.parent, unpickled.cell_offsets, unpickled.trees.parent):
            with pytest.raises(ValueError, match="read-only"):
                a[0] = 1
        for method in ("flat", "fine", "levels", "contraction"):
            plan = clhines.make_plan(one, method)
            again = pickle.loads(pickle.dumps(plan))
            assert [p.spec for p in again.parts] == [p.spec for p in plan.parts]
            assert np.array_equal(again.gather, plan.gather)

"""Populations by executors: the oracle is the same population in this process, bit for bit."""

import functools
import multiprocessing
import os
import pickle
from concurrent.futures import (
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from pathlib import Path

import mod_files
import numpy as np
import pytest
from mpi_runs import mpiexec, needs_mpi
from populations import PARAMETERS, PROTOCOLS, SETS, model

from clhines import InputError, Network, Population, SimulationError, discretise, sample_cells
from clhines.core.errors import ClhinesError
from clhines.simulator.population import shares
from clhines.solver.device import program

GIVEN = model(), PARAMETERS, PROTOCOLS
PROGRAM = str(Path(__file__).with_name("shares_program.py"))


@functools.cache
def here():
    return Population(*GIVEN).evaluate(SETS)


def assert_same(found, of=None, want=None):
    want = here() if want is None else want
    np.testing.assert_array_equal(found.v, want.v if of is None else want.v[of])
    if of is None:
        for name in ("t", "spike_set", "spike_protocol", "spike_time"):
            np.testing.assert_array_equal(getattr(found, name), getattr(want, name))


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as made:
        yield made


def builds():
    return len(program.build_seconds), shares._kept.name


def test_workers_of_a_pool(pool):
    many = Population(*GIVEN, executor=pool)
    assert_same(many.evaluate(SETS))
    assert_same(many.evaluate(SETS[::-1]), slice(None, None, -1))
    rows = np.zeros(0, int)
    for numbers, found in many.stream(SETS):
        assert_same(found, numbers)
        assert found.spike_set.max() < len(numbers)
        rows = np.append(rows, numbers)
    assert sorted(rows) == list(range(5))
    bad = SETS.copy()
    bad[3, 1] = 1e308
    with pytest.raises(SimulationError, match="^set 3 under step"):
        many.evaluate(bad)


def test_a_worker_plans_and_compiles_once():
    here()  # a model that was simulated is pickled with what was worked out of it
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as single:
        many = Population(*GIVEN, executor=single, batch=2)
        assert_same(many.evaluate(SETS))
        before = single.submit(builds).result()
        assert_same(many.evaluate(SETS))
        assert single.submit(builds).result() == before
        assert before[0] > 0


def test_features_and_streams_of_one_process():
    given = {"step": PROTOCOLS["step"]}
    whole = Population(model(), PARAMETERS, given, features=["spike_count", "peak_time"])
    want = whole.evaluate(SETS).features
    many = Population(
        model(), PARAMETERS, given, features=["spike_count", "peak_time"], batch=2,
        executor=ThreadPoolExecutor(2),
    )  # fmt: skip
    for found in (many.stream(SETS), whole.stream(SETS)):
        parts = dict((tuple(numbers), one.features) for numbers, one in found)
        for numbers, features in parts.items():
            rows = list(numbers)
            np.testing.assert_array_equal(features["spike_count"], want["spike_count"][rows])
            for k, n in enumerate(rows):
                assert np.array_equal(features["peak_time"][k], want["peak_time"][n])


class Fresh(Executor):
    """An executor that has a new worker for each share."""

    def submit(self, function, *arguments):
        with ThreadPoolExecutor(1) as worker:
            return worker.submit(function, *arguments)


def test_the_bits_of_a_set_depend_on_no_worker():
    """A share of fewer sets, of which vectors would be shorter, is simulated as the others are."""
    cell = Network(discretise(sample_cells()[0]))
    cell.insert("hh", "soma")
    cell.insert("pas", "dendrites", g=1e-4, e=-65.0)
    stimulus = {"stimuli": [{"amp": 0.5, "delay": 1.0, "dur": 3.0}]}
    given = (
        cell,
        {"gna": ("hh", "gnabar")},
        {"step": {"stop": 5.0, **stimulus}, "rest": {"stop": 3}},
    )
    sets = [[0.1], [0.12], [0.14]]
    want = Population(*given, batch=2).evaluate(sets)
    for make in Fresh, functools.partial(ThreadPoolExecutor, 1):
        many = Population(*given, executor=make(), batch=2)
        assert_same(many.evaluate(sets), want=want)
        assert_same(many.evaluate(sets[2:]), [2], want)


class Losing:
    """An executor that loses the first workers."""

    def __init__(self, pool, count, error=None):
        self.pool, self.left, self.error, self._max_workers = pool, count, error, 2

    def submit(self, function, *arguments):
        if not self.left:
            return self.pool.submit(function, *arguments)
        self.left -= 1
        if self.error is None:
            return self.pool.submit(os._exit, 1)
        future = Future()
        future.set_exception(self.error)
        return future


def test_the_share_of_a_lost_worker_is_simulated_by_another_one(pool):
    for error in (CancelledError(), ConnectionResetError()):
        losing = Losing(pool, 2, error)
        assert_same(Population(*GIVEN, executor=losing).evaluate(SETS))
        assert not losing.left
    with pytest.raises(ClhinesError, match="sets from 0 on: 3 workers were lost"):
        Population(*GIVEN, executor=Losing(pool, 100, CancelledError()), batch=5).evaluate(SETS)
    with pytest.raises(ValueError, match="what"):
        Population(*GIVEN, executor=Losing(pool, 1, ValueError("what"))).evaluate(SETS)


def test_shares_of_a_broken_pool_are_simulated_here():
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as broken:
        many = Population(*GIVEN, executor=Losing(broken, 1))
        with pytest.warns(RuntimeWarning, match="the executor is broken: sets from"):
            assert_same(many.evaluate(SETS))


def test_a_process_that_was_forked_says_so():
    here()
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as forked:
        with pytest.raises(ClhinesError, match="fork"):
            Population(*GIVEN, executor=forked).evaluate(SETS)


def test_workers_take_devices_in_turn():
    with ThreadPoolExecutor(3) as threads:
        claims = [*threads.map(lambda _: shares._claimed(), range(3))]
    numbers = [number for number, _ in claims]
    assert len(set(numbers)) == 3
    claims[1][1].close()
    again = shares._claimed()
    assert again[0] <= numbers[1] and again[0] not in (numbers[0], numbers[2])
    for _, file in (claims[0], claims[2], again):
        file.close()


def test_what_is_pickled_is_the_same_population():
    net = Network.from_arrays([-1, 0], [0, 2], [300.0, 300.0], [0.0, 1.0], [1e-3, 1e-3])
    net.insert(mod_files.ours("ext_ca"), [0, 1])
    net.insert(mod_files.ours("ext_cad"), [0, 1])
    given = {"gca": ("ext_ca", "gbar", [1])}, {"step": {"stop": 1.0, "stimuli": [{"amp": 0.1}]}}
    many = Population(net, *given, dt=0.05, record=1, v_init=-70.0)
    sets = [[1e-4], [2e-4]]
    again = pickle.loads(pickle.dumps(many))
    np.testing.assert_array_equal(again.evaluate(sets).v, many.evaluate(sets).v)
    with pytest.raises(TypeError, match="queue or comm cannot be pickled"):
        pickle.dumps(Population(*GIVEN, queue=object()))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"executor": 3}, "executor is 3; expected one with submit"),
        ({"executor": ThreadPoolExecutor}, "executor is <class .*expected one with submit"),
        ({"executor": ThreadPoolExecutor(1), "devices": ["cpu"]}, "expected one of them"),
        ({"executor": ThreadPoolExecutor(1), "queue": object()}, "expected one of them"),
    ],
)
def test_wrong_executors_are_refused(options, text):
    with pytest.raises(InputError, match=text):
        Population(*GIVEN, **options)


class Delaying:
    """As dask's client, whose futures are others."""

    def submit(self, function, *arguments):
        return functools.partial(function, *arguments)


def test_an_executor_of_other_futures_is_refused():
    many = Population(*GIVEN, executor=Delaying())
    with pytest.raises(InputError, match="gives functools.partial.*expected a concurrent.futures"):
        many.evaluate(SETS)


@pytest.mark.mpi
@needs_mpi
def test_workers_of_mpi(tmp_path):
    out = tmp_path / "found.npz"
    done, _ = mpiexec(3, "-m", "mpi4py.futures", PROGRAM, out)
    assert done.returncode == 0, done.stderr
    found = np.load(out)
    np.testing.assert_array_equal(found["v"], here().v)
    np.testing.assert_array_equal(found["spike_time"], here().spike_time)
    np.testing.assert_array_equal(found["reversed"], here().v[::-1])


def test_workers_of_dask(tmp_path):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
        ) as cluster,
        cluster.get_client() as client,
        client.get_executor() as executor,
    ):
        many = Population(*GIVEN, executor=executor)
        assert_same(many.evaluate(SETS))
        assert len(list(many.stream(SETS))) == 2  # a share for each worker
        lost = next(iter(client.nthreads()))
        client.run(os._exit, 1, workers=[lost], on_error="ignore", nanny=False)
        assert_same(many.evaluate(SETS))

"""Connections by rule: number, pairs, repeatability, refusals."""

import itertools

import numpy as np
import pytest
from networks import point_neurons

import clhines
from clhines import Drawn, Pairs
from clhines.core.errors import InputError
from clhines.simulator.model import compile
from clhines.simulator.model.connections import GridConnections, sums_of
from clhines.simulator.network import pairs as module
from clhines.simulator.network.groups import inside
from clhines.simulator.network.pairs import connected

SIGMAS = 5  # numbers of independent pairs stay within 5 standard deviations


def made(pairs, sources=300, targets=200, call=0, own=False):
    """Return each pair's source and target; with `own`, target t is in source t's cell."""
    cells = np.arange(sources), np.arange(targets) if own else np.full(targets, -1)
    source, target = connected(pairs, call, *cells)
    assert source.dtype == target.dtype == np.int32
    key = source * np.int64(targets) + target
    assert (np.diff(key) > 0).all()  # sorted, without duplicates
    assert len(key) == 0 or (target.min() >= 0 and target.max() < targets)
    return source, target


@pytest.mark.core
@pytest.mark.parametrize("own", [False, True])
def test_all_and_one_to_one(own):
    source, _ = made(Pairs.all_to_all(autapses=not own), own=own)
    assert len(source) == 300 * 200 - 200 * own
    source, target = made(Pairs.one_to_one(), 200, 200)
    assert np.array_equal(source, np.arange(200)) and np.array_equal(target, source)


@pytest.mark.core
@pytest.mark.parametrize("p", [0.0, 1e-300, 0.003, 0.4, 0.97, 1.0])
@pytest.mark.parametrize("own", [False, True])
def test_bernoulli(p, own):
    source, target = made(Pairs.bernoulli(p, seed=3, autapses=not own), 3000, 2000, own=own)
    total = 3000 * 2000 - 2000 * own
    assert abs(len(source) - p * total) <= SIGMAS * np.sqrt(p * (1 - p) * total)
    for which, count, each in ((source, 3000, 2000), (target, 2000, 3000)):
        degree = np.bincount(which, minlength=count)
        spread = np.sqrt(p * (1 - p) * each)
        assert (abs(degree - p * each) <= (SIGMAS + 1) * spread + own * p).all()
    assert not own or not (source == target).any()


@pytest.mark.core
@pytest.mark.parametrize("number", [0, 1, 7, 99, 150, 199])
@pytest.mark.parametrize("own", [False, True])
def test_fixed_degrees(number, own):
    source, _ = made(Pairs.fixed_outdegree(number, seed=1, autapses=not own), own=own)
    assert np.array_equal(np.bincount(source, minlength=300), np.full(300, number))
    source, target = made(Pairs.fixed_indegree(number, seed=1, autapses=not own), own=own)
    assert np.array_equal(np.bincount(target, minlength=200), np.full(200, number))
    assert not own or not (source == target).any()
    p, total = number / (300 - own), 200  # all sources are drawn equally often
    degree = np.bincount(source, minlength=300)
    assert (abs(degree - p * total) <= (SIGMAS + 1) * np.sqrt(p * (1 - p) * total) + own).all()


@pytest.mark.parametrize("number", [2, 3])  # drawn by rejection, and by sorting
def test_sets_are_equally_likely(number):
    _, target = made(Pairs.fixed_outdegree(number, seed=5), 10_000, 5)
    sets = [tuple(row) for row in target.reshape(-1, number).tolist()]
    counts = [sets.count(one) for one in itertools.combinations(range(5), number)]
    assert sum(counts) == 10_000
    assert (abs(np.array(counts) - 1000) <= SIGMAS * np.sqrt(1000 * 0.9)).all()


@pytest.mark.core
def test_by_distance():
    rng = np.random.default_rng(0)
    at = rng.uniform(0, 1000, (1000, 2)), rng.uniform(0, 1000, (800, 2))
    pairs = Pairs.by_distance(lambda d: 0.3 * np.exp(-d / 200), *at, most=0.3, seed=2)
    source, target = made(pairs, 1000, 800)
    every = np.sqrt(((at[0][:, None] - at[1]) ** 2).sum(axis=2))
    bins = np.arange(0, 1500, 100)
    result = np.histogram(every[source, target], bins)[0]
    p = 0.3 * np.exp(-every / 200)
    mean, variance = (np.histogram(every, bins, weights=w)[0] for w in (p, p * (1 - p)))
    assert (abs(result - mean) <= SIGMAS * np.sqrt(variance) + 1e-9).all()
    line = Pairs.by_distance(lambda d: d < 1.5, np.arange(20), np.arange(20), autapses=False)
    source, target = made(line, 20, 20, own=True)
    assert len(source) == 38 and (abs(source - target) == 1).all()


RANDOM = [Pairs.bernoulli(0.3, 7), Pairs.fixed_indegree(60, 7), Pairs.fixed_outdegree(60, 7)]


@pytest.mark.parametrize("pairs", RANDOM, ids=lambda pairs: pairs.rule)
def test_blocks_are_made_alone(pairs, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 1000)
    result = made(pairs)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 1)
    assert all(map(np.array_equal, result, made(pairs)))
    rows = module._PairRows(pairs, 0, np.arange(300), np.full(200, -1))
    parts, size = rows.made(), int(1000 / rows.expected)
    assert len(parts) == 19
    assert all(map(np.array_equal, rows._block(size, 7 * size), parts[7]))
    others = made(pairs, call=1), made(Pairs(pairs.rule, pairs.number, 8))
    assert not any(np.array_equal(result[1], other[1]) for other in others)


@pytest.mark.core
def test_drawn_values():
    source, target = made(Pairs.bernoulli(0.5), 1000, 600)
    m = len(source)
    for drawn, mean, sd in (
        (Drawn.uniform(2, 5), 3.5, 3 / np.sqrt(12)),
        (Drawn.normal(1, 0.5), 1.0, 0.5),
        (Drawn.lognormal(0, 0.5), np.exp(0.125), np.sqrt(np.expm1(0.25) * np.exp(0.25))),
        (Drawn.exponential(3), 3.0, 3.0),
    ):
        values = drawn.of_pairs((1, 2, 3), source, target)
        assert abs(values.mean() - mean) <= SIGMAS * sd / np.sqrt(m)
        fourth = ((values - mean) ** 4).mean()  # the variance's own standard error
        assert abs(values.var() - sd**2) <= SIGMAS * np.sqrt(fourth / m)
        some = np.random.default_rng(0).permutation(m)[:100]  # a pair's value is independent
        assert np.array_equal(drawn.of_pairs((1, 2, 3), source[some], target[some]), values[some])
        assert not np.isin(drawn.of_pairs((1, 2, 4), source, target), values).any()
    values = Drawn.normal(0, 1, low=0.5, high=2).of_pairs((0,), source, target)
    assert values.min() >= 0.5 and values.max() <= 2 and len(np.unique(values)) > 0.99 * m


def network(count=60):
    """Return point neurons that spike by themselves, without connections, and their synapses."""
    net = point_neurons(count)
    return net, net.add("expsyn", at=net.soma, tau=5.0, e=0.0)


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs-cpu", "epochs-gpu"])
@pytest.mark.parametrize("delay", [0.3, Drawn.uniform(0.2, 2.0)], ids=["one", "drawn"])
def test_as_a_list_on_every_engine(engine, delay):
    net, synapses = network()
    weight = Drawn.normal(0.01, 0.004, low=0)
    net.connect(np.arange(10, 40), synapses, Pairs.bernoulli(0.3, seed=4), weight, delay)
    net.connect(np.arange(10), synapses, Pairs.fixed_indegree(3), 0.002, 0.1)
    other, same = network()
    for source, _, index, rows, delays, _ in inside(net).wiring.calls:
        order = np.random.default_rng(1).permutation(len(source))  # an order that no rule produces
        columns = (a[order] for a in (source, index, rows, delays))
        inside(other).connect(next(columns), same, *columns, None)
    v_init = np.random.default_rng(2).uniform(-60, -50, 60)
    options = {"dt": 0.1, "v_init": v_init, "dtype": "float64"}
    result = clhines.Simulation(net, engine=engine, **options).run(60.0)
    expected = clhines.Simulation(other, engine="reference", **options).run(60.0)
    assert len(expected.spike_time) > 100
    assert np.array_equal(result.spike_time, expected.spike_time)
    assert np.array_equal(result.spike_cell, expected.spike_cell)


def test_saved_and_kept_once(tmp_path):
    net, synapses = network()
    net.connect(np.arange(60), synapses, Pairs.bernoulli(0.2), 0.01, 0.5)
    net.save(tmp_path / "net.npz")
    again = compile(clhines.Network.load(tmp_path / "net.npz"), dt=0.1).connections
    result = compile(net, dt=0.1).connections
    assert result.is_sorted and result.weight.strides == result.delay.strides == (0,)
    for name in ("source", "target", "weight", "delay", "order"):
        assert np.array_equal(getattr(result, name), getattr(again, name))


@pytest.mark.parametrize("delays", [1, 40, 70_000])
def test_order_by_delay(delays):
    rng = np.random.default_rng(0)
    source, target = made(Pairs.bernoulli(0.3), 500, 40)
    delay = rng.integers(1, delays + 1, len(source))
    for shuffled in (np.arange(len(source)), rng.permutation(len(source))):
        c = GridConnections(source[shuffled], target[shuffled], 1.0, delay[shuffled], 600, 40)
        assert np.array_equal(c.order, np.lexsort((c.target, c.delay, c.source)))
        assert np.array_equal(c.by_rows(c.delay), c.delay[c.order])


def test_sums_in_chunks(monkeypatch):
    monkeypatch.setattr("clhines.simulator.model.connections._CHUNK", 10)
    key, values = np.random.default_rng(0).integers(0, 30, 999), np.arange(999.0)
    assert np.array_equal(sums_of(key, values, 30), np.bincount(key, values, 30))
    assert np.array_equal(sums_of(key, np.broadcast_to(0.5, 999), 30), 0.5 * np.bincount(key))


ALL = np.arange(60)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pairs("some"), "rule='some'"),
        (lambda: Pairs("by_distance"), "rule is by_distance"),
        (lambda: Pairs.bernoulli(1.5), "p is 1.5; expected 0 to 1"),
        (lambda: Pairs.fixed_indegree(-1), "number is -1"),
        (lambda: Pairs.by_distance(3, ALL, ALL), "p is int; expected a function"),
        (lambda: Pairs.by_distance(abs, ALL, np.zeros((60, 2))), "source_at has 1 dimensions"),
        (lambda: Pairs.bernoulli(0.5, autapses=1), "autapses is 1"),
        (lambda: Drawn.normal(0, -1), "sd is -1; expected 0 or more"),
        (lambda: Drawn.uniform(2, 1), "low is 2.0, high 1.0"),
        (lambda: Drawn("beta", 1.0), "distribution='beta'"),
    ],
)
def test_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("index", "more", "message"),
    [
        (Pairs.fixed_indegree(60, autapses=False), {}, "number is 60; expected at most 59, the s"),
        (Pairs.fixed_outdegree(61), {}, "number is 61; expected at most 60, the targets"),
        (Pairs.one_to_one(), {"source": np.arange(5)}, "5 sources and 60 targets"),
        (Pairs.by_distance(lambda d: 2 + d, ALL, ALL), {}, "p returns 61; expected 0 to 1"),
        (Pairs.by_distance(lambda d: d[:2], ALL, ALL), {}, r"p returns shape \(2,\)"),
        (Pairs.by_distance(abs, ALL[:4], ALL), {}, "source_at has 4 positions for 60 sources"),
        (Pairs.bernoulli(0.5), {"weight": np.ones(60)}, "weight has 60 values beside Pairs"),
        (Pairs.bernoulli(0.5), {"delay": np.ones(60)}, "delay has 60 values beside Pairs"),
        (Pairs.bernoulli(0.5), {"delay": Drawn.normal(0, 1)}, "expected above 0"),
        (Pairs.bernoulli(0.5), {"weight": Drawn.normal(0, 1, 60, 61)}, "nothing is drawn within"),
        (ALL, {"weight": Drawn.uniform(0, 1)}, "weight is Drawn; expected numbers"),
    ],
)
def test_refused_by_connect(index, more, message):
    net, synapses = network()
    with pytest.raises(InputError, match=message):
        net.connect(**{"source": ALL, "target": synapses, "index": index, **more})

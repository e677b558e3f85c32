"""Reductions of recorded values, against NumPy on all rows."""

import math

import networks
import numpy as np
import pytest

from clhines import InputError, Network, Simulation, SimulationError
from clhines.simulator.records import records
from clhines.simulator.records.membrane import Membrane
from clhines.simulator.records.reduced import ReducedSpec

DT = 0.025


def matrix(nodes):
    return np.random.default_rng(4).normal(size=(COMBINATIONS, nodes))


@pytest.mark.parametrize(
    ("engine", "dtype"),
    [
        ("reference", "float64"), ("steps", "float32"), ("epochs", "float64"),
        ("epochs", "float32"), ("epochs-gpu", "float64"),
    ],
)  # fmt: skip
def test_kept_values_are_those_of_all_rows(typed_queue, monkeypatch, engine, dtype):
    net, syn = networks.mixed_network()
    nodes = np.arange(len(net.area))[::3]
    sim = Simulation(net, DT, dtype, queue=typed_queue, engine=engine)
    rows = {what: sim.record(what, nodes) for what in ("v", "i_membrane")}
    rows["g"] = sim.record("g", syn)
    kept = {what: asked(sim, what, nodes, 0.01 if what != "v" else THRESHOLD)
            for what in ("v", "i_membrane")}  # fmt: skip
    most = sim.record("g", syn, reduce="max")
    membrane = Membrane(sim.runner.model, nodes)
    around = sim.record("v", membrane.sampled)
    result = sim.run(TIMES)
    assert np.array_equal(result[most], result[rows["g"]][1:].max(axis=0))
    for what, numbers in kept.items():
        values = {name: result[number] for name, number in numbers.items()}
        every = result[rows[what]]
        exact = every.astype(np.float64)
        threshold = np.dtype(dtype).type(0.01 if what != "v" else THRESHOLD)
        crossed = (every[:-1] < threshold) & (threshold <= every[1:])
        eps = np.finfo(dtype).eps
        assert np.array_equal(values["min"], every[1:].min(axis=0))
        assert np.array_equal(values["max"], every[1:].max(axis=0))
        # one rounding each: the sum, its compensation, and the quotient or product
        bound = 4 * eps * np.abs(exact[1:]).sum(axis=0)
        total = np.array([math.fsum(column) for column in exact[1:].T])
        assert (np.abs(values["mean"] * len(crossed) - total) <= bound).all()
        assert (np.abs(values["integral"] / DT - total) <= bound).all()
        assert crossed.any()
        assert np.array_equal(values["count"], crossed.sum(axis=0))
        for k, times in enumerate(values["crossings"].T):
            at = result.t[1:][crossed[:, k]]
            assert np.array_equal(times[: len(at)], at) and np.isnan(times[len(at) :]).all()
        assert np.array_equal(values["every"], every[::EVERY])
        assert np.allclose(result.times[numbers["every"]], result.t[::EVERY], 0, 1e-12)
        # roundings of weights, products and the sum, and NumPy's roundings of sums
        weights, exact = matrix(len(nodes)), exact[::EVERY]
        roundings = 3 * eps + len(nodes) * np.finfo(float).eps
        bound = roundings * np.abs(exact) @ np.abs(weights.T)
        if what == "i_membrane" and engine != "reference":  # products with voltages, in float64
            folded = np.abs(membrane.folded(weights)[0])
            terms = len(membrane.sampled) + 8  # the weight is rounded less than 8 times
            bound += terms * np.finfo(float).eps * np.abs(result[around][::EVERY]) @ folded.T
        assert (np.abs(values["matrix"] - exact @ weights.T) <= bound).all()
    cut = Simulation(net, DT, dtype, queue=typed_queue, engine=engine, chunk=57)
    numbers = asked(cut, "i_membrane", nodes, 0.01)
    cut.record("v", nodes)  # else rows have all voltages, and sums are in another order
    again = cut.run(TIMES)
    assert all(
        np.array_equal(again[numbers[name]], result[number], equal_nan=True)
        for name, number in kept["i_membrane"].items()
    )
    monkeypatch.setattr(records, "ROOM", 100_000)  # chunks of about 30 steps
    twice = Simulation(net, DT, dtype, queue=typed_queue, engine=engine)
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


@pytest.mark.parametrize("form", [("float",), ("double", 4, 8), ("double", 2, 3)])
def test_combinations_of_every_form(double_queue, monkeypatch, form):
    spec = ReducedSpec("float", *form, part=7)
    monkeypatch.setattr(ReducedSpec, "on", lambda device, dtype: spec)
    net, _ = networks.mixed_network()
    nodes = np.arange(len(net.area))[::3]
    sim = Simulation(net, DT, "float32", queue=double_queue)
    rows, kept = sim.record("v", nodes), sim.record("v", nodes, matrix=matrix(len(nodes)))
    result = sim.run(2.0)
    exact, weights = result[rows].astype(np.float64), matrix(len(nodes)).astype(np.float32)
    # roundings: float32 products, compensations of parts, the sum
    bound = 4 * np.finfo(np.float32).eps * np.abs(exact) @ np.abs(weights.T.astype(float))
    assert (np.abs(result[kept] - exact @ weights.T.astype(float)) <= bound).all()
    assert len(nodes) > 14 and len(exact) % 8


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
    net, _ = networks.simple_network()
    sim = Simulation(net, DT, engine="reference")
    with pytest.raises(InputError, match=message):
        sim.record("v", [0, 1], **given)
    assert not sim.run(0.1).values


def test_a_failed_run_has_no_reductions(fast_queue):
    """Rows end before the failure; reductions over later rows are not a number."""
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


EVERY = 4  # steps


TIMES, COMBINATIONS, THRESHOLD = 6.0, 3, -20.0


def asked(sim, what, nodes, threshold):
    """Return the numbers of a variable's reductions, by name."""
    numbers = {r: sim.record(what, nodes, reduce=r) for r in ("min", "max", "mean", "integral")}
    for name in ("count", "crossings"):
        numbers[name] = sim.record(what, nodes, reduce=name, threshold=threshold)
    numbers["every"] = sim.record(what, nodes, every=EVERY * DT)
    combined = {"matrix": matrix(len(nodes)), "every": EVERY * DT}
    return {**numbers, "matrix": sim.record(what, nodes, **combined)}


def test_weights_of_a_matrix_instruction():
    """Find each weight where reduced.mako reads it: lane 4 g + t has terms 2 t and 2 t + 1."""
    width, terms = 19, 21
    spec = ReducedSpec("double", "double", 32, 16, ptx=True)
    weights = np.random.default_rng(4).normal(size=(width, terms))
    arranged = np.ascontiguousarray(spec.arranged(weights)).reshape(-1)
    padded = width + -width % 16
    found = np.zeros((padded, terms + -terms % 8))
    for j, k in np.ndindex(*found.shape):
        eight, t, second, block, half, g = k // 8, k % 8 // 2, k % 2, j // 16, j % 16 // 8, j % 8
        pair = eight * 4 * padded + 64 * block + 32 * second + 4 * g + t
        found[j, k] = arranged[2 * pair + half]
    np.testing.assert_array_equal(found[:width, :terms], weights)
    assert arranged.size == found.size and not found[width:].any() and not found[:, terms:].any()
    assert not spec.arranged(weights[:, :0]).size  # no current electrodes

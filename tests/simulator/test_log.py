"""The logger `clhines` reports choices with reasons; it is silent without a handler."""

import logging
import re

import pytest
from processes import run_python

import clhines
from bench.made import chain
from bench.ring import ring_cables, ring_network
from clhines.solver.device import devices, program


@pytest.fixture
def said(caplog):
    """Return a function that returns the logged lines and clears the log."""
    caplog.set_level(logging.INFO, "clhines")

    def lines():
        messages = [record.getMessage() for record in caplog.records]
        assert all(record.name.startswith("clhines.") for record in caplog.records)
        caplog.clear()
        return messages

    return lines


def one(lines, start):
    (match,) = [line for line in lines if line.startswith(start)]
    return match


@pytest.fixture
def forest():
    return clhines.Forest.from_parents([chain(70) for _ in range(9)])


def test_a_solver_says_device_method_engine_and_build(said, forest, fast_queue):
    program.forget()
    solver = clhines.Solver(forest, queue=fast_queue)
    lines = said()
    assert one(lines, "method").startswith(f"method {solver.plan.method} (auto, by the cost model)")
    assert re.search(r"engine whole: [\d.]+ [KM]iB on the device", one(lines, "engine whole"))
    assert forest_built(lines)
    clhines.Solver(forest, queue=fast_queue)
    assert not forest_built(said())  # built earlier
    clhines.Solver(forest, "flat", queue=fast_queue)
    assert one(said(), "method").startswith("method flat (as given)")


def forest_built(lines):
    return [
        line for line in lines if re.match(r"built kernel solver/by_\w+/\w+ in \d+\.\d{3} s", line)
    ]


def test_the_device_is_named_with_its_reason(said, monkeypatch):
    monkeypatch.delenv("PYOPENCL_CTX", raising=False)
    monkeypatch.delenv("CLHINES_DEVICE", raising=False)
    index, device = devices.all_devices()[0]
    devices.choose(index, "float32")
    assert said() == [f"device {devices.label(device)} (device={index})"]
    monkeypatch.setenv("CLHINES_DEVICE", index)
    devices.choose(None, "float32")
    assert said() == [f"device {devices.label(device)} (CLHINES_DEVICE={index})"]


def test_measured_candidates(said, forest, fast_queue):
    found = clhines.Solver(forest, queue=fast_queue, tune="measure").tuning
    lines = said()
    assert len([line for line in lines if line.startswith("measured ")]) == len(found.rows)
    assert f"(auto, measured: {found.best})" in one(lines, "method")


@pytest.mark.parametrize("engine", ["auto", "steps", "reference"])
def test_a_simulation_says_its_engine_and_delivery(said, fast_queue, engine):
    net = ring_network(ring_cables(2), 4)
    sim = clhines.Simulation(net, dt=0.025, queue=fast_queue, engine=engine)
    lines = said()
    assert [s for s in lines if s.startswith(f"engine {sim.engine} (")]
    assert any(s.startswith("spikes are delivered by ") for s in lines) == (engine != "reference")


def test_it_is_silent_by_default():
    """In a separate process without handlers, both streams stay empty."""
    code = (
        "import numpy as np, clhines\n"
        "f = clhines.Forest(np.arange(-1, 9))\n"
        "clhines.Solver(f).solve(np.full(10, 4.0), np.full(10, -1.0), np.ones(10))\n"
    )
    done = run_python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

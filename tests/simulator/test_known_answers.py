"""Self-tests for engines: right answers, faults, and choosing another engine."""
# ruff: noqa: F811

import numpy as np
import pytest
from trust_stub import _checked, stub  # noqa: F401

from clhines import DeviceError, Simulation, Solver
from clhines.cli import doctor
from clhines.simulator import known_answers
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.solver.device import devices, trust


def network():
    return known_answers._cells(Mechanism(known_answers._CHANNEL))


def family_of(queue):
    return "blocks" if devices.is_cpu(queue.device) else "epochs"


def test_steps_where_epochs_are_wrong(stub, fast_queue):
    wrong = family_of(fast_queue)
    started = stub(lambda family, width: "wrong" if wrong in family else "right")
    assert Simulation(network(), queue=fast_queue).engine == "steps"
    assert Simulation(network(), queue=fast_queue).engine == "steps"
    assert {family for family, *_ in started} == {wrong, "steps", "solve"}
    with pytest.raises(DeviceError, match="channels from texts.*, by epochs on"):
        Simulation(network(), queue=fast_queue, engine="epochs")


def test_two_engines_in_one_process(stub, fast_queue):
    wrong = f"{family_of(fast_queue)}+steps"
    started = stub(lambda family, width: "wrong" if family == wrong else "right")
    both = "by epochs on .PUs, then channels from texts and NMODL, by steps"
    Simulation(network(), queue=fast_queue, engine="epochs")
    with pytest.raises(DeviceError, match=both):
        Simulation(network(), queue=fast_queue, engine="steps")
    trust.forget()
    assert Simulation(network(), queue=fast_queue, engine="steps").engine == "steps"
    assert "steps" in {family for family, *_ in started}


def test_the_doctor_tells(stub, fast_queue):
    stub(lambda family, width: {"solve": "wrong", "steps": "crash"}.get(family, "right"), (32, 8))
    told = {f.what: f for f in doctor.answers()}
    of = [next(f for w, f in told.items() if trust.title(n) + "," in w) for n in ("solve", "steps")]
    assert not any(f.good for f in of) and "7 mV off" in of[0].what and "a crash" in of[1].what
    assert all("install another version" in f.advice for f in of)
    assert any(f.good and "by epochs" in w for w, f in told.items())
    stub(lambda family, width: "wrong" if width == 32 else "right", (32, 8))
    assert all("vectors have 8 bytes there" in f.advice for f in doctor.answers())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("family", known_answers.PROBLEMS)
def test_problems_are_solved_and_faults_seen(fast_queue, needs, monkeypatch, family, dtype):
    needs(fast_queue, np.float64 if trust.self_test(family).needs_float64 else dtype)
    monkeypatch.setenv(trust.SWITCH, "1")
    if family == "blocks" and not devices.is_cpu(fast_queue.device):
        family = "epochs"
    problem = known_answers.PROBLEMS[family]
    assert problem(fast_queue, np.dtype(dtype)) == ""
    real, off = (Solver.solve, Simulation.voltages), 1 + 1e3 * np.finfo(dtype).eps * 64
    monkeypatch.setattr(Solver, "solve", lambda *args: real[0](*args) * np.dtype(dtype).type(off))

    def voltages(sim):
        return real[1](sim) * (1 if sim.engine == "reference" else np.dtype(dtype).type(off))

    monkeypatch.setattr(Simulation, "voltages", voltages)
    assert "from the reference" in problem(fast_queue, np.dtype(dtype))

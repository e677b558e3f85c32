"""Run the checks against NEURON in small sizes, and show that they can fail."""

import json
import shutil
from dataclasses import replace

import mod_files
import numpy as np
import pytest
from real_cells import FOLDER, needs_folder

from bench import MissingError
from bench.measures.checks import cells, command, common, hodgkin_huxley, kinetics, networks
from clhines.solver.device import devices

pytestmark = pytest.mark.neuron


@pytest.fixture
def settings(double_queue):
    """Small sizes; the checks derive their bounds."""
    return common.Settings(double_queue, seeds=3, duration=150.0, engines=("epochs", "reference"))


@pytest.fixture
def compiled():
    if shutil.which("c++") is None:
        pytest.skip("needs a C++ compiler")
    mod_files.loaded()


def assert_passed(outcomes):
    assert outcomes
    wrong = [text for o in outcomes for text in o.failures]
    assert not wrong, "\n".join(wrong)
    assert all(o.cases > 0 and not o.skipped for o in outcomes)


def test_random_networks(settings):
    outcomes = networks.networks(settings)
    assert_passed(outcomes)
    assert outcomes[0].figures["spikes in NEURON"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in command.CHECKS if name != "cells"])
def test_whole_checks(double_queue, compiled, name):
    """Run as many cases as `python -m bench checks`, by every engine."""
    assert_passed(command.CHECKS[name](common.Settings(double_queue)))


def test_hh_and_its_table(settings):
    """`hh` equals NEURON's without its table; with it, NEURON's is some tenths of a ms off."""
    exact, default = hodgkin_huxley.hh(replace(settings, engines=("epochs",)))
    assert_passed([exact, default])
    assert exact.figures["spikes"] > 30
    assert 0.01 < default.figures["ms at most"] < 0.5


@pytest.mark.parametrize("title", kinetics.CASES)
def test_kinetics(settings, compiled, title):
    assert_passed([kinetics.kinetic(title, settings)])


def test_what_kinetics_refuse():
    assert_passed([kinetics.refusals()])


def test_units(settings, compiled):
    assert_passed(kinetics.units(settings))


@needs_folder
def test_small_real_cells(settings):
    sizes = replace(settings, morphologies=FOLDER / "good", files=6, lengths=(20.0,))
    shape, active = cells.cells(sizes)
    assert_passed([shape, active])
    assert shape.cases == 6 and active.figures["spikes in NEURON"] > 6


# -- planted faults: a check that cannot fail shows nothing ---------------------------------------


def test_a_weight_that_is_off_is_found(settings, monkeypatch):
    """One weight of one seed is off by a thousandth."""
    right = networks.ours

    def wrong(given):
        given.links[0].weight[:] *= 1.001
        return right(given)

    monkeypatch.setattr(networks, "ours", wrong)
    (outcome,) = networks.networks(replace(settings, seeds=1))
    assert outcome.failures and not outcome.passed


def test_a_parameter_that_is_off_is_found(settings, compiled):
    case = kinetics.CASES["cascade of 1 ms, in order"]
    outcome = common.Outcome("kinetics", "planted")
    theirs = kinetics.density(case.name, case.states)
    ours = theirs.copy()
    ours[:, 1] *= 1 + 1e-8
    kinetics.compare(outcome, "planted", ours, theirs, case)
    assert not outcome.passed and outcome.cases == 1
    occupied = replace(case, occupancies=True)
    kinetics.compare(outcome, "a sum of three gates", theirs, theirs, occupied)
    assert "sum off by" in outcome.failures[1]
    theirs[-1] = np.nan
    kinetics.compare(outcome, "NaN", theirs, theirs, case)
    assert len(outcome.failures) == 3


def test_the_command(fast_queue, tmp_path, monkeypatch, capsys):
    index = next(i for i, d in devices.all_devices() if d == fast_queue.device)

    def fails(settings):
        outcome = common.Outcome("hh", "planted")
        outcome.case("x" * 150)
        outcome.case()
        return [outcome]

    def missing(settings):
        raise MissingError("no compiler")

    def main(*names):
        return command.main([*names, "--device", index, "--out", str(tmp_path), "--seeds", "1"])

    monkeypatch.setitem(command.CHECKS, "hh", fails)
    monkeypatch.setitem(command.CHECKS, "units", missing)
    assert main("hh", "units") == 1
    text = (tmp_path / "checks.txt").read_text("utf-8")
    assert "FAIL  hh" in text and "1 of 2" in text and "skip  units     no compiler" in text
    assert all(len(line) <= 100 for line in text.splitlines()[1:])
    result = json.loads((tmp_path / "checks.json").read_text("utf-8"))
    assert [row["passed"] for row in result["checks"]] == [False, True]
    assert result["record"]["commit"] and result["record"]["neuron"]
    assert main("units") == 2
    with pytest.raises(SystemExit):
        main("hhh")
    assert "there is no check 'hhh'" in capsys.readouterr().err


def test_a_check_without_cases_has_not_passed():
    outcome = common.Outcome("hh", "nothing")
    assert not outcome.passed
    outcome.case()
    assert outcome.passed
    outcome.largest("mV", float("nan"))
    assert outcome.figures["mV"] == float("inf")

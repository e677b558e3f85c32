"""The command line for people: help on one screen, hints, the log, and progress."""

import sys
import time

import pytest

import clhines
from clhines.cli import report


def test_help_fits_a_screen(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = cli("--help")
    lines = result.out.splitlines()
    assert result.code == 0 and len(lines) <= 24 and max(map(len, lines)) <= 80
    assert "clhines doctor" in result.out and "examples:" in result.out


def network():
    cables = [clhines.discretise(cell) for cell in clhines.sample_cells()]
    return clhines.Network(cables)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: clhines.make_plan(clhines.Forest([-1, 0]), "Contraktion"), "contraction"),
        (lambda: clhines.make_plan(clhines.Forest([-1, 0]), "fine", spilt="mean"), "split"),
        (lambda: network().insert("hhh"), "hh"),
        (lambda: network().insert("pas", gg=1e-4), "g"),
        (lambda: clhines.Simulation(network(), dt=0.025, engine="epoch"), "epochs"),
        (lambda: network().insert("hh", at="dendrite"), "dendrites"),
        (
            lambda: network().insert(
                "density x\nparameter gx = 1 S/cm2\ncurrent i = gxx*v [mA/cm2]"
            ),
            "gx",
        ),
        (lambda: network().insert("density x\ncurrent i = exq(v) [mA/cm2]"), "exp"),
        (lambda: clhines.make_plan(clhines.Forest([-1, 0]), "flat", "flaot32"), "float32"),
        (lambda: clhines.Solver(clhines.Forest([-1, 0]), tune="mesure"), "measure"),
        (lambda: clhines.read_swc("a.swc", roots="splitt"), "split"),
        (lambda: clhines.read_swc("a.swc", repair="zero-radus"), "zero-radius"),
    ],
)
def test_did_you_mean_in_python(call, hint):
    with pytest.raises(clhines.InputError, match=f"did you mean '{hint}'"):
        call()


def test_did_you_mean_a_public_name():
    with pytest.raises(AttributeError, match="'Solvr'; did you mean 'Solver'"):
        getattr(clhines, "Solvr")  # noqa: B009


@pytest.mark.parametrize("engine", ["reference", "epochs", "steps", "auto"])
def test_no_engine_ignores_an_option_that_is_misspelled(engine):
    with pytest.raises(clhines.InputError, match="Simulation has no option.*mean 'secondorder'"):
        clhines.Simulation(network(), dt=0.025, engine=engine, secondoder=True)


@pytest.mark.parametrize("arguments", [["-v", "plan", "--device"], ["plan", "-v", "--device"]])
def test_verbose_says_what_was_chosen_on_stderr(cli, fast_queue, arguments):
    from clhines.solver.device import devices

    index = next(i for i, d in devices.all_devices() if d == fast_queue.device)
    result = cli(*arguments, index)
    assert result.code == 0
    assert result.err.splitlines() == [
        f"clhines: device {devices.label(fast_queue.device)} (device={index})"
    ]
    assert cli("plan", "--device", index).err == ""  # and silent again


class Terminal:
    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self):
        pass

    def isatty(self):
        return True


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_long_work_is_announced_on_a_terminal(monkeypatch, seconds):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(report, "DELAY", 0.1)
    with report.doing("planning"):
        time.sleep(seconds)
    time.sleep(0.15)
    assert terminal.text == ("clhines: planning ...\n" if seconds else "")


class Immediate:
    """A timer that does not wait."""

    def __init__(self, _, action, words):
        self.start = lambda: action(*words)

    def cancel(self):
        pass


@pytest.mark.parametrize(
    ("arguments", "stages"),
    [
        (
            ["solve", "--steps", "2"],
            ["planning and building kernels", "first step", "checking"],
        ),
        (["doctor"], ["looking for OpenCL devices", "solving on each device", "looking for MPI"]),
    ],
)
def test_every_stage_that_may_take_long_is_announced(cli, monkeypatch, arguments, stages):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(report.threading, "Timer", Immediate)
    cli(*arguments)
    places = [terminal.text.find(f"clhines: {stage}") for stage in stages]
    assert -1 not in places and places == sorted(places), terminal.text


def test_nothing_is_announced_in_scripts(monkeypatch, capsys):
    monkeypatch.setattr(report, "DELAY", 0.01)
    with report.doing("planning"):
        time.sleep(0.05)
    assert list(report.bar(range(3), "reading")) == [0, 1, 2]
    assert capsys.readouterr().err == ""

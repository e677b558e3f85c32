"""`clhines simulate model.py` beside NEURON."""

import importlib.util
import os
import sys

import pytest
from forked import found_by
from processes import run_python

pytestmark = pytest.mark.neuron


def test_command_line_simulates_a_script(tmp_path):
    import numpy as np

    script, out = tmp_path / "model.py", tmp_path / "spikes.npz"
    script.write_text(
        "from neuron import h\nsoma = h.Section(name='soma')\nsoma.insert('hh')\n"
        "clamp = h.IClamp(soma(0.5))\nclamp.delay, clamp.dur, clamp.amp = 2, 100, 5\n"
        "netcon = h.NetCon(soma(0.5)._ref_v, None, sec=soma)\n",
        "utf-8",
    )

    def call(*words):
        return run_python("-m", "clhines.cli", "simulate", script, *words)

    assert call("--check").stdout == "all is simulated\n"  # without --stop
    plot = tmp_path / "model.svg"
    drawn = ["--plot", str(plot)] if importlib.util.find_spec("matplotlib") else []
    done = call("--stop", "20", "--engine", "reference", "--out", str(out), *drawn)
    assert not done.returncode, done.stderr[-2000:]
    assert "simulated   20 ms in 800 steps of 0.025 ms, in " in done.stdout
    assert not drawn or "</svg>" in plot.read_text("utf-8")
    truth = found_by(
        f"exec(open({str(script)!r}).read())\ntimes = h.Vector()\nnetcon.record(times)\n"
        "h.finitialize(-65)\nh.continuerun(20)\nfound = list(times)"
    )
    with np.load(out) as file:
        assert file["spike_time"] == pytest.approx(truth, abs=1e-6)
        assert len(truth) >= 1
    assert f"{len(truth)}, the first at {truth[0]:g} ms, the last at {truth[-1]:g}" in done.stdout
    script.write_text(script.read_text("utf-8").replace("netcon =", "0 and"), "utf-8")
    done = call("--stop", "1", "--engine", "reference")
    assert "spikes      none: no NetCon watches a voltage" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.py", "from neuron import h\nh.Section(name='s').insert('nothere')\n",
         "a.py, line 2: ValueError: argument not a density mechanism name"),
        ("b.hoc", "create soma\naccess soma\ninsert nothere\n", "b.hoc: RuntimeError: "),
    ],
)  # fmt: skip
def test_a_script_that_fails_is_one_line(tmp_path, name, text, said):
    (tmp_path / name).write_text(text, "utf-8")
    command = ["-m", "clhines.cli", "simulate", name, "--stop", "1"]
    done = run_python(*command, cwd=tmp_path, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    assert done.returncode == 1 and "Traceback" not in done.stderr  # the script's own status
    assert done.stderr.splitlines()[-1].startswith(f"clhines: {said}")

"""`clhines simulate model.py` beside NEURON."""

import os
import sys

import pytest
from processes import run_python

pytestmark = pytest.mark.neuron


def test_check_of_a_script_that_runs_nothing(tmp_path):
    script = tmp_path / "model.py"
    script.write_text("from neuron import h\nsoma = h.Section()\nsoma.insert('hh')\n", "utf-8")
    done = run_python("-m", "clhines.cli", "simulate", script, "--check")
    assert done.stdout == "the device can run the whole model\n", done.stderr[-2000:]


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
    command = ["-m", "clhines.cli", "simulate", name]
    done = run_python(*command, cwd=tmp_path, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    assert done.returncode == 1 and "Traceback" not in done.stderr  # the script's own status
    assert done.stderr.splitlines()[-1].startswith(f"clhines: {said}")

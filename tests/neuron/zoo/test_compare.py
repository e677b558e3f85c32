"""The comparison for a folder with small repositories in NEURON and with the switch."""

from pathlib import Path

import pytest
from processes import run_python

CELL = """
create soma
access soma
L = 20
diam = 20
insert hh
objref clamp
clamp = new IClamp(0.5)
clamp.del = 2
clamp.dur = 100
clamp.amp = 0.5
tstop = 20
"""
BUTTON = 'xpanel("")\nxbutton("Fig 1", "load_file(\\"cell.hoc\\")")\nxpanel()'
FILES = {
    "pressed/mosinit.hoc": f'load_file("nrngui.hoc")\n{BUTTON}',
    "pressed/cell.hoc": CELL,
    "wrong/deep/main.hoc": f"{CELL}no_such_thing()",
    "other/model.m": "",
}


@pytest.mark.neuron
def test_the_table_of_a_folder(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = run_python(Path(__file__).with_name("compare.py"), tmp_path, "--stop", 10)
    head, *lines = done.stdout.splitlines()
    rows = {line[:30].strip(): line[31:].split() for line in lines}
    assert head.split()[:3] == ["repository", "outcome", "spikes"]
    assert rows["pressed"][:4] == ["equal", "1", "1", rows["pressed"][3]]
    assert float(rows["pressed"][3]) <= 1e-6
    assert rows["other"][:3] == ["NEURON", "runs", "nothing"]
    assert rows["wrong"][:3] == ["NEURON", "runs", "nothing"]
    assert done.returncode == 0, done.stderr

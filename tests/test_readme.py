"""The code blocks of README.md and of the site run as they stand, in order, page by page.

Python blocks share the names of their page; lines of console blocks, and indented lines, that begin
with `clhines` are run by the command line. `cell.swc` lies in the folder.
"""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

from clhines.cli.main import main
from clhines.device import devices

ROOT = Path(__file__).parents[1]
NEEDED = {  # text of a block -> what it imports
    "import draw": "matplotlib",
    "import torch": "torch",
    "analysis.pandas": "pandas",
    "analysis.neo": "neo",
    "analysis.sonata": "h5py",
    "analysis.efel": "efel",
    "analysis.bluepyopt": "bluepyopt",
    "analysis.sbi": "sbi",
}
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
    ),
    *sorted((ROOT / "docs").rglob("*.md")),
]
DEVICES = '["0:0", "0:1"]'  # of a machine with two devices; here two halves of a CPU
CELL = """\
# a soma, an apical dendrite that branches, and a basal one
1 1 0 0 0 8 -1
2 4 0 10 0 1.5 1
3 4 0 120 0 1.2 2
4 4 60 200 0 0.8 3
5 4 -70 210 0 0.7 3
6 3 0 -12 0 1.1 1
7 3 20 -150 0 0.6 6
"""


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def halves():
    """Two sub-devices of a CPU."""
    for _, device in devices.all_devices():
        if devices.is_cpu(device) and not devices.is_simulator(device):
            try:
                parts = device.create_sub_devices([cl.device_partition_property.EQUALLY, 1])
            except cl.Error:
                continue
            if len(parts) > 1:
                return [devices.make_queue(part) for part in parts[:2]]
    return None


def pieces(page):
    """Python blocks and lines of the command line, as (is Python, text), in the page's order."""
    pattern = r"^```([^\n`]*)\n(.*?)^```$|^    (clhines [^\n]*)$"
    for found in re.finditer(pattern, page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
        kind, block, line = found.groups()
        if line or kind == "console":
            lines = [line] if line else re.findall(r"^\$ (clhines .*)$", block, re.MULTILINE)
            yield from ((False, text) for text in lines)
        elif kind == "python":
            yield True, block


def call(line, folder):
    """Run a line of the command line; `*.swc` is expanded as a shell would."""
    words = [
        name
        for word in line.partition(" #")[0].partition("    ")[0].split()[1:]
        for name in (sorted(map(str, folder.glob(word))) if "*" in word else [word])
    ]
    try:
        code = main(words)
    except SystemExit as stop:  # of --help
        code = stop.code
    assert code == 0 or words[0] == "doctor", line  # which finds what is wrong with this machine


def run(page, names, folder):
    """Execute the pieces of a page one after another in one namespace; returns it."""
    for k, (python, text) in enumerate(pieces(page)):
        if not python and "--plot" in text and find_spec("matplotlib") is None:
            continue
        if "import draw" in text:
            pytest.importorskip("matplotlib")
        if not python:
            call(text, folder)
            continue
        if DEVICES in text:
            names["the_halves"] = halves()
            if names["the_halves"] is None:
                continue
            text = text.replace(DEVICES, "the_halves")
        for needle, library in NEEDED.items():
            if needle in text:
                pytest.importorskip(library)
        exec(compile(text, f"{page.name}, piece {k + 1}", "exec"), names)
    return names


def run_apart(page, folder):
    """Run a page in a process of its own: NEURON keeps what a script builds."""
    head = f"import sys; sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}\n"
    program = "from pathlib import Path; from test_readme import run\n"
    program += f"run(Path({str(page)!r}), {{}}, Path({str(folder)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", head + program], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "cell.swc").write_text(CELL, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def name_of(page):
    return page.relative_to(ROOT).as_posix()


PAGES_WITH_CODE = [p for p in PAGES if p.is_file() and any(pieces(p))]


@pytest.mark.skipif(not PAGES_WITH_CODE, reason="no README here")
@pytest.mark.parametrize("page", PAGES_WITH_CODE, ids=name_of)
def test_code_blocks(page, folder, capsys, monkeypatch):
    """Each block runs, and prints what the comments after prints of shapes say, in that order."""
    monkeypatch.setattr("sys.argv", ["clhines"])
    if any("from neuron import" in block for block in python_blocks(page)):
        pytest.importorskip("neuron")
        if not any(not devices.is_simulator(device) for _, device in devices.all_devices()):
            pytest.skip("only a simulator was found; it is too slow for this page")
        run_apart(page, folder)
        return
    names = run(page, {}, folder)
    said = re.findall(r"^print\(.*\.shape\)  # (.*)$", "\n".join(python_blocks(page)), re.MULTILINE)
    printed = iter(capsys.readouterr().out.splitlines())
    assert all(line in printed for line in said)
    if page.name == "solving.md":
        a, n = names["solver"].forest, 7
        dense = 4 * np.eye(n)
        for i in np.flatnonzero(a.parent >= 0):
            dense[i, a.parent[i]] = dense[a.parent[i], i] = -1
        expected = np.linalg.solve(dense, np.arange(7.0))
        # |inverse| <= 1 as rows are dominant by 1 at least, |A| <= 7, some 9 roundings an entry
        error = np.abs(names["v"] - expected).max()  # of `solver.enqueue` in device order
        assert error <= 64 * np.finfo(float).eps * np.abs(expected).max()
    if page.name == "methods.md":
        n = 100
        dense = np.diag(np.full(n, 4.0)) - np.eye(n, k=1) - 0.5 * np.eye(n, k=-1)  # u above
        expected = np.linalg.solve(dense, np.arange(float(n)))
        assert names["new"].forest.heights.tolist() == [51]
        # rows are dominant by 2.5, so that |inverse| <= 0.4; |A| <= 5.5, some 9 roundings an entry
        error = np.abs(names["x"] - expected).max()
        assert error <= 32 * np.finfo(float).eps * np.abs(expected).max()
    if page.name == "analysing.md":
        counts = names["found"]["spike_count"]
        assert counts[0] == 0 and counts[-1] > 1  # below and above the rheobase
        assert (folder / "spikes.h5").is_file() and (folder / "voltages.h5").is_file()
    if page.name == "gradients.md":  # the loss is of the order 1e-8 mV² when the search ends
        np.testing.assert_allclose(names["fitted"], [150.0, 0.8, 5e-5], rtol=1e-3)
    if page.name == "simulating.md":
        assert (folder / "state.npz").is_file() and (folder / "network.png").is_file()
        assert len(names["more"].t) == 400  # 10 ms in steps of 0.025 ms


def anchors(page):
    """The anchors that GitHub gives to the headings of a page."""
    found = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in found}


@pytest.mark.skipif(not PAGES_WITH_CODE, reason="no README here")
def test_links():
    """Relative links lead to files, and their anchors to headings."""
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        links = re.findall(r"\]\(([^)\s]+)\)", text)
        for link in links:
            if "://" in link:
                continue
            name, _, anchor = link.partition("#")
            target = Path(os.path.normpath(page.parent / name)) if name else page
            assert target.exists(), (page, link)
            assert not anchor or anchor in anchors(target), (page, link)


@pytest.mark.skipif(not PAGES_WITH_CODE, reason="no README here")
def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 200
    assert lines.count("<!-- main-job -->") == lines.count("<!-- tests -->") == 1

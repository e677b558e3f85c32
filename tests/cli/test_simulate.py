"""`clhines simulate ring`."""

import errno
import os
import re
import sys

import numpy as np
import pytest
from commands import OTHER, TWO_ROOTS, index_of

from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.swc import read_swc
from clhines.simulator.cells.synthetic import sample_swc
from clhines.simulator.network.ring import ring_cables, ring_network
from clhines.simulator.simulation import Simulation

RING = ("simulate", "ring", "--depth", 2, "--compartments", 3, "--cells", 3)
REFERENCE = (*RING, "--engine", "reference", "--duration", 15)


def ring_by_hand(duration, **options):
    """The same ring from Python: its network, times and cells of spikes."""
    cables = ring_cables(3, levels=2, compartments=3)
    network = ring_network(cables, 3, **options)
    return network, Simulation(network, engine="reference").run(duration)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ring_on_every_fast_device(cli, typed_queue, dtype):
    where = ["--device", index_of(typed_queue), "--dtype", dtype]
    result = cli(*RING, "--duration", 15, *where)
    assert (result.code, result.err) == (0, "")
    network, expected = ring_by_hand(15.0)
    table = result.table()
    membrane = np.count_nonzero(network.area)
    assert table["cells"] == "3 in a ring (3 distinct shapes)"
    assert table["nodes"] == f"{network.forest.num_nodes}, {membrane} of them with membrane"
    assert table["mechanisms"] == f"hh x 3, pas x {membrane - 3}, expsyn x 3"
    assert re.fullmatch(rf"(epochs-[cg]pu|steps), {dtype}", table["engine"])
    assert table["simulated"] == "15 ms in 600 steps of 0.025 ms"
    assert re.fullmatch(
        r"[\d.e+-]+ ns per compartment and step, [\d.e+-]+ x real time", table["speed"]
    )
    first, *_, last = expected.spike_time
    times = f"the first at {first:g} ms, the last at {last:g} ms"
    assert table["spikes"] == f"{len(expected.spike_time)}, {times}"


def test_ring_json(cli):
    report = cli(*REFERENCE, "--json", "--hh", "all", "--weight", 0.02, "--delay", 4).report()
    network, expected = ring_by_hand(15.0, hh="all", weight=0.02, delay=4.0)
    assert report["spikes"] == len(expected.spike_time) >= 2
    assert report["first_spike_ms"] == pytest.approx(expected.spike_time[0])
    assert report["last_spike_ms"] == pytest.approx(expected.spike_time[-1])
    assert report["compartments"] == np.count_nonzero(network.area)
    assert (report["engine"], report["dtype"], report["steps"]) == ("reference", "float64", 600)
    per_step = report["step_ms"] * 1e6 / report["compartments"]
    assert report["ns_per_compartment"] == pytest.approx(per_step)
    assert report["real_time"] == pytest.approx(0.025 / report["step_ms"])


def test_ring_without_spikes(cli):
    result = cli(*REFERENCE[:-1], 0.025, "--weight", 0)
    assert result.table()["spikes"] == "none"
    assert cli(*REFERENCE[:-1], 0.025, "--json").report()["first_spike_ms"] is None


def test_ring_files(cli, tmp_path):
    """The .npz has what a run from Python gives, the .csv its spikes."""
    cli(*REFERENCE, "--out", tmp_path / "ring.npz")
    cli(*REFERENCE, "--out", tmp_path / "ring.csv")
    network, expected = ring_by_hand(15.0)
    with np.load(tmp_path / "ring.npz") as found:
        np.testing.assert_allclose(found["spike_time"], expected.spike_time)
        np.testing.assert_array_equal(found["spike_cell"], expected.spike_cell)
        np.testing.assert_allclose(found["t"], np.arange(601) * 0.025)
        np.testing.assert_array_equal(found["v_cell"], [0, 1, 2])
        assert found["v"].shape == (601, 3)
        again = Simulation(network, engine="reference")
        again.record("v", network.soma)
        np.testing.assert_array_equal(found["v"], again.run(15.0)[0])
    head, *lines = (tmp_path / "ring.csv").read_text().splitlines()
    assert head == "time_ms,cell"
    table = np.array([line.split(",") for line in lines], float)
    np.testing.assert_allclose(table, np.stack((expected.spike_time, expected.spike_cell), 1))


def test_ring_picture(cli, tmp_path):
    pytest.importorskip("matplotlib")
    cli(*REFERENCE, "--plot", tmp_path / "ring.svg")
    text = (tmp_path / "ring.svg").read_text("utf-8")
    assert text.rstrip().endswith("</svg>")
    assert [p.name for p in tmp_path.iterdir()] == ["ring.svg"]


def test_ring_of_a_long_soma_is_active_in_all_of_it(cli, swc):
    """A soma of three discs, 40 µm long: at 10 µm five segments, as odd as NEURON's middle asks."""
    text = "1 1 0 0 0 9 -1\n2 1 20 0 0 9 1\n3 1 40 0 0 9 2\n4 3 50 0 0 1 3\n5 3 90 0 0 1 4\n"
    arguments = ["--engine", "reference", "--duration", 1, "--max-length", 10]
    result = cli("simulate", "ring", "--swc", swc(text), *arguments)
    assert result.table()["mechanisms"] == "hh x 5, pas x 5, expsyn x 1"


def test_ring_of_the_sample_files_goes_round(cli):
    arguments = ("--cells", 6, "--duration", 60, "--max-length", 30, "--json")
    report = cli("simulate", "ring", "--swc", *sample_swc(), *arguments).report()
    assert report["spikes"] > 6 and report["last_spike_ms"] > 50


def test_ring_of_files(cli, swc):
    files = [swc(), swc(OTHER, "other.swc")]
    arguments = ["--engine", "reference", "--duration", 5, "--max-length", 10]
    result = cli("simulate", "ring", "--swc", *files, "--cells", 3, *arguments)
    assert (result.code, result.err) == (0, "")
    table = result.table()
    assert table["cells"] == "3 in a ring (2 distinct shapes)"
    cables = [discretise(read_swc(file), max_length=10) for file in files]
    assert table["nodes"].startswith(f"{2 * cables[0].num_nodes + cables[1].num_nodes}, ")
    files = [swc(TWO_ROOTS, "two.swc"), "--roots", "split"]
    short = "--engine", "reference", "--duration", 1
    no_soma = "has no soma, no sample of type 1; expected HH everywhere (hh='all', --hh all)"
    cli("simulate", "ring", "--swc", *files, *short).assert_refused("hh='soma': cell 1", no_soma)
    split = cli("simulate", "ring", "--swc", *files, *short, "--hh", "all")
    assert split.table()["cells"] == "2 in a ring (2 distinct shapes)"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cells", "0"], "expected a whole number from 1"),
        (["--branching", "1.5"], "branching_probability is 1.5, expected 0 to 1"),
        (["--branching", "x"], "'x', expected a number"),
        (["--depth", "many"], "--depth"),
        (["--dt", "0"], "expected a positive number"),
        (
            ["--dt", "0.3"],
            "--duration 1 ms is 3.33333333333 steps of --dt 0.3 ms; expected a whole",
        ),
        (["--dt", "3"], "is 0.333333333333 steps of --dt 3 ms; expected a whole number from 1"),
        (
            ["--duration", "1e9"],
            "is 40000000000 steps of --dt 0.025 ms; expected a whole number from 1",
        ),
        (["--duration", "-1"], "expected a positive number"),
        (["--delay", "0.01"], "at least one step"),
        (["--seed", "-1"], "expected a whole number, 0 or more"),
        (["--engine", "fast"], "invalid choice: 'fast'"),
        (["--method", "cr"], "invalid choice: 'cr'"),
        (["--dtype", "mixed"], "invalid choice: 'mixed'"),
        (["--engine", "auto", "--device", "no such device"], "matches no device"),
        (["--swc", "missing.swc"], "missing.swc: cannot be read"),
        (["--swc", "cell.swc", "--depth", "3"], "--depth is for random cells"),
        (["--swc", "cell.swc", "cell.swc", "--cells", "1"], "is less than the 2 cells of --swc"),
        (["--max-length", "10"], "--max-length is for the cells of --swc"),
        (["--out", "ring.txt"], "the name ends in '.txt'; expected '.npz' or '.csv'"),
        (["--out", "no/folder.csv"], "--out no/folder.csv: cannot be written: No such file"),
        (["--plot", "ring.npz"], "the name ends in '.npz'; expected '.png' or '.svg' or '.pdf'"),
        (["--plot", "no/folder.png"], "--plot no/folder.png: cannot be written: No such file"),
        (["ring.swc"], "unrecognized arguments"),
    ],
    ids=lambda a: " ".join(a) if isinstance(a, list) else "",
)
def test_ring_bad_arguments(cli, swc, tmp_path, monkeypatch, arguments, said):
    swc()
    monkeypatch.chdir(tmp_path)
    given = ["simulate", "ring", "--engine", "reference", "--duration", 1, *arguments]
    cli(*given).assert_refused(said)
    assert [p.name for p in tmp_path.iterdir()] == ["cell.swc"]


def test_simulate_needs_a_network(cli):
    cli("simulate").assert_refused("FILE.py")
    cli("simulate", "star").assert_refused("invalid choice: 'star'")


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("name", ["ring.npz", "ring.csv", "ring.png"])
def test_ring_on_a_full_disk(cli, tmp_path, monkeypatch, name, older):
    """What is there stays as it was; what is not, is not there afterwards either."""
    if name.endswith("png"):
        pytest.importorskip("matplotlib")
    out = tmp_path / name
    if older:
        out.write_bytes(b"older")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    option = "--plot" if name.endswith("png") else "--out"
    cli(*REFERENCE[:-1], 1, option, out).assert_refused(
        f"{option} {out}", os.strerror(errno.ENOSPC)
    )
    assert [p.name for p in tmp_path.iterdir()] == ([name] if older else [])
    assert not older or out.read_bytes() == b"older"


def test_ring_without_matplotlib(cli, tmp_path, monkeypatch):
    """Said before any work is done."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(Simulation, "__init__", lambda *_, **__: pytest.fail("work was done"))
    cli(*REFERENCE, "--plot", tmp_path / "ring.png").assert_refused("pip install '.[plot]'")

"""Hostile and unlucky input: one line each, no traceback, nothing left behind."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

from bench.cells import ring_cell
from bench.made import chain
from bench.ring import ring_cables, ring_network
from clhines import (
    Drawn,
    Forest,
    ForestError,
    HostMemoryError,
    InputError,
    Mechanism,
    Network,
    Pairs,
    Simulation,
    Solver,
    Tridiagonal,
    make_plan,
    read_swc,
    sample_cells,
    sample_swc,
    solve_tridiagonal,
)
from clhines.cli.main import main
from clhines.core import checks
from clhines.core.errors import AccuracyWarning
from clhines.simulator.cells.cable import discretise
from clhines.simulator.model import compile
from clhines.simulator.network.times import whole_steps

CABLE = discretise(ring_cell(2, 0.6, 3, seed=3, stems=1), max_length=90.0)
MASKED = np.ma.masked_array([1, 2], [True, False])
posix = pytest.mark.skipif(os.name != "posix", reason="of POSIX shells")


def refused(text=None):
    return pytest.raises(InputError, match=text)


def in_shell(line, **environment):
    """Return code, output and errors of ``clhines LINE``, with the shell's redirections."""
    command = f'"{sys.executable}" -m clhines.cli {line}'
    env = {**os.environ, **environment}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=env)
    assert "Traceback" not in done.stderr, done.stderr
    assert "Exception" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


# ---------------------------------------------------------------------------------- arguments

NOT_NUMBERS = [np.nan, np.inf, "1", None, True, [1.0], 10**400, 1j, {}, object()]
NOT_COUNTS = [0, -1, 1.0, "1", None, True, [1], 2**70, 10**5000, np.nan]


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=lambda v: type(v).__name__)
def test_what_is_no_number(value):
    net = Network(CABLE, 2)
    syn = net.add("expsyn", at=net.soma)
    for options in ({"dt": value}, {"v_init": value}):
        if options != {"v_init": [1.0]} or value != [1.0]:
            with refused():
                compile(net, **options)
    sim = Simulation(net, engine="reference")
    assert whole_steps(value, 0.025) is None
    with refused("duration is"):
        sim.run(value)
    fresh = Network(CABLE, 2)
    syn = fresh.add("expsyn", at=fresh.soma)
    if value != [1.0]:
        none = pytest.warns(UserWarning, match="without weight")  # None is no weight
        with none if value is None else refused():
            fresh.connect(0, syn, 0, value, 1.0)
        with refused():
            fresh.connect(0, syn, 0, 0.1, value)
        with refused():
            fresh.add_event(syn, 0, value, 0.1)
        with refused():
            fresh.threshold = value
        with refused():
            fresh.insert("pas", "soma", g=value)


@pytest.mark.parametrize("value", NOT_COUNTS, ids=lambda v: str(type(v)) + repr(bool(v)))
def test_what_is_no_count(value):
    for make in (
        lambda: Network(CABLE, value),
        lambda: ring_cables(value),
        lambda: ring_network(CABLE, value),
        lambda: Simulation(Network(CABLE), engine="reference", chunk=value),
        lambda: Simulation(Network(CABLE), engine="reference", max_spikes=value),
    ):
        if value is None:
            break  # several have this default
        with pytest.raises((InputError, HostMemoryError)) as error:
            make()
        assert len(str(error.value)) < 200
    with pytest.raises((ForestError, HostMemoryError)):
        Forest.repeat([chain(3)], value)


@pytest.mark.parametrize(
    "value", [-1, 1.0, "1", None, True, 2**64, 10**5000], ids=lambda v: str(type(v))
)
def test_what_is_no_seed(value):
    for make in (lambda: compile(Network(CABLE), seed=value), lambda: ring_cables(1, seed=value)):
        with refused("seed is"):
            make()


@pytest.mark.parametrize(
    "value", ["soma.", b"soma", None, 1.5, [[0]], [None], ["0"], 2**70, MASKED]
)
def test_what_names_no_nodes(value):
    net = Network(CABLE, 2)
    for give in (
        lambda: net.insert("pas", value),
        lambda: net.add("expsyn", value),
        lambda: Simulation(Network(CABLE), engine="reference").record("v", value),
    ):
        with refused():
            give()


def test_masked_arrays_are_not_read_as_if_they_were_not():
    net = Network(CABLE, 2)
    syn = net.add("expsyn", at=net.soma)
    mask = np.ma.masked_array(np.ones(net.forest.num_nodes, bool), False)
    mask[3] = np.ma.masked
    for give in (
        lambda: net.insert("pas", mask),
        lambda: net.insert("pas", "soma", g=MASKED * 1.0),
        lambda: net.connect(MASKED, syn),
        lambda: net.connect(0, syn, 0, MASKED),
        lambda: net.add_event(syn, 0, MASKED),
        lambda: setattr(net, "threshold", MASKED),
        lambda: compile(net, v_init=MASKED),
    ):
        with refused("masked values"):
            give()
    mask.mask = np.ma.nomask  # nothing is masked: an array like any other
    assert len(net.insert("pas", np.ma.masked_array(net.area > 0))) == np.count_nonzero(net.area)


@pytest.mark.parametrize("value", [1, 3, -2, "yes", None, 2.0, [True]])
def test_orders_that_are_none(value):
    """NEURON's ``secondorder = 1`` is another method."""
    with refused("secondorder is"):
        compile(Network(CABLE), secondorder=value)
    assert compile(Network(CABLE), secondorder=2).secondorder
    assert not compile(Network(CABLE), secondorder=0).secondorder


# ---------------------------------------------------------------------------------- memory


def test_memory_is_asked_before_it_is_taken(monkeypatch):
    """An excessive batch is refused by an estimate from a smaller batch's bytes."""
    import tracemalloc

    cells = 100_000
    tracemalloc.start()
    try:
        assert len(Forest.repeat([chain(40)], cells).parent) == 40 * cells
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    said = []
    monkeypatch.setattr("clhines.solver.forest.check_room", lambda size, what: said.append(size))
    Forest.repeat([chain(40)], cells)
    assert 0.7 * peak < said[0] < 1.1 * peak


@pytest.mark.core
def test_too_much_memory(monkeypatch):
    monkeypatch.setattr(checks, "available", lambda: 2**20)
    net = Network(CABLE, 3)
    for make in (
        lambda: Forest.repeat([chain(40)], 4000),
        lambda: Network(CABLE, 10_000),
        lambda: ring_cables(1000),
    ):
        with pytest.raises(HostMemoryError, match=r"of the host's memory; there are 1 MiB"):
            make()
    sim = Simulation(net, engine="reference")
    sim.record("v", net.soma)
    with pytest.raises(HostMemoryError, match="1200000 values recorded in 400000 steps"):
        sim.run(10_000.0)
    assert sim.step == 0
    monkeypatch.setattr(checks, "available", lambda: None)  # nobody knows: no check
    assert Forest.repeat([chain(40)], 2000).num_cells == 2000


@pytest.mark.parametrize("command", ["plan", "solve"])
def test_a_billion_cells(capsys, command):
    assert main([*command.split(), "--cells", "1000000000"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "1000000000 cells take" in said.err
    assert len(said.err.splitlines()) == 1


# ---------------------------------------------------------------------------------- command line


@pytest.mark.parametrize(
    "arguments", ["plan --cells=--", "solve --steps=--", "simulate --out=--", "solve --out=--"]
)
def test_two_dashes_as_a_value(capsys, arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments.split())
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert f"argument {arguments.split()[-1][:-3]}: got '--'" in said
    assert len(said.splitlines()) == 1


@posix
def test_closed_streams(tmp_path):
    code, _, err = in_shell("plan >&-")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "standard output is closed" in err
    code, out, err = in_shell("plan 2>&-")
    assert (code, err) == (0, "")
    assert "method" in out
    assert in_shell("plan >&- 2>&-") == (2, "", "")
    assert in_shell("plan --cells none 2>&-") == (2, "", "")
    assert in_shell(f"plan --cells 3 <&- >{tmp_path}/out")[0] == 0
    assert "method" in (tmp_path / "out").read_text()


@posix
def test_a_full_disk_and_a_reader_that_has_gone():
    code, _, err = in_shell("plan >/dev/full")
    assert (code, err) == (2, "clhines: No space left on device\n")
    assert in_shell("plan | true")[2] == ""
    assert in_shell("plan --cells 0 2>&1 | true")[2] == ""


@pytest.mark.core
def test_warnings_have_no_place(capsys, monkeypatch):
    def warn(_):
        warnings.warn("the residual is 1", AccuracyWarning, stacklevel=2)
        warnings.warn("of\nanother", DeprecationWarning, stacklevel=1)
        return 0

    monkeypatch.setattr("clhines.cli.plan.run_plan", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["plan"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "clhines: the residual is 1",
        "clhines: DeprecationWarning: of another",
    ]


@posix
def test_a_picture_on_a_full_disk(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")

    def full(handle, mode):
        os.close(handle)
        return open("/dev/full", mode)

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(InputError, match="No space left on device"):
        CABLE.plot(path=tmp_path / "full.svg")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------------- any type

NESTED = []
NESTED.append(NESTED)
HUGE = 10**5000  # more digits than Python prints
SEVERAL = np.array(["a", "b"])  # whose truth value NumPy refuses
LEAK = """NEURON { SUFFIX leaky NONSPECIFIC_CURRENT i RANGE g }
PARAMETER { g = 1e-4 }
ASSIGNED { v i }
BREAKPOINT { i = g*(v+65) }
"""


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no text")


def of_pairs(pairs):
    net = Network(CABLE, 2)
    net.connect([0, 1], net.add("expsyn", at=net.soma), pairs, 0.1)


OF_FORESTS = {
    "nested": lambda: FOREST.subset(NESTED),
    "no trees": lambda: Forest.from_parents(None),
    "no sequence": lambda: Forest.repeat(1.5, 2),
    "ragged": lambda: Forest.repeat([[[1], [1, 2]]], 2),
    "beyond int64": lambda: Forest.repeat([chain(3)], np.uint64(2**64 - 1)),
    "cell below 0": lambda: FOREST.node_index(-1, 0),
    "no cell": lambda: FOREST.node_index(None, 0),
    "rank beyond the cell": lambda: FOREST.node_index(0, 3),
    "cells beyond": lambda: FOREST.subset([2]),
    "cells as text": lambda: FOREST.subset("x"),
}
OF_SOLVERS = {
    "limits": lambda: make_plan(FOREST, "flat", limits=3),
    "several words": lambda: Solver(FOREST, "fine", packing=SEVERAL),
    "a huge number": lambda: Solver(FOREST, "fine", work_group=HUGE),
    "a huge segment": lambda: Solver(FOREST, "contraction", segment=HUGE),
    "no text": lambda: Solver(FOREST, Unprintable()),
    "ragged sizes": lambda: Tridiagonal([[1], [1, 2]]),
    "huge sizes": lambda: Tridiagonal([HUGE]),
    "nested": lambda: solve_tridiagonal(NESTED, [1.0], 0.0, [1.0]),
}
OF_CELLS = {
    "roots": lambda: read_swc(sample_swc()[0], roots=SEVERAL),
    "repair": lambda: read_swc(sample_swc()[0], repair=SEVERAL),
    "ragged": lambda: discretise(sample_cells()[0], Ra=[[1], [1, 2]]),
    "ragged nseg": lambda: discretise(sample_cells()[0], nseg=[[1], [1, 2]]),
    "values": lambda: CABLE.plot("x"),
    "huge values": lambda: CABLE.plot(HUGE),
    "label": lambda: CABLE.plot(label=SEVERAL),
    "no cables": lambda: Network(np.array(-1)),
    "a file's number": lambda: Network.load(2**31),
}
OF_MECHANISMS = {
    "path": lambda: Mechanism.from_nmodl(LEAK, path=3),
    "use_tables": lambda: Mechanism.from_nmodl(LEAK, use_tables=[]),
    "tables": lambda: Mechanism.from_nmodl(LEAK, function_tables=3),
    "names of tables": lambda: Mechanism.from_nmodl(LEAK, function_tables={1: 2.0}),
    "v as text": lambda: Mechanism.from_nmodl(LEAK).current("x", 0.0),
    "huge v": lambda: Mechanism.from_nmodl(LEAK).current(HUGE, 0.0),
    "params": lambda: Mechanism.from_nmodl(LEAK).current(-65.0, 0.0, params=3),
    "block": lambda: Mechanism.from_nmodl(LEAK).calls([]),
    "outputs": lambda: Mechanism.from_nmodl(LEAK).twin("current", 3),
    "width": lambda: Mechanism.from_nmodl(LEAK).functions("double", width=2**31),
}
OF_NETWORKS = {
    "number": lambda: of_pairs(Pairs("fixed_indegree", -1)),
    "probability": lambda: of_pairs(Pairs("bernoulli", HUGE)),
    "at": lambda: of_pairs(Pairs("all_to_all", 1.0, at=3)),
    "a class": lambda: of_pairs(Pairs.by_distance(int, [0.0], [0.0])),
    "no positions": lambda: of_pairs(Pairs.by_distance(np.exp, [], [])),
    "bound": lambda: Drawn("uniform", 0.0, 1.0, low="x"),
    "huge bound": lambda: Drawn("uniform", 0.0, 1.0, high=HUGE),
    "queue": lambda: Simulation(Network(CABLE), engine="reference", queue=3),
}
CALLS = {
    f"{group}: {name}": call
    for group, calls in (
        ("forests", OF_FORESTS),
        ("solvers", OF_SOLVERS),
        ("cells", OF_CELLS),
        ("mechanisms", OF_MECHANISMS),
        ("networks", OF_NETWORKS),
    )
    for name, call in calls.items()
}
FOREST = Forest(np.array([-1, 0, 0, -1, 3]), np.array([0, 3, 5]))


@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_any_type_are_refused_in_one_line(name):
    with pytest.raises((InputError, ForestError, HostMemoryError)) as error:
        CALLS[name]()
    assert len(str(error.value)) < 300 and "\n" not in str(error.value)


def test_numbers_are_no_paths(tmp_path):
    """``open`` would use a number as a file descriptor, and close it."""
    with open(tmp_path / "open", "wb") as file:
        with refused("no path"):
            Network.load(file.fileno())
        with refused():
            Network(CABLE).save(file.fileno())
        file.write(b"still open")


def test_no_gap_junctions():
    net = Network(CABLE)
    assert len(net.gap([], [], [])) == 0
    sim = Simulation(net, engine="reference")
    sim.run(0.1)
    assert sim.step == 4

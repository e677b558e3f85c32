"""Networks of which each MPI rank describes its own cells: the bits of one process, by gid."""

import json

import numpy as np
import own_cells_program
import pytest
from mpi_runs import mpiexec, needs_mpi
from networks import CABLES, DT

from clhines import InputError, Network, Pairs, Simulation
from clhines.simulator.model import compile
from clhines.simulator.ranks import described

PROGRAM = own_cells_program.__file__


def small(gids=(3, 5)):
    net = Network(CABLES[:1], 2)
    net.gids = np.array(gids)
    net.insert("hh", "soma")
    return net, net.add("expsyn", net.soma)


def test_a_delay_beyond_the_ring_is_refused_in_one_line():
    """Its events would act at exact times, on this rank alone."""
    net, syn = small()
    net.connect(3, syn, 0, weight=1e-3, delay=1e6)
    with pytest.raises(InputError, match="a delay that is too long for events in whole steps"):
        described._check_supported(compile(net))


def test_sources_are_gids():
    net, syn = small()
    made = net.connect([5, 3, 9, 5], syn, [0, 1, 1, 1], weight=1e-3)
    np.testing.assert_array_equal(made.sources, [5, 3, 9, 5])
    np.testing.assert_array_equal(net.source_numbers([5, 9]), [5, 9])
    np.testing.assert_array_equal(net.gids, [3, 5])
    assert not net.gids.flags.writeable
    found = compile(net).connections
    np.testing.assert_array_equal(found.source, [1, 0, 2, 1])
    assert found.num_sources == 3
    more = net.connect([9, 7, 3], syn, 0)
    np.testing.assert_array_equal(more.sources, [9, 7, 3])
    np.testing.assert_array_equal(compile(net).connections.source[4:], [2, 3, 0])


def test_spikes_are_of_gids():
    """In one process too, which must have all cells that connections come from."""
    net, syn = small()
    net.connect([3, 5], syn, weight=0.0)
    net.add("iclamp", net.soma[1:], dur=5.0, amp=1.0)
    sim = Simulation(net, DT, engine="reference")
    v = sim.record("v", net.soma)
    result = sim.run(5.0)
    assert set(result.spike_cell.tolist()) == {5}
    assert result.columns(v) == ["cell 3", "cell 5"]
    net, syn = small()
    net.connect([3, 9], syn, weight=0.0)
    with pytest.raises(InputError, match="connections come from gid 9, which no rank has"):
        Simulation(net, DT, engine="reference")


@pytest.mark.parametrize(
    ("gids", "expected"),
    [
        ([5, 3], r"gids\[1\] is 3 after 5; expected ascending"),
        ([5, 5], r"gids\[1\] is 5 after 5"),
        ([5], r"gids has shape \(1,\); expected \(2,\)"),
        ([0.5, 1.0], "gids has dtype float64; expected whole numbers"),
        ([-1, 1], r"gids\[0\]: there is no gid -1; expected 0 to 2147483647"),
    ],
)
def test_bad_gids(gids, expected):
    net = Network(CABLES[:1], 2)
    with pytest.raises(InputError, match=expected):
        net.gids = gids
    assert net.gids is None


def test_what_has_no_gids_is_rejected(tmp_path):
    net, syn = small()
    with pytest.raises(InputError, match="only cells have gids"):
        net.add_detector(net.soma)
    with pytest.raises(InputError, match="index is Pairs; expected instances"):
        net.connect([3], syn, Pairs.bernoulli(0.5))
    with pytest.raises(InputError, match="a network with gids cannot be saved"):
        net.save(tmp_path / "net.npz")
    net.connect([3], syn, 0)
    with pytest.raises(InputError, match="has sources or connections; expected gids before"):
        net.gids = [4, 5]
    with pytest.raises(InputError, match="copies of a network with gids"):
        Simulation(net, DT, engine="reference").replicate(2)


def test_sorts_of_cells():
    net = Network([CABLES[0]] * 5 + [CABLES[1]])
    net.insert("hh", net.soma)
    begin = net.forest.cell_offsets[:-1]
    net.add("expsyn", np.concatenate([begin[[0, 0, 1, 3]] + 1, [begin[2] + 2, begin[2] + 1]]))
    sort, sorts = described._sorts(compile(net))
    assert len(sorts) == 5 and sort.tolist() == [0, 1, 2, 1, 3, 4]
    for cell, number in enumerate(sort.tolist()):
        one, (low, high) = sorts[number], net.forest.cell_offsets[[cell, cell + 1]]
        above = net.forest.parent[low:high]
        np.testing.assert_array_equal(one.parent, np.where(above < 0, -1, above - low))
        for nodes, kind in zip(one.nodes, compile(net).kinds, strict=True):
            here = kind.node[(kind.node >= low) & (kind.node < high)] - low
            np.testing.assert_array_equal(nodes, here)


@pytest.fixture(scope="module")
def expected():
    return own_cells_program.run_cases()


@pytest.mark.mpi
@needs_mpi
@pytest.mark.parametrize("count", [1, 2, 4])
def test_own_cells_have_the_bits_of_one_process(tmp_path, expected, count):
    done, _ = mpiexec(count, PROGRAM, tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / f"own{count}.json").read_text())
    check_rejected(found.pop("rejected", None))
    assert {*found} == {*expected}
    assert all(runs[0]["count"] > 30 for name, runs in expected.items() if "lone" not in name)
    assert expected["lone"][0]["count"]
    for name, runs in expected.items():
        assert runs[0] == runs[2] != runs[1]
        assert found[name] == runs, name


REJECTED = {
    "twice": ["gids: 1 is of a cell on rank 0 and of one on rank 1; expected each once"],
    "nowhere": ["RankError: rank 1: ", "connections come from gid 99, which no rank has"],
    "mechanisms": ["list of mechanisms is hh, exp2syn on rank 1 and hh, expsyn on rank 0"],
    "dt": ["dt is 0.05 on rank 1 and 0.025 on rank 0; expected the same on all ranks"],
    "seed": ["seed is 1 on rank 1 and 0 on rank 0"],
    "dtype": ["dtype is float32 on rank 1 and float64 on rank 0"],
    "some": ["that the network has gids is False on rank 1 and True on rank 0"],
    "delay": ["RankError: rank 1: ", "delay of connection 0, from cell 0, is 0.001 ms"],
    "rules": ["rules of plastic connections differ between ranks; expected one rule"],
    "noise": ["has noise, in inoise; expected none"],
    "exact": ["expected events in whole steps alone"],
    "no instance": ["no rank has an instance of exp2syn"],
    "infinite": ["RankError: rank 1: a voltage is not finite", "of cell 0 (gid 2), at its soma"],
    "overflow": ["RankError: rank 1: ", "SpikeOverflowError: step "],
    "duration": ["duration is 2.0 on rank 1 and 1.0 on rank 0"],
    **{
        name: [f"{name}() is for one process, or ranks that all describe the whole network"]
        for name in ("set", "save", "restore", "arrays", "reward")
    },
    "records": ["returned (21, 0)", "returned (21, 1)"],
}


def check_rejected(found):
    """Of two ranks: both say what differs; what one alone has wrong, the other says of it."""
    if found is None:
        return
    assert {*found} == {*REJECTED}
    for name, lines in found.items():
        parts = REJECTED[name] * (2 if len(REJECTED[name]) == 1 else 1)
        for line, part in zip(lines, parts, strict=True):
            assert part in line and "Traceback" not in line, (name, line)


@pytest.mark.mpi
@needs_mpi
@pytest.mark.parametrize(
    ("scenario", "said"), [("fails", "the third epoch\nhas failed"), ("killed", "signal 9")]
)
def test_a_failing_rank_ends_all(tmp_path, scenario, said):
    done, seconds = mpiexec(2, PROGRAM, tmp_path, scenario)
    assert done.returncode != 0
    assert seconds < 30
    assert done.stderr.count(said) + done.stdout.count(said) == 1, done.stderr

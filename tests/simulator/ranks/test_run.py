"""A network on MPI ranks has the bits of one process, however divided; failures end all ranks."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import exact_ranks
import pytest
from mpi_runs import mpiexec, needs_mpi
from networks import DT, simple_network
from processes import run_python
from rank_program import interrupted, not_finite, run_cases

from clhines import InputError, Simulation
from clhines.simulator.ranks import mpi

EXACT = Path(__file__).parents[2] / "support" / "exact_ranks.py"
PROGRAM = Path(__file__).with_name("rank_program.py")


def test_refusals(fast_queue):
    with pytest.raises(InputError, match="comm is int; expected one of mpi4py"):
        Simulation(simple_network()[0], DT, comm=3, queue=fast_queue)
    pair = SimpleNamespace(Iallgather=None, is_inter=True)
    null = pytest.importorskip("mpi4py.MPI").COMM_NULL
    for comm, name in ((pair, "an intercommunicator"), (null, "MPI.COMM_NULL")):
        with pytest.raises(InputError, match=rf"^comm is {name}; expected an intracomm[^\n]*$"):
            Simulation(simple_network()[0], DT, comm=comm, queue=fast_queue)


def test_without_mpi4py(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(InputError, match=r"MPI needs mpi4py.*pip install '\.\[mpi\]'"):
        mpi.world()


def test_a_process_without_mpi_says_its_own_error_alone():
    """A process under a launcher, without MPI, prints only its own error."""
    code = "import clhines; raise ValueError('own')"
    said = {size: run_python("-c", code, PMI_SIZE=size) for size in ("1", "2")}
    assert said["2"].stderr == said["1"].stderr
    assert said["2"].stderr.endswith("ValueError: own\n")
    assert said["2"].returncode == 1


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """Return the folder of states that one process without MPI saves, and its results."""
    folder = tmp_path_factory.mktemp("ranks")
    return folder, run_cases(folder, 0)


@pytest.fixture(scope="module")
def ranks(one_process):
    """Run the cases on `count` ranks, which restore the states of one rank less."""
    done = {}

    def run(count):
        if count not in done:
            if count > 2:
                run(count - 1)
            done[count], _ = mpiexec(count, PROGRAM, "cases", one_process[0], count - 1)
        return done[count]

    return run


@pytest.mark.mpi
@needs_mpi
# 18 or 12, 12 or 6, 12 or 6 nodes per rank
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow), 4])
def test_networks_with_exact_times_have_the_same_bits_on_ranks(exact, count):
    folder, expected = exact
    done, _ = mpiexec(count, EXACT, folder)
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / f"found{count}.json").read_text()) == expected
    for engine in ("steps", "epochs-cpu", "epochs-gpu"):
        assert expected[engine][1] == expected[engine][2] and expected[engine][3] > 20


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """Yield the folder of saved states and one process's results with exact event times."""
    folder = tmp_path_factory.mktemp("exact")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLHINES_DEVICE", "cpu")  # one engine supports CPUs only
        result = {engine: exact_ranks.found(folder, None, engine) for engine in exact_ranks.ENGINES}
        yield folder, result


def check_differing(texts):
    """Both ranks name a differing argument, and name the rank if only one has an error."""
    first, second = texts
    said = first.pop(), second.pop()
    assert all("shift of nmbegun is " in x for x in said)
    assert all("; expected the same GLOBAL value" in x for x in said)
    assert (first.pop(), second.pop()) == ("nothing", "nothing")  # the same values in another order
    expected = ["digest of the network", "dtype", "duration", None, "digest of what is recorded"]
    expected += ["digest of the parameters and protocols"] * 2
    assert len(first) == len(second) == len(expected)
    for name, one, other in zip(expected, first, second):
        if name is None:
            assert one.startswith("RankError: rank 1: duration is 'x' ms")
            assert other.startswith("InputError: duration is 'x' ms")
        else:
            assert one == other
            assert one.startswith(f"InputError: {name} is ")
            assert one.endswith("on rank 0; expected the same on all ranks")


@pytest.mark.mpi
@needs_mpi
@pytest.mark.parametrize("count", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_the_same_bits_on_any_number_of_ranks(one_process, ranks, count):
    folder, expected = one_process
    done = ranks(count)
    assert done.returncode == 0, done.stderr
    data = json.loads((folder / f"found{count}.json").read_text())
    assert expected["busy auto"]["count"] > 40
    assert expected["busy auto, later"]["count"] > 40
    assert expected["busy auto"]["weights"] != expected["busy auto, later"]["weights"]
    assert expected["rewarded"]["weights"] != expected["rewarded, later"]["weights"]
    names = [name for name in expected if name in data]
    assert len(names) >= 4
    for name in names:
        assert data[name] == expected[name], name
    if count == 2:
        assert data["not finite"] == not_finite(None)
        assert data["interrupted"] == interrupted(None)
        check_overflow(data["overflow"])
        check_differing(data["differing"])
    assert not list(folder.glob("*.part"))


@pytest.mark.mpi
@needs_mpi
@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("fails", "ValueError: the third epoch\nhas failed"),
        ("outside", "ValueError: somewhere else"),
        ("refused", "clhines.core.errors.InputError: num_cells is 0; expected a whole number"),
        ("killed", "signal 9"),
    ],
)
def test_a_failing_rank_ends_all(tmp_path, scenario, expected):
    done, seconds = mpiexec(2, PROGRAM, scenario, tmp_path)
    assert done.returncode != 0
    assert seconds < 30
    assert done.stderr.count(expected) + done.stdout.count(expected) == 1, done.stderr
    assert done.stderr.count("clhines: rank 1 of 2 stops all") == (scenario != "killed")


@pytest.mark.mpi
@needs_mpi
def test_ranks_that_call_different_methods_raise_and_go_on(tmp_path):
    """Call all pairs of methods, a new simulation, two objects, a closed one: no rank hangs."""
    done, _ = mpiexec(2, PROGRAM, "pairs", tmp_path, seconds=300)
    assert done.returncode == 0, done.stderr
    (said, spikes), (other, own) = json.loads((tmp_path / "pairs.json").read_text())
    assert said == other and spikes == own == sorted(spikes) and spikes
    names = {
        "two objects": ("run() of object 1", "run() of object 2"),
        "closed": ("run()", "run() of a closed simulation"),
    }
    for pair, text in said.items():
        first, second = names.get(pair) or (f"{name}()" for name in pair.split())
        assert text == (
            f"InputError: rank 0 calls {first} and rank 1 {second}; expected the same call on all "
            "ranks"
        ), pair
    assert len(said) == 92


def check_overflow(found):
    """Check that one rank has too many spikes, and that others name it or have too many as well."""
    assert "SpikeOverflowError" in [kind for kind, _ in found]
    for kind, message in found:
        assert "room for 4;" in message
        assert kind == "SpikeOverflowError" or re.match(r"rank \d: ", message)


@pytest.mark.mpi
@needs_mpi
def test_errors_are_told_once():
    done, _ = mpiexec(2, "-m", "clhines.cli", "solve", "--bogus")
    assert done.returncode == 2
    assert done.stderr.count("unrecognized arguments: --bogus") == 1
    message = done.stderr.partition("-----")[0]  # Open MPI's launcher adds a block
    assert len(message.strip().splitlines()) == 1
    assert not done.stdout

"""Compare runs on NEURON's MPI ranks, each with its cells, with NEURON in one process."""

import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import forked
import mod_files
import mpi_runs
import numpy as np
import pytest

pytestmark = [pytest.mark.neuron, pytest.mark.mpi]
PROGRAM = Path(__file__).with_name("neuron_ranks.py")
TOLERANCE = 1e-9  # mV, as in switch/test_hooks


def launcher(ranks):
    """Return the command that starts `ranks` ranks, and tell NEURON the MPI library."""
    package = importlib.util.find_spec("mpi4py")
    library = Path(str(package.origin)).parents[3] / "libmpi.so.12" if package else Path()
    if mpi_runs.MPIEXEC is None or not library.is_file():
        pytest.skip("needs mpi4py and mpiexec: pip install '.[mpi]'")
    os.environ["MPI_LIB_NRN_PATH"] = str(library)
    return [mpi_runs.MPIEXEC, "-n", str(ranks)]


def ended(ranks, *scenarios, program=(PROGRAM,)):
    """Run a program on ranks that import everything themselves."""
    command = [*launcher(ranks), sys.executable, *map(str, program), *scenarios]
    environment = {**os.environ, "NEURON_MODULE_OPTIONS": "-nogui"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment, check=False
    )


def lines_of(ranks, *program):
    """Return the lines that a program prints on ranks that are forks."""
    code, out, err = forked.ended([*map(str, program)], launcher(ranks))
    assert not code, err[-3000:]
    return out.splitlines()


def told(ranks, *scenarios, program=PROGRAM):
    return json.loads(next(x for x in lines_of(ranks, program, *scenarios) if x[:1] in ("{", "[")))


@functools.cache
def in_one_process(*options, scenario="neuron"):
    """Return NEURON's spikes and voltage of cell 0 in one process; also from above thresholds."""
    return told(1, *options, scenario)[scenario]


@pytest.fixture(scope="module")
def of_neuron():
    return in_one_process()


def compare(runs, of_neuron, engine, others=(), tolerance=TOLERANCE):
    """Compare spikes and cell 0's voltage on all ranks with NEURON in one process."""
    for (spikes_here, voltages), (spikes, v) in zip(runs, of_neuron, strict=True):
        assert {gid for _, gid in spikes} == {*range(6), 50, *others}
        assert [gid for _, gid in spikes_here] == [gid for _, gid in spikes], engine
        assert max(abs(a - b) for (a, _), (b, _) in zip(spikes_here, spikes)) < TOLERANCE, engine
        assert len(voltages) == len(v), engine
        assert max(abs(a - b) for a, b in zip(voltages, v)) < tolerance, engine


@pytest.fixture(scope="module")
def of_two():
    """Results on two ranks: refusals, runs by three engines, and irreversible changes."""
    refused = (
        *("setting", "changed", "early", "moved", "uneven", "variable", "infinite", "played"),
        *("calling", "from_neuron"),
    )
    return told(2, *refused, "auto", "back", "steps", "epochs-gpu", "crowded", "pieces")


def test_ranks_have_the_spikes_of_neuron(of_neuron, of_two):
    """Compare cells and a NetStim that all ranks hear, in several calls, and from the start again.

    In a second variant NEURON takes over from the second call.
    """
    assert all(len(spikes) > 15 for spikes, _ in of_neuron)
    of_three = told(3, "auto", "reference")
    assert of_three.pop("auto") == of_two["auto"] == told(4, "auto")["auto"]  # every bit
    runs = {engine: of_two[engine] for engine in ("auto", "back", "steps", "epochs-gpu")} | of_three
    for engine, results in runs.items():
        compare(results, of_neuron, engine)


def test_a_coin_decides_who_takes_each_call(of_neuron):
    """A coin decides alike on two and three ranks; compare spikes with NEURON's."""
    seeds = [f"coin-{seed}" for seed in range(6)]
    steps, decisions = [], []
    for ranks, some in ((2, seeds[:4]), (3, seeds[4:])):
        for seed, (runs, own_steps, tossed) in told(ranks, *some).items():
            compare(runs, of_neuron, seed)
            assert len({*own_steps}) == 1, seed
            steps += own_steps
            decisions += tossed
    assert {*decisions} == {False, True} and max(steps) > 0


@pytest.mark.parametrize("engine", ["auto", "steps"])
def test_a_run_from_the_start_keeps_the_simulation_of_each_rank(engine):
    """Ranks keep their simulations unless parameters of any rank change."""
    runs, (made,), (times,) = in_one_process(scenario="again")
    assert made == [0] * 5 and len(times) > 100
    for ranks in 2, 3:
        results, made, called = told(ranks, f"again-{engine}")[f"again-{engine}"]
        compare(results, runs, engine)
        assert made == [[1, 0, 1, 1, 0]] * ranks and called == [times] * ranks


def test_bins_on_several_ranks_are_those_of_neuron():
    """Compare ``CVode.queue_mode(1, 0)``: events of other ranks, and pending ones at a call.

    If NEURON takes over, also without bins, a spike at the end of a call comes once.
    """
    loose, whole = (in_one_process("--bins", mode) for mode in ("0", "1"))
    assert loose[0][0] != whole[0][0]
    result = told(2, "--bins", "1", "loose", "mixed", "neuron", "auto", "back", "far", "steps")
    for line in (*result.pop("loose"), *result.pop("mixed")):
        assert "CVode.queue_mode(1, 0) on several MPI ranks" in line
    result |= told(3, "--bins", "1", "epochs-gpu")
    for engine, runs in result.items():
        compare(runs, whole, engine, range(60, 66))
    compare(told(2, "--bins", "0", "back")["back"], loose, "back", range(60, 66))


def test_compressed_spikes_of_other_ranks_are_those_of_the_nearest_step():
    """Compare ``spike_compress`` with NEURON on as many ranks, which differs from one process."""
    whole = in_one_process("--compress")
    for ranks, engines in (2, ("auto", "back", "far", "epochs-gpu")), (3, ("reference",)):
        result = told(ranks, "--compress", "neuron", "shifted", *engines)
        of_ranks = result.pop("neuron")
        for line in result.pop("shifted"):
            assert "spike_compress with a smallest delay of 1.26 ms, which is not" in line
        gap = max(abs(a - b) for a, b in zip(of_ranks[0][1], whole[0][1], strict=True))
        assert gap > 1e-3  # mV
        for engine, runs in result.items():
            compare(runs, of_ranks, engine)


def test_neuron_goes_on_with_delays_of_less_than_two_steps():
    """A spike that NEURON detects in its own step, at the end of a call, arrives in time."""
    truth = in_one_process("--soon", "--bins", "0")
    compare(told(2, "--soon", "--bins", "0", "back")["back"], truth, "back", range(60, 66))


def test_events_are_exchanged_while_the_next_steps_are_under_way(of_neuron):
    """Compare exchanges during the next half epoch, as on GPUs, with VecStims and bins."""
    compare(told(2, "--during", "auto")["auto"], of_neuron, "auto")
    library = "--trains", str(mod_files.library())
    trains = in_one_process(*library)
    result = told(2, "--during", *library, "back", "steps", "epochs-gpu")
    for engine, runs in (result | told(3, "--during", *library, "reference")).items():
        compare(runs, trains, engine, (70, 71))
    binned = in_one_process("--bins", "1")
    for engine, runs in told(2, "--during", "--bins", "1", "far", "epochs-gpu").items():
        compare(runs, binned, engine, range(60, 66))


def test_gap_junctions_between_ranks_are_those_of_neuron(of_neuron):
    """Compare voltages from the start of the step, in three calls, again, and with a current."""
    library = "--gaps", str(mod_files.library())
    whole = in_one_process(*library)
    assert of_neuron[0][0] != whole[0][0]
    result = told(2, *library, "setting", "changed", "epochs", "auto")
    assert "nrn_netrec_state_adjust" in result.pop("setting")[1]
    for line in result.pop("changed"):
        assert line.startswith("InputError: several MPI ranks go on at 5 ms after steps")
    for line in result.pop("epochs"):
        assert "takes no pointers to voltages of other ranks; expected 'steps'" in line
    result |= told(3, *library, "reference")  # the last rank has no junctions
    for engine, runs in result.items():
        compare(runs, whole, engine)


def test_one_device_takes_the_cells_of_all_ranks(of_neuron):
    """Compare, as on GPUs, several calls, a second start, and runs that NEURON takes over."""
    result = told(2, "--one", "auto", "back", "epochs-gpu", "coin-1", "infinite")
    first, second = result.pop("infinite")
    assert first.startswith("RankError: rank 1: ") and second.startswith("SimulationError: ")
    runs, steps, _ = result.pop("coin-1")
    assert len({*steps}) == 1
    for engine, of_engine in (result | {"coin": runs}).items():
        compare(of_engine, of_neuron, engine)
    runs, _, (times,) = in_one_process(scenario="again")
    for (spikes, _), (expected, _) in zip(
        told(2, "--one", "--unrecorded", "auto")["auto"], of_neuron, strict=True
    ):
        np.testing.assert_allclose(spikes, expected, rtol=0, atol=TOLERANCE)
    again, made, called = told(3, "--one", "again-auto")["again-auto"]
    compare(again, runs, "again")
    assert made == [[1, 0, 1, 1, 0]] * 3 and called == [times] * 3


def test_one_device_has_trains_gap_junctions_and_empty_ranks(of_neuron):
    """Epochs support pointers to voltages of other ranks if all cells are on one device."""
    library = str(mod_files.library())
    whole = in_one_process("--gaps", library)
    result = told(3, "--one", "--gaps", library, "epochs", "auto")
    assert result.pop("epochs") == ["nothing"] * 3
    compare(result["auto"], whole, "auto")
    whole = in_one_process("--trains", library)
    compare(told(3, "--one", "--trains", library, "auto")["auto"], whole, "auto", (70, 71))
    compare(told(3, "--one", "--empty", "auto")["auto"], of_neuron, "empty")


def test_ranks_without_sections(of_neuron):
    """One rank has only a NetStim, one is empty."""
    for ranks in (2, 3):
        compare(told(ranks, "--empty", "auto")["auto"], of_neuron, ranks)


def test_trains_of_given_times_are_heard_by_all_ranks(of_neuron):
    """Compare trains at the start and at the ends of calls, with delays as long as an epoch."""
    library = "--trains", str(mod_files.library())
    whole = in_one_process(*library)
    for gid in range(6):  # each cell fires at other times for them
        times = [[t for t, one in runs[0][0] if one == gid] for runs in (whole, of_neuron)]
        assert times[0] != times[1]
    result = told(2, *library, "auto", "back", "steps", "epochs-gpu")
    for engine, runs in (result | told(3, *library, "reference")).items():
        compare(runs, whole, engine, (70, 71))


def test_potentials_outside_are_those_of_each_rank(of_neuron):
    """Compare constant and played potentials in some cells of each rank; see test_outside."""
    whole = in_one_process("--outside")
    assert of_neuron[0][0] != whole[0][0]
    result = told(2, "--outside", "auto", "steps") | told(3, "--outside", "reference")
    for engine, runs in result.items():  # 150 times 4e-9 mV for 1 mA/cm²
        compare(runs, whole, engine, tolerance=6e-7)


def test_watch_conditions_of_one_rank(of_neuron):
    """Events that NEURON delivers on one rank only exchange no spikes."""
    library = "--watch", str(mod_files.library())
    whole = in_one_process(*library)
    assert of_neuron[0][0] != whole[0][0]
    compare(told(2, *library, "auto")["auto"], whole, "auto")


def test_what_one_rank_refuses_neuron_takes_on_all(of_neuron):
    """Also if it cannot be built, or fails after the run: then nothing is written."""
    runs, said = told(2, "left")["left"]
    spikes, v = of_neuron[0]
    planted = "not simulated", "no kernel", "no memory", "at the end"
    for ((result, trace), steps), lines, what in zip(runs, said, [*planted, ""], strict=True):
        assert [gid for _, gid in result] == [gid for _, gid in spikes], what
        assert max(abs(a - b) for (a, _), (b, _) in zip(result, spikes)) < TOLERANCE, what
        assert len(trace) == len(v) and max(abs(a - b) for a, b in zip(trace, v)) < TOLERANCE, what
        assert bool(steps) == (not what), what
        if what:
            first = [reasons[0] for reasons in lines]
            assert first == [f"rank 1: planted: {what}", f"planted: {what}"]
    first, second = said[-1]
    assert "StateTransitionEvent" in second[0] and first[0].startswith("rank 1: ")


def test_what_one_rank_refuses_all_raise(of_two):
    """After the error all ranks run again from the start, by each engine."""
    first, second = of_two["setting"]
    assert first.startswith("RankError: rank 1: the model has 1 unsupported construct")
    assert second.startswith("RejectedError: ") and "nrn_netrec_state_adjust" in second
    for line in of_two["changed"]:
        assert line.startswith("InputError: several MPI ranks go on at 5 ms after steps")
    for line in of_two["early"]:
        assert line.startswith("InputError: a connection from another rank has a delay shorter")
    first, second = of_two["moved"]
    assert second.startswith("InputError: psolve goes on from ") and "h.t is 1.025 ms" in second
    assert first == second.replace("InputError", "RankError: rank 1", 1)
    expected = "NeuronError: enable() has when='never' on rank 1 and 'always' on rank 0; "
    assert of_two["uneven"] == [expected + "expected the same on all ranks"] * 2
    for line in of_two["variable"]:
        assert "CVode: variable time steps" in line
    first, second = of_two["infinite"]
    assert first.startswith("RankError: rank 1: ") and second.startswith("SimulationError: ")
    first, second = of_two["crowded"]
    assert first.startswith("RankError: rank 1: a source sent more events within its longest")
    assert second.startswith("InputError: ")
    assert "Random.play on several MPI ranks" in of_two["played"][1]
    for what in ("NetCon.record of a statement or a function", "Vector.play of a statement"):
        assert f"{what}; " in of_two["calling"][1]
    assert all(line.startswith("InputError: from_neuron() is") for line in of_two["from_neuron"])
    assert all("ParallelContext.splitcell_connect" in line for line in of_two["pieces"])


def test_a_rank_that_fails_ends_all():
    """Otherwise the first rank would wait forever in its next run."""
    done = ended(2, "fails")
    assert done.returncode
    assert "ValueError: of the script" in done.stderr
    assert "clhines: rank 1 of 2 stops all" in done.stderr
    code, _, err = forked.ended([str(PROGRAM), "fails"], launcher(2))
    assert code and "ValueError: of the script" in err


def test_forked_ranks_end_without_quit():
    """The launcher killed ranks whose MPI had not ended."""
    program = "from mpi4py import MPI\nprint(MPI.COMM_WORLD.allreduce(1))"
    for _ in range(4):
        assert "".join(lines_of(3, "-c", program)) == "333"


FAILING = """
from mpi4py import MPI
from neuron import h

h.nrnmpi_init()
pc = h.ParallelContext()
if pc.id() == 1:
    END
pc.barrier()
"""


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("raise ValueError('of the script')", "{script}, line 8: ValueError: of the script"),
        ("raise SystemExit(3)", "ended with status 3"),
    ],
)
def test_the_command_line_ends_all_ranks_where_a_script_fails_on_one(tmp_path, end, said):
    """The exit code is the script's: 1 after an exception."""
    script = tmp_path / "fails.py"
    script.write_text(FAILING.replace("END", end), "utf-8")
    done = ended(2, script, program=("-m", "clhines.cli", "simulate"))
    assert done.returncode == (3 if "SystemExit" in end else 1)
    lines = [x for x in done.stderr.splitlines() if x.startswith("clhines: ")]
    assert lines == [f"clhines: rank 1: {said.format(script=script)}"]


ALONE = """
import json

from mpi4py import MPI
from neuron import h

from clhines import InputError
from clhines.neuron import disable, enable

h.nrnmpi_init()
h.load_file("stdrun.hoc")
pc = h.ParallelContext()
rank, gather = int(pc.id()), MPI.COMM_WORLD.gather


def cell(amp):
    soma = h.Section(name="soma")
    soma.L = soma.diam = 20
    soma.insert("hh")
    clamp = h.IClamp(soma(0.5))
    clamp.delay, clamp.dur, clamp.amp = 1, 5, amp
    return soma, clamp, h.Vector().record(soma(0.5)._ref_v)


def run(stop, here):
    if here:
        enable(engine="reference", strict=True)
    try:
        h.finitialize(-65)
        h.continuerun(stop)
    finally:
        disable()


def job(amp, here):
    soma, clamp, v = cell(amp)
    run(8, here)
    return list(v)
"""
PAIR = """
soma, clamp, v = cell(1 - rank)
pc.set_gid2node(rank, rank)
pc.cell(rank, h.NetCon(soma(0.5)._ref_v, None, sec=soma))
synapse = h.ExpSyn(soma(0.5))
heard = pc.gid_connect(1 - rank, synapse)
heard.weight[0], heard.delay = 0.05, 1
times = h.Vector()
pc.spike_record(rank, times, h.Vector())


def both():
    found = []
    for here in (False, True):
        run(10, here)
        found.append([list(times), list(v)])
    return gather(found)


own, line = both(), "nothing"
enable(engine="reference", strict=True)
try:
    pc.psolve(12)
except InputError as error:
    line = str(error)
disable()
lines = gather(line)
pc.set_maxstep(10)
joined = both()
if rank == 0:
    print(json.dumps([own, joined, lines]), flush=True)
pc.barrier()
h.quit()
"""
JOBS = """
pc.runworker()
for number in range(4):
    pc.submit(number, job, 0.4 * (number // 2), number % 2)
jobs = {}
while pc.working():
    jobs[int(pc.userid())] = pc.pyret()
print(json.dumps([jobs[k] for k in range(4)]), flush=True)
pc.done()
h.quit()
"""


def agree(ours, neurons):
    assert len(ours) == len(neurons)
    assert max((abs(a - b) for a, b in zip(ours, neurons)), default=0) < TOLERANCE


def test_ranks_run_alone_where_neuron_exchanges_nothing(tmp_path):
    """Compare runs without `set_maxstep`, and jobs of ``submit``, each on one rank."""
    script = tmp_path / "alone.py"

    def found(does):
        script.write_text(ALONE + does, "utf-8")
        return told(2, program=script)

    own, joined, lines = found(PAIR)
    for runs, counts in (own, (1, 0)), (joined, (1, 1)):
        for (neurons, ours), count in zip(runs, counts, strict=True):
            assert len(ours[0]) == count
            for x, y in zip(ours, neurons, strict=True):
                agree(x, y)
    assert all(x.startswith("psolve on several MPI ranks, which exchange nothing") for x in lines)
    silent, silent_here, fires, fires_here = found(JOBS)
    assert max(silent) < 0 < max(fires)
    agree(silent_here, silent)
    agree(fires_here, fires)


CHECKED = """
import sys
from contextlib import suppress
from mpi4py import MPI
from neuron import h
h.nrnmpi_init()
import clhines
pc = h.ParallelContext()
rank, soma = int(pc.id()), h.Section(name="soma")
soma.insert("hh")
source = h.NetCon(soma(0.5)._ref_v, None, sec=soma)
pc.set_gid2node(rank, rank)
pc.cell(rank, source)
synapse = h.ExpSyn(soma(0.5))
wire = pc.gid_connect(1 - rank, synapse)
wire.delay, kept = 1, []
if rank and sys.argv[1] == "late":
    h.CVode().use_fast_imem(1)
    kept += [h.SEClamp(soma(0.5)), h.Vector().record(soma(0.5)._ref_i_membrane_)]
if rank and sys.argv[1] == "early":
    kept.append(h.StateTransitionEvent(2))
pc.set_maxstep(10)
h.finitialize(-65)
sys.stdout.write(f"{rank} {[str(one) for one in clhines.neuron.check()]}\\n")
sys.stdout.flush()
pc.barrier()
with suppress(SystemExit):
    h.quit()
"""


@pytest.mark.parametrize(
    ("when", "said"), [("", ""), ("early", "StateTransitionEvent"), ("late", "where SEClamp is")]
)
def test_all_ranks_list_what_one_refuses(when, said):
    lines = [x for x in lines_of(2, "-c", CHECKED, when) if x[:1] in ("0", "1") and "[" in x]
    assert len(lines) == 2
    for line in lines:
        assert (
            (said in line and ("rank 1: " in line) == line.startswith("0"))
            if said
            else "[]" in line
        )


REFUSED = {  # models of refused_ranks.py: refusals that both ranks list and raise
    "record_of_another": "neuron.netcon-record-gid",
    "compressed": "neuron.spike-compress-delay",
    "pattern": "neuron.patternstim-on-ranks",
    "steered": "neuron.pointer-in-net-receive-on-ranks",
    "played": "neuron.random-play-on-ranks",
    "late_bins": "neuron.old-bins",
    "table_to_come": "neuron.table-not-filled",
    "transferred": "neuron.vector-record-target-var",
}


def test_check_lists_what_ranks_refuse():
    result = told(2, program=PROGRAM.with_name("refused_ranks.py"))
    first, second = result.pop("one_rank")
    assert first == 2 * [["neuron.other-rank"]] and second == 2 * [["neuron.acting-object"]]
    assert result == {name: 2 * [2 * [[said]]] for name, said in REFUSED.items()}

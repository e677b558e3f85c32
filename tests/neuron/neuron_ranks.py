"""A network of NEURON on MPI ranks: ``neuron_ranks.py [OPTION...] SCENARIO...``; see `options`.

Rank 0 prints the results of each scenario for all ranks. A scenario is NEURON itself (``neuron``),
an engine, repeated runs (``again-ENGINE``, ``again`` in NEURON), runs whose calls a coin assigns
(``coin-SEED``), or a refused model.
"""

import argparse
import gc
import json
from contextlib import ExitStack, contextmanager, suppress

import numpy as np
from mpi4py import MPI
from neuron import h

import clhines
from clhines import ClhinesError
from clhines.core.errors import BuildError, DeviceMemoryError, InputError
from clhines.neuron import disable, enable, entry, reading
from clhines.neuron import kept as kept_models
from clhines.neuron.switch.cost import Accounts
from clhines.simulator.ranks.joints import JoinedExchange
from clhines.simulator.ranks.one_device import OneDeviceRun
from clhines.simulator.simulation import Simulation

CELLS, STIM, FIRES = 6, 50, 60  # gid STIM is a NetStim; gids from FIRES on are IntFire1
TRAINS, CROWDED = 70, 80
STOPS = 1.7, 15.0, 16.0, 30.0  # ms; the first after a step in which NEURON itself sees a spike
comm = MPI.COMM_WORLD
if comm.size > 1:
    h.nrnmpi_init()
pc, kept = h.ParallelContext(), []
rank, ranks = int(pc.id()), int(pc.nhost())


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("scenarios", nargs="+")
    for name, what in (
        ("during", "the next half of an epoch, as on GPUs"),
        ("one", "one device for the cells of all ranks, as on GPUs"),
        ("compress", "spikes are compressed"),
        ("soon", "delays of less than two steps"),
        ("empty", "rank 0 has all cells, the last one artificial ones; in one call"),
        ("outside", "a field that some cells are in, and others not"),
        ("unrecorded", "spikes alone are recorded"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=what)
    for name, what in (
        ("gaps", "a ring of gap junctions, none of them on the last rank of three"),
        ("watch", "a WATCH condition, on one rank alone"),
        ("trains", "of given times, also at the ends of calls; the last rank has both"),
    ):
        parser.add_argument(f"--{name}", metavar="LIBRARY", help=what)
    parser.add_argument("--bins", type=int, choices=(0, 1), help="as nrntraub has them")
    return parser.parse_args()


class Cell:
    """A soma with a dendrite, and two synapses there."""

    def __init__(self, gid):
        self.soma, self.dend = h.Section(name=f"soma{gid}"), h.Section(name=f"dend{gid}")
        self.soma.L = self.soma.diam = 20 + gid
        self.dend.L, self.dend.diam, self.dend.nseg = 200, 2, 5
        self.dend.connect(self.soma(1))
        self.soma.insert("hh")
        self.dend.insert("pas")
        self.excites, self.inhibits = h.ExpSyn(self.dend(0.5)), h.Exp2Syn(self.dend(0.1))
        self.excites.tau, self.inhibits.e = 2, -80
        netcon = h.NetCon(self.soma(0.5)._ref_v, None, sec=self.soma)
        netcon.threshold = 10
        pc.set_gid2node(gid, rank)
        pc.cell(gid, netcon)


def connect(gid, target, weight, delay):
    netcon = pc.gid_connect(gid, target)
    netcon.weight[0], netcon.delay = weight, delay
    kept.append(netcon)


asked = options()
if asked.during:
    JoinedExchange.overlap = True
if asked.one:
    OneDeviceRun.wanted = True
if asked.empty:
    STOPS = STOPS[-1:]
for library in filter(None, (asked.gaps, asked.watch, asked.trains)):
    h.nrn_load_dll(library)
own = range(rank, CELLS, ranks) if not asked.empty else range(CELLS * (not rank))
cells = {gid: Cell(gid) for gid in own}
if rank == ranks - 1:
    stim = h.NetStim()
    stim.number, stim.interval = 3, 20
    stim.start = 5 + 0.01 * asked.compress  # between steps
    pc.set_gid2node(STIM, rank)
    pc.cell(STIM, h.NetCon(stim, None))
for gid, cell in cells.items():
    connect((gid - 1) % CELLS, cell.excites, 0.05, 0.037 if asked.soon else 2.0)
    connect((gid - 2) % CELLS, cell.inhibits, 0.004, 1.3)
    if gid in (0, 3) and asked.bins is None:
        connect(STIM, cell.excites, 0.05, 1.0 + gid / 10 + 1.01 * asked.compress)
if asked.gaps:
    ring = [gid for gid in range(CELLS) if gid % 3 != 2]
    for place, gid in enumerate(ring):
        if gid not in cells:
            continue
        cell = cells[gid]
        pc.source_var(cell.dend(0.9)._ref_v, gid, sec=cell.dend)
        for other in ring[place - 1], ring[(place + 1) % len(ring)]:
            half = h.imp_gap(cell.dend(0.9))
            half.g = 2e-4 * (1 + min(gid, other))
            pc.target_var(half, half._ref_vother, other)
            kept.append(half)
    pc.setup_transfer()
if asked.outside:
    for gid, cell in cells.items():
        for section in (cell.soma, cell.dend) if gid % 3 < 2 else ():
            section.insert("extracellular")
            for segment in section:
                x = segment.x * section.L * (1 if section == cell.dend else 0.1)
                segment.e_extracellular = 0.02 * x
                if gid % 2:
                    given = h.Vector([0, 0.1 * x, -0.05 * x, 0.2 * x])
                    times = h.Vector([0, 4, 9, 50])
                    given.play(segment._ref_e_extracellular, times, 1)
                    kept.extend([given, times])
if asked.watch and 1 in cells:
    watch = h.ext_watch(cells[1].soma(0.5))
    connect(0, watch, 0.0, 2.0)
    kept.append(watch)
if asked.trains:
    for gid in (TRAINS, TRAINS + 1) if rank == ranks - 1 else ():
        given = h.Vector([0, 1.7, 1.725, 3.31, 14.99, 15, 15.01, 16, 29.9 + 0.05 * (gid > TRAINS)])
        train = h.vec_inside()
        train.play(given)
        pc.set_gid2node(gid, rank)
        pc.cell(gid, h.NetCon(train, None))
        kept.extend([given, train])
    for gid, cell in cells.items():
        connect(TRAINS + gid % 2, cell.excites, 0.02 + 0.004 * gid, 1.0)  # no delay is smaller
if asked.bins is not None:
    for gid, cell in cells.items():  # they fire at the time of the event: the bin's
        fires = h.IntFire1()
        pc.set_gid2node(FIRES + gid, rank)
        pc.cell(FIRES + gid, h.NetCon(fires, None))
        connect((gid - 1) % CELLS, fires, 2.0, 1.5)
        netcon = h.NetCon(cell.soma(0.5)._ref_v, fires, 10, 1.516, 2.0, sec=cell.soma)
        clamp = h.IClamp(cell.soma(0.5))
        clamp.delay, clamp.dur, clamp.amp = 1 + 3 * gid, 1, 2 * (gid % 3 == 0)
        kept.extend([fires, netcon, clamp])
    if asked.bins:
        pc.spike_compress(5, 1)
        h.CVode().queue_mode(1, 0)
if asked.compress:
    pc.spike_compress(3, 0)
times, gids = h.Vector(), h.Vector()
pc.spike_record(-1, times, gids)
v, i = h.Vector(), h.Vector()
if rank in cells and not asked.unrecorded:
    v.record(cells[rank].soma(0.5)._ref_v)
if asked.gaps:
    i.record(cells[rank].excites._ref_i)
pc.set_maxstep(10)


def ran(v_init=-65, engine=None, back=STOPS[-1], stops=STOPS):
    """Return spikes of all ranks, v and a current of cell 0; after `back`, ms, NEURON steps."""
    if engine:
        enable(engine=engine, strict=True)
    h.finitialize(v_init)
    for stop in stops:
        if stop > back:
            disable()
        pc.psolve(stop)
    disable()
    return found_by_all()


def tossed(seed):
    """Runs in which a coin assigns each call, and the steps on the device."""
    rng, decide, runs = np.random.default_rng(seed), Accounts.device_is_sooner, []
    decisions = []

    def toss(*_):  # all ranks toss alike
        decisions.append(bool(rng.random() < 0.5))
        return decisions[-1]

    Accounts.device_is_sooner = toss
    on = enable(when="faster")
    for v_init in -65, 20:
        h.finitialize(v_init)
        for stop in sorted({*STOPS, *rng.uniform(0.5, STOPS[-1], 4).tolist()}):
            pc.psolve(stop)
        runs.append(found_by_all())
    disable()
    Accounts.device_is_sooner = decide
    return runs, comm.gather(on.steps), decisions


def found_by_all():
    spikes = comm.gather([*zip(times.to_python(), gids.to_python(), strict=True)])
    return sorted(pair for some in spikes or [] for pair in some), [*v, *i]


def far(v_init):
    """NEURON detects a spike in its step, after more steps than ``spike_compress`` can count."""
    spikes = comm.bcast(ran(v_init, "auto")[0])
    stop = max(t for t, gid in spikes if gid < CELLS and 8 < t < 20) + h.dt
    return ran(v_init, "auto", stop, (stop, STOPS[-1]))


def refused(do):
    """Return each rank's refusal."""
    try:
        do()
        line = "nothing"
    except ClhinesError as error:
        line = f"{type(error).__name__}: {' '.join(str(error).split())}"
    gc.collect()  # points that the frames of an error hold would go in the middle of a run
    return comm.gather(line)


@contextmanager
def held(thing, name, value):
    """Set an attribute for the block."""
    original = getattr(thing, name)
    setattr(thing, name, value)
    try:
        yield
    finally:
        setattr(thing, name, original)


def setting():
    """A setting of NEURON on one rank only."""
    with held(h, "nrn_netrec_state_adjust", int(rank == 1)):
        h.finitialize(-65)
        pc.psolve(5)


def changed():
    """A weight that one rank changes in the middle."""
    h.finitialize(-65)
    pc.psolve(5)
    if rank == 1:
        kept[0].weight[0] *= 1.5
    try:
        pc.psolve(10)
    finally:
        if rank == 1:
            kept[0].weight[0] /= 1.5


def early():
    """A delay below a step, which NEURON has not seen."""
    h.finitialize(-65)
    with held(kept[0], "delay", 0.01):
        pc.psolve(5)


def loose():
    """A delay between steps."""
    h.finitialize(-65)
    with held(kept[0], "delay", kept[0].delay + 0.016):
        pc.psolve(5)


def shifted():
    """The smallest delay between steps, from which compressed spikes are counted."""
    with ExitStack() as stack:
        for netcon in kept:
            stack.enter_context(held(netcon, "delay", 1.26))
        h.finitialize(-65)
        pc.psolve(5)


def mixed():
    """Bins on one rank only."""
    h.CVode().queue_mode(rank == 1, 0)
    h.finitialize(-65)
    try:
        pc.psolve(5)
    finally:
        h.CVode().queue_mode(1, 0)


def moved():
    """A clock that one rank sets, in calls that would go to the sooner one."""
    h.finitialize(-65)
    with enable(when="faster", strict=True):
        pc.psolve(1)
        h.t += h.dt * (rank == 1)
        pc.psolve(5)


def uneven():
    """A switch that leaves calls to NEURON on one rank only."""
    h.finitialize(-65)
    with enable(when=("always", "never")[rank]):
        pc.psolve(5)


def variable():
    """Variable steps on one rank."""
    h.CVode().active(rank == 1)
    h.finitialize(-65)
    try:
        pc.psolve(5)
    finally:
        h.CVode().active(0)


def infinite():
    """A voltage that is not finite on one rank."""
    h.finitialize(-65)
    if rank == 1:
        cells[1].soma(0.5).v = float("nan")
    pc.psolve(5)


def crowded():
    """More pending events than there is room for, after the ranks' exchange at the end."""
    train, listens = h.NetStim(), h.IntFire1()
    train.start, train.interval, train.number, train.noise = 0.001, 0.01, 1e9, 0
    kept.extend([train, listens])
    if rank == 0:
        pc.set_gid2node(CROWDED, 0)
        pc.cell(CROWDED, h.NetCon(train, None))
    else:
        connect(CROWDED, listens, 1e-9, 300.0)
    h.finitialize(-65)
    pc.psolve(82.0)


def played():
    """A Random that one rank plays."""
    clamp, random = h.IClamp(cells[rank].soma(0.5)), h.Random(1)
    if rank == 1:
        random.play(clamp._ref_amp)
    h.finitialize(-65)
    pc.psolve(5)


def calling():
    """A statement that spikes of one rank call, and one that a Vector calls there."""
    netcon, vector = h.NetCon(cells[rank].soma(0.5)._ref_v, None, sec=cells[rank].soma), h.Vector(9)
    if rank == 1:
        netcon.record("t = t")
        vector.play("t = t", 1)
    h.finitialize(-65)
    try:
        pc.psolve(5)
    finally:
        netcon.record("")


def planted(module, name, error):
    """Let a function that a run calls fail on one rank."""

    def fail(*_, **__):
        raise error

    return held(module, name, fail if rank == 1 else getattr(module, name))


def left():
    """Runs that NEURON takes on all ranks, as one rank refuses, cannot build, or cannot write."""
    runs, said = [], []
    faults = (
        (reading, "check_made", InputError("planted: not simulated")),
        (entry, "network_of", BuildError("planted: no kernel")),
        (entry, "_simulation", DeviceMemoryError("planted: no memory")),
        (kept_models, "check_values", InputError("planted: at the end")),
    )
    for module, name, error in faults:
        on = enable(engine="steps")
        with planted(module, name, error):
            h.finitialize(-65)
            for stop in STOPS:
                pc.psolve(stop)
        runs.append([found_by_all(), on.steps])
        said.append(comm.gather(on.reasons))
        disable()
    on = enable(engine="steps")
    h.finitialize(-65)
    pc.psolve(STOPS[0])
    event = h.StateTransitionEvent(2) if rank == 1 else None  # waits for nothing
    pc.psolve(STOPS[-1])
    del event
    runs.append([found_by_all(), on.steps])
    said.append(comm.gather(on.reasons))
    disable()
    return runs, said


def pieces():
    """A cell on two ranks; it stays split."""
    cells[rank].soma.push()
    pc.splitcell_connect(1 - rank)
    h.pop_section()
    h.finitialize(-65)
    pc.psolve(5)


def epochs():
    """Kernels that do not exchange voltages in each step."""
    with enable(engine="epochs", strict=True):
        h.finitialize(-65)
        pc.psolve(5)


def again(engine):
    """Runs from the start, the third after a change on rank 1; also count the simulations made.

    NEURON calls a function without effect every few steps, like a progress report of a script.
    """
    made, original, called = [], Simulation.__init__, []

    def call():
        called.append(h.t)
        h.CVode().event(h.t + 1.21, call)

    def counted(sim, *given, **options):
        made[-1] += 1
        original(sim, *given, **options)

    Simulation.__init__, runs, handler = counted, [], h.FInitializeHandler(call)
    for v_init, tau in (-65, 2), (20, 2), (-65, 2.5), (20, 2), (-65, 2):
        made.append(0)
        if rank == 1 or ranks == 1:
            cells[1].excites.tau = tau
        runs.append(ran(v_init, engine))
    Simulation.__init__ = original
    del handler
    return runs, comm.gather(made), comm.gather(called)


OTHERS = moved, uneven, variable, infinite, crowded, played, calling, pieces, epochs
REFUSED = {f.__name__: f for f in (setting, changed, early, loose, shifted, mixed, *OTHERS)}
REFUSED["from_neuron"] = clhines.from_neuron


def found_of(scenario):
    more = scenario.partition("-")[2]
    if scenario == "neuron":
        return ran(), ran(20)  # above thresholds
    if scenario == "fails":  # on a rank, while the others go on
        ran(-65, "auto")
        if rank == 1:
            raise ValueError("of the script")
        ran(-65, "auto")
    if scenario == "left":
        return left()
    if scenario.startswith("coin"):
        return tossed(int(more))
    if scenario.startswith("again"):
        return again(more)
    if scenario in REFUSED:
        with enable(engine="steps", strict=True):
            return refused(REFUSED[scenario])
    if scenario == "far":
        return far(-65), far(20)
    arguments = ("auto", STOPS[0] if asked.soon else 15.0) if scenario == "back" else (scenario,)
    return ran(-65, *arguments), ran(20, *arguments)


found = {scenario: found_of(scenario) for scenario in asked.scenarios}
if rank == 0:
    print(json.dumps(found), flush=True)
pc.barrier()
with suppress(SystemExit):
    h.quit()

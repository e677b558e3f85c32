"""Models that MPI ranks refuse: the ids that check() lists, and the ids that run() raises.

``refused_ranks.py``: rank 0 prints them for all ranks, by the name of the model.
"""

import json
import sys
from contextlib import suppress
from pathlib import Path
from types import FunctionType

sys.path.append(str(Path(__file__).parents[1]))
from mpi4py import MPI
from support import mod_files, raised

import clhines
from clhines.core.errors import InputError, RankError
from clhines.neuron.convert import RejectedError
from clhines.simulator.refusals import id_of, sentence_of

raised.note()
comm = MPI.COMM_WORLD
h = mod_files.loaded()
h.nrnmpi_init()
pc, soma = h.ParallelContext(), h.Section(name="soma")
rank = int(pc.id())
soma.L = soma.diam = 20
soma.insert("pas")
synapse = h.ExpSyn(soma(0.5))
pc.set_gid2node(rank, rank)
pc.cell(rank, h.NetCon(soma(0.5)._ref_v, None, sec=soma))
wire = pc.gid_connect(1 - rank, synapse)
wire.delay = 1
pc.set_maxstep(10)


def one_rank():
    return h.StateTransitionEvent(2) if rank else None


def record_of_another():
    times = h.Vector()
    wire.record(times)
    return times


def compressed():
    pc.spike_compress(4)
    wire.delay = 1.26


def pattern():
    stim, times, gids = h.PatternStim(), h.Vector([1]), h.Vector([rank])
    stim.play(times, gids)
    return stim, times, gids


def steered():
    rule, stim = h.ext_steer(soma(0.5)), h.NetStim()
    by = h.NetCon(stim, rule)
    netcon = h.NetCon(stim, synapse)
    rule._ref_w, by.delay = netcon._ref_weight[0], 2.5
    return rule, stim, by, netcon


def played():
    clamp, random = h.IClamp(soma(0.5)), h.Random()
    random.play(clamp._ref_amp)
    return clamp, random


def late_bins():
    h.CVode().queue_mode(1, 0)
    return lambda: setattr(h, "t", 0.05)


def table_to_come():
    soma.insert("ext_aside")
    soma(0.5).ext_aside.early = 0


def transferred():
    gap, v = h.imp_gap(soma(0.5)), h.Vector()
    pc.source_var(soma(0.5)._ref_v, rank, sec=soma)
    pc.target_var(gap, gap._ref_vother, 1 - rank)
    pc.setup_transfer()
    v.record(gap._ref_vother)
    return gap, v


def restore():
    h.CVode().queue_mode(0, 0)
    pc.spike_compress(0)
    wire.delay = 1
    wire.record()
    soma.uninsert("ext_aside")


def ids(refuse):
    """Return the ids that a call lists or raises."""
    try:
        names = [id_of(one.construct) for one in refuse() or ()]
    except RejectedError as error:
        names = [id_of(one.construct) for one in error.rejected]
    except RankError:
        names = ["neuron.other-rank"]
    except InputError as error:
        names = [id_of(sentence_of(error))]
    return sorted({*names})


MODELS = (
    one_rank, record_of_another, compressed, pattern, steered, played, late_bins, table_to_come,
    transferred,
)  # fmt: skip
results = {}
for make in MODELS:
    kept = make()
    h.finitialize(-65)
    if isinstance(kept, FunctionType):
        kept()
    listed = ids(clhines.neuron.check)
    refused = ids(lambda: clhines.neuron.run(float(h.t) + 1, engine="reference"))
    results[make.__name__] = comm.gather([listed, refused])
    del kept
    restore()
if rank == 0:
    sys.stdout.write(f"{json.dumps(results)}\n")
sys.stdout.flush()
pc.barrier()
with suppress(SystemExit):
    h.quit()

"""Smallest models that a run refuses: prints the ids of check(), and the ids of run().

``refused_program.py NAME``: the id of a row of `MODELS`.
"""

import json
import sys

from support import mod_files
from support.neuron_scripts import make_section

import clhines
from clhines.neuron import importer, mechanisms
from clhines.neuron.convert import RejectedError
from clhines.neuron.memory.memory import VectorLists
from clhines.neuron.memory.raw import Place, PlayEntry
from clhines.neuron.read import hooks
from clhines.neuron.read.contents import Instances, WatchSlots
from clhines.simulator.refusals import id_of, sentence_of

h = mod_files.loaded()
soma, pc = make_section("soma", "pas", L=20, diam=20), h.ParallelContext()
MODELS, KEPT = {}, []


def model(name, **options):
    """Register a function that makes a model; it may return a function for after h.finitialize().

    `options` are options of `run`.
    """

    def add(make):
        MODELS[name] = make, options
        return make

    return add


def keep(thing):
    KEPT.append(thing)
    return thing


def record(reference):
    keep(h.Vector().record(reference))


def connect(source, target):
    return keep(h.NetCon(source, target))


def load_refused():
    names = sorted(p.stem for p in mod_files.FOLDER.joinpath("refused").glob("*.mod"))
    h.nrn_load_dll(str(mod_files.library([f"refused/{name}" for name in names])))


# -- memory that cannot be read: planted, as NEURON 9.0 has all of it ------------------------------


@model("neuron.scatter-gather-unreadable")
def scatter_not_seen():
    seen = hooks.entries_of
    hooks.entries_of = lambda name: None if name == "extra_scatterlist" else seen(name)


@model("neuron.unknown-recorder")
def object_that_records():
    """NEURON makes such an object for a Graph if there is a display."""
    played = PlayEntry("unknown", Place(0, 0, 0), (), 0, False, 0)
    VectorLists.played = lambda self, every=False: [played]


@model("neuron.vector-unreadable")
def vector_gone():
    record(soma(0.5)._ref_v)
    VectorLists.by_address = lambda self: {}


@model("neuron.events-unreadable")
def slots_not_seen():
    def place_of(*_):
        raise OSError("planted")

    WatchSlots.place_of = place_of
    keep(h.nmburst())


@model("neuron.variable-unreadable")
def column_not_seen():
    Instances.hidden = {}
    keep(h.ext_array(soma(0.5)))


@model("neuron.local-unreadable")
def local_not_seen():
    importer.local_at = lambda *_: None
    soma.insert("nmbegun")


# -- records and transfers -------------------------------------------------------------------------


def train(times=None):
    """A VecStim with a place in a membrane."""
    load_refused()
    source = keep(h.ref_train(soma(0.5)))
    source.play(times or keep(h.Vector([1, 2])))
    return source


@model("neuron.vector-record-not-simulated")
def record_of_train():
    record(train()._ref_index)


@model("neuron.transfer-not-set-up")
def target_after_setup():
    gaps = [keep(h.imp_gap(soma(0.5))) for _ in range(2)]
    pc.source_var(soma(0.5)._ref_v, 1, sec=soma)
    pc.target_var(gaps[0], gaps[0]._ref_vother, 1)
    pc.setup_transfer()
    return lambda: pc.target_var(gaps[1], gaps[1]._ref_vother, 1)


# -- events ----------------------------------------------------------------------------------------


@model("neuron.netcon-source")
def compared_train():
    keep(h.NetCon(train()._ref_index, keep(h.ExpSyn(soma(0.5))), sec=soma))


@model("neuron.vecstim")
def times_that_change():
    times = keep(h.Vector([1, 2]))
    train(times)
    return lambda: times.fill(3)


@model("neuron.netcon-target-unlocated")
def target_without_segment():
    other = h.Section(name="other")
    connect(keep(h.NetStim()), keep(h.ExpSyn(other(0.5))))
    return lambda: h.delete_section(sec=other)


@model("neuron.too-many-self-events")
def many_self_events():
    """Each connection has room for eight pending self events, up to a limit for all together."""
    mechanisms._MOST_EVENTS = 1
    burst = keep(h.nmburst())
    netcon, burst.turns = connect(keep(h.NetStim()), burst), 8
    netcon.weight[0] = 1

    def send():
        for _ in range(3):
            netcon.event(0.01)
        h.fadvance()

    return send


# -- POINTERs --------------------------------------------------------------------------------------


def add_to(totals, wholes):
    soma.insert("ext_adds")
    for segment, total, whole in zip(soma, totals, wholes, strict=True):
        adds = segment.ext_adds
        adds.ri = adds.length = 1
        adds._ref_neighbour, adds._ref_total, adds._ref_whole = segment._ref_v, total, whole


@model("neuron.pointer-sum-not-reset")
def adds_to_vector():
    numbers = keep(h.Vector(2))
    add_to([numbers._ref_x[0]], [numbers._ref_x[1]])


@model("neuron.pointer-written-target")
def adds_to_voltage():
    add_to([keep(h.Vector(1))._ref_x[0]], [soma(0.5)._ref_v])


@model("neuron.pointer-written-to-several")
def adds_to_several():
    soma.nseg = 2
    numbers, total = keep(h.Vector(4)), keep(h.ext_total(soma(0.5)))
    total._ref_whole = numbers._ref_x[3]
    add_to([numbers._ref_x[0], total._ref_total], [numbers._ref_x[1], numbers._ref_x[2]])


def insert_outside(name, reads, sets):
    soma.insert("extracellular")
    soma.insert(name)
    mechanism = getattr(soma(0.5), name)
    h.setpointer(soma(0.5)._ref_i_membrane, reads, mechanism)
    h.setpointer(soma(0.5)._ref_e_extracellular, sets, mechanism)


@model("neuron.potential-not-set-before-step")
def potential_that_nothing_sets():
    insert_outside("ext_outside", reads="ex", sets="im")


@model("neuron.potential-depends-on-i-membrane")
def potential_of_current():
    load_refused()
    insert_outside("ref_taint", reads="im", sets="ex")


@model("neuron.pointer-depends-on-i-membrane")
def pointer_to_current():
    insert_outside("ext_outside", reads="im", sets="ex")
    h.setpointer(soma(0.5).ext_outside._ref_er, "vgap", keep(h.ext_gap(soma(0.5))))


@model("neuron.pointer-unreadable")
def stream_without_point():
    load_refused()
    soma.insert("ref_stream")


def steered(synapse):
    """Let an event set the weight in a synapse's NetCon."""
    stim, rule = keep(h.NetStim()), keep(h.ext_steer(soma(0.5)))
    rule._ref_w = connect(stim, keep(synapse))._ref_weight[0]
    connect(stim, rule).delay = 2.5


@model("network.pointer-weight-set-twice")
def weight_that_two_set():
    steered(h.nmplast(soma(0.5)))


@model("network.pointer-weight-in-bins")
def weight_in_bins():
    steered(h.ExpSyn(soma(0.5)))
    h.CVode().queue_mode(1, 0)


# -- settings --------------------------------------------------------------------------------------


@model("neuron.cvode-variable-time-steps")
def variable_steps():
    h.CVode().active(1)


@model("neuron.threads")
def two_threads():
    pc.nthread(2)


@model("neuron.secondorder")
def third_order():
    h.secondorder = 3


@model("neuron.secondorder-changed")
def order_that_changes():
    return lambda: setattr(h, "secondorder", 2)


@model("neuron.netrec-state-adjust")
def adjusted_states():
    h.nrn_netrec_state_adjust = 1


@model("neuron.cvode-queue-mode")
def second_queue():
    h.CVode().queue_mode(0, 1)


# -- draws, tables, bins, electrodes ---------------------------------------------------------------


@model("neuron.random-words-before-set-ids")
def words_before():
    draws = keep(h.nmrandom(soma(0.5)))
    draws.first.set_ids(1, 2, 3)
    draws.second.set_ids(4, 5, 6)
    return lambda: draws.first.set_ids(7, 8, 9)


@model("neuron.table-differs")
def table_of_each():
    load_refused()
    soma.nseg = 2
    soma.insert("ref_table")
    soma(0.25).ref_table.half = -50


@model("network.engine-steps-bins", engine="steps")
def late_in_bins():
    fires = [keep(h.IntFire1()) for _ in range(2)]
    connect(keep(h.NetStim()), fires[0])
    connect(*fires).delay = 0.6 * h.dt
    h.CVode().queue_mode(1, 0)


@model("network.i-membrane-two-currents")
def membrane_at_two_currents():
    load_refused()
    h.CVode().use_fast_imem(1)
    keep(h.ref_clamp(soma(0.5)))
    record(soma(0.5)._ref_i_membrane_)


def ids(rejected):
    return sorted({id_of(one.construct) for one in rejected})


def main(name):
    make, options = MODELS[name]
    after = make()
    h.finitialize(-65)
    if after is not None:
        after()
    listed, raised = ids(clhines.neuron.check()), []
    try:
        clhines.neuron.run(h.t + 1, **{"engine": "reference", **options})
    except RejectedError as error:
        raised = ids(error.rejected)
    except clhines.InputError as error:
        raised = [id_of(sentence_of(error))]
    print(json.dumps([listed, raised]))


main(sys.argv[1])

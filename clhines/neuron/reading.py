"""Read a model from NEURON's memory, and list the constructs that are not supported."""

from __future__ import annotations

import numpy as np

from clhines.core.errors import InputError
from clhines.core.progress import phase
from clhines.neuron.convert import RejectedError, reject, rejection
from clhines.neuron.extracellular.layers import are_own, with_layers
from clhines.neuron.extracellular.outside import Outside
from clhines.neuron.mechanisms import (
    asks_generator,
    check_made,
    convert_all,
    convert_mechanism,
    find_pointed,
    find_written,
)
from clhines.neuron.memory.fields import find_fields
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.session import Hoc, all_sections
from clhines.neuron.memory.sources import EventSources
from clhines.neuron.memory.streams import PointerStreams
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.catalogue import Catalogue
from clhines.neuron.read.contents import WatchSlots, read_contents
from clhines.neuron.read.draws import Draws
from clhines.neuron.read.hooks import GATHERED, acting, gathering, refused_settings
from clhines.neuron.read.places import MemoryPlaces
from clhines.neuron.read.played import PlayReader
from clhines.neuron.read.queue import Bins, EventQueue, check_bins, check_compressed, read_pending
from clhines.neuron.read.trains import read_trains
from clhines.neuron.read.tree import read_tree
from clhines.neuron.read.wiring import read_wires
from clhines.neuron.read.written import read_steered
from clhines.neuron.stepping.advance import read_step_code
from clhines.simulator.mechanisms import GENERATOR
from clhines.simulator.ranks import ONE_PROCESS, Ranks


def refuse_variable_steps(h: Hoc, ranks: Ranks) -> None:
    """Raise RejectedError on all MPI ranks if CVode's variable steps are on.

    Reading rebuilds changed sections. CVode would not know of it, and NEURON's next step would end
    the process.
    """
    if ranks.any(bool(h.CVode().active())):
        raise rejection("", "neuron.cvode-variable-time-steps")


def read_model(h: Hoc, every: bool = False, ranks: Ranks = ONE_PROCESS) -> NeuronModel:
    """Read NEURON's present model, including the constructs that are not supported.

    With `every`, also read Vectors that only record or play after ``h.finitialize()``.
    """
    refuse_variable_steps(h, ranks)
    with ranks.agreed():
        model = _read(h, every, ranks)
    _number_nodes(model, ranks)
    with ranks.agreed():
        model.gaps, unset = model.read_gaps()
        model.rejected += unset
        parts = model.memory, model.places, model.every
        model.rejected += model.outside.find_drivers(*parts)
        convert_all(model)
        recorded = [r.variable for r in model.plays.recorders if r.variable is not None]
        settings = recorded, int(h.secondorder), bool(model.memory.transfers)
        model.rejected += model.outside.rejected(model.every, model.mechanisms, *settings)
        find_pointed(model)
        find_written(model)
        model.steered, unset = read_steered(
            model.memory, model.wires, model.every, model.mechanisms
        )
        model.rejected += unset
        if model.steered and ranks.size > 1:
            name, _ = next(iter(model.steered))
            model.rejected.append(reject(name, "neuron.pointer-in-net-receive-on-ranks"))
        _check_draws(model, ranks)
        _find_drawing(model, ranks)
        model.rejected += check_made(model)
        times = {at for o in model.wires.origins for at in (o.times, o.numbers)}
        if any(r.address in times for r in model.plays.recorders):
            model.rejected.append(reject("", "neuron.vector-record-twice"))
        if model.bins is not None:
            step = float(h.dt)
            model.rejected += check_bins(model.wires, model.pending, model.mechanisms, step)
        if ranks.size > 1 and h.ParallelContext().spike_compress():
            model.rejected += check_compressed(model.queue, float(h.t), float(h.dt))
        model.step_code, model.draws_graphs, model.uncalled = read_step_code(model)
        if model.gathers and model.step_code is not None:
            words = {"gathered": GATHERED, "procedure": model.step_code.name}
            model.rejected.append(reject("", "neuron.scatter-gather-and-advance", **words))
    return model


def _number_nodes(model: NeuronModel, ranks: Ranks) -> None:
    """Assign numbers to all ranks' nodes; InputError if only some ranks transfer voltages."""
    count = model.tree.num_nodes
    counts = ranks.gather_numbers([count, model.memory.transfers])
    if np.ptp(counts[:, 1]):
        raise InputError("some MPI ranks transfer voltages; expected pc.setup_transfer() on all")
    first = int(counts[: ranks.rank, 0].sum())
    model.nodes, model.all_nodes = range(first, first + count), int(counts[:, 0].sum())


def _read(h: Hoc, every: bool, ranks: Ranks) -> NeuronModel:
    phase("reading NEURON's memory")
    catalogue = Catalogue(h)
    lone = _checked(catalogue, ranks.size > 1)
    try:
        memory = NeuronMemory(h)
        queue, sources = EventQueue(memory), EventSources(h, memory)
        memory.settle()
        fields = find_fields(memory)
        tree, data = read_tree(memory, fields)
        contents = read_contents(h, memory, fields, (tree, data), catalogue)
        if contents.outside is not None and are_own(contents.outside):
            tree = with_layers(tree, contents.outside, memory)
            contents = read_contents(h, memory, fields, (tree, data), catalogue)
        hooks = acting(h, memory)
        slots = WatchSlots(memory)
        bins = None
        if int(h.CVode().queue_mode()) & 1:
            bins = Bins(memory, queue, float(h.t), float(h.dt))
        places = MemoryPlaces(memory, fields, tree, contents)
        wires, unwired = read_wires((memory, sources), places, contents)
        draws = Draws(memory, places)
    except OSError as error:
        raise InputError(
            f"NEURON's memory cannot be read here ({error}); expected NEURON 9 on Linux or macOS"
        ) from None
    pending = read_pending(queue, wires)
    plays = PlayReader(memory, places, every)
    trains = read_trains(memory, contents, pending)
    outside = Outside(tree, contents, [*plays.players, *draws.players])
    parts = wires, pending, plays, trains, slots, draws, outside
    model = NeuronModel(h, memory, queue, sources, fields, tree, contents, places, *parts)
    model.lone, model.bins, model.gathers = lone, bins, len(gathering()) > 0
    model.point_names = tuple(catalogue.points())
    model.rejected += [*refused_settings(h, memory), *hooks, *unwired]
    for name, section in contents.structural.items():
        place = f", in section {section}" if section else ""
        said = reject(name, "neuron.mechanism-without-nmodl", name=name, what=place)
        model.rejected.append(said)
    several = [section for section in tree.sections if section.rallbranch != 1]
    if several:  # each stands for several equal branches
        words = {"rallbranch": several[0].rallbranch, "name": several[0].name()}
        model.rejected.append(reject("", "neuron.rallbranch", **words))
    for part in (pending, plays, trains, draws):
        model.rejected += part.rejected
    return model


def _checked(catalogue: Catalogue, is_shared: bool) -> Hoc | None:
    lone, first = None, next(iter(all_sections()), None)
    if first is None and (is_shared or catalogue.has_artificial()):
        from neuron import nrn  # hoc may have a variable `Section`, too

        lone = nrn.Section(name="lone")
    hiding = catalogue.hiding(first(0.5)) if first is not None else []
    if hiding:
        refused = (reject(n, "neuron.kschan-hides-variable", variable=v) for n, v in hiding)
        raise RejectedError([*refused])
    if first is None and lone is None:
        raise InputError("NEURON has no sections; expected a model in its memory")
    return lone


def _check_draws(model: NeuronModel, ranks: Ranks) -> None:
    """Reject Random.play on several MPI ranks, and mechanisms that draw from a played Random."""
    if not model.draws:
        return
    if ranks.size > 1:
        model.rejected.append(reject("", "neuron.random-play-on-ranks"))
    for name, mechanism in model.mechanisms.items():
        for variable in mechanism.program.picked:
            streams = model.streams(name, variable)
            if isinstance(streams, PointerStreams) and streams.addresses & model.draws.streams:
                said = reject(name, "neuron.pointer-to-played-random", variable=variable)
                model.rejected.append(said)


def _find_drawing(model: NeuronModel, ranks: Ranks) -> None:
    """Convert the mechanism that draws from NEURON's shared generator; reject several instances."""
    programs = {name: mechanism.program for name, mechanism in model.mechanisms.items()}
    asking = [name for name in programs if asks_generator(model, name)]
    drawing = [name for name, p in programs.items() if GENERATOR in p.random or name in asking]
    several = sum(len(model.every[name]) for name in drawing) > 1
    if several or (asking and ranks.size > 1):
        of = "by several instances" if several else "on several MPI ranks"
        model.rejected += [reject(n, "neuron.shared-generator", of=of) for n in drawing]
        return
    for name in asking:
        pointed = {v.name for to in model.pointed.values() for v in to if v.owner == name}
        convert_mechanism(model, name, sorted(pointed), draws=True)

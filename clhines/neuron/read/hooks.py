"""Code that NEURON runs in each step outside of a model's tree, mechanisms and NetCons.

Examples are Python callbacks and split cells (multisplit). `acting` rejects all such code except
Random.play (`random_plays`) and functions of CVode.extra_scatter_gather (`gathering`). A model's
own versions of stdrun.hoc's procedures are in `stepping`. This module also reads the settings of
steps and threads.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from clhines.neuron.convert import Rejected, reject
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.objects import on_ranks
from clhines.neuron.memory.raw import Place, words_at
from clhines.neuron.memory.session import Hoc, memory_ranges
from clhines.neuron.memory.tables import entries_of

# NEURON's lists of Random.play, and of functions of CVode.extra_scatter_gather(0, f)
_RANDOM, _SCATTER = "random_play_list_", "extra_scatterlist"
_ENTRY_WORDS = 10  # in an entry of the first list
_FUNCTION = 1  # the word in a Python object of hoc that holds the function
STEPPING = "step", "advance", "Plot"  # stdrun.hoc's procedures that continuerun() calls per step
_PIECES = (  # split cells, by the variable that is set then
    (
        "nrn_multisplit_solve_",
        "multisplit",
        "connect the pieces as sections; gid_clear(2) takes it out",
    ),
    ("nrnmpi_splitcell_compute_", "splitcell_connect", "keep cells whole"),
)
_INSIDE = "within each step, between voltages and states, where a run here cannot stop"
BETWEEN = "call them between pieces, as clhines.neuron.run(h.t + 1), if that is meant"
GATHERED = "CVode.extra_scatter_gather(0, f)"
_IN_A_STEP = slice(2, 5)  # current, conductance, fixed_step_solve; others belong to CVode or starts
_OLD_STIMULI = {  # in NEURON since its first versions: C functions that print them, replacements
    "fstim": ("_Z10print_stimv", "use IClamp, and fstim(0)"),
    "fsyn": ("_Z9print_synv", "use AlphaSynapse, and fsyn(0)"),
    "fclamp": ("_Z11print_clampv", "use SEClamp, and fclamp(0, 0.5)"),
}
_OBJECTS = {  # object classes that act in each step
    "LinearMechanism": "let NEURON run it; of gap junctions write a POINT_PROCESS with a POINTER",
    "StateTransitionEvent": "write WATCH conditions in a .mod file",
}


def acting(h: Hoc, memory: NeuronMemory) -> list[Rejected]:
    """List unsupported objects and functions that act in each step; warn if some are unreadable."""
    rejected = [
        reject("", "neuron.acting-object", way_out, name=name)
        for name, way_out in _OBJECTS.items()
        if any(one.valid() if name == "LinearMechanism" else True for one in h.List(name))
    ]
    for variable, what, way_out in _PIECES:
        if memory.variable(variable):
            rejected.append(reject("", "neuron.parallelcontext", way_out, what=what))
    for name, (function, way_out) in _OLD_STIMULI.items():
        with memory.printed() as lines:
            memory.symbol(function)()
        if lines:
            rejected.append(reject("", "neuron.old-stimulus", way_out, name=name))
    return [*rejected, *_listed(h), *_python_blocks(memory)]


# -- lists that no function shows ------------------------------------------------------------------


def _listed(h: Hoc) -> list[Rejected]:
    """Reject Randoms and CVode.extra_scatter_gather if NEURON's lists of them are not found."""
    rejected = []
    if entries_of(_RANDOM) is None and len(list(h.List("Random"))):
        rejected.append(reject("", "neuron.random-play-unreadable"))
    if entries_of(_SCATTER) is not None:
        return rejected
    if next(memory_ranges(), None) is not None:
        return [*rejected, reject("", "neuron.scatter-gather-unreadable")]
    warnings.warn(  # without memory maps an unreadable list looks like a missing one
        "CVode.extra_scatter_gather cannot be seen in NEURON's memory here; a model that uses "
        "it runs without",
        stacklevel=2,
    )
    return rejected


def random_plays(h: Hoc, memory: NeuronMemory) -> list[tuple[int, Place]]:
    """Return the Random (address of its C++ object) and the variable of each Random.play."""
    plays, entries = list[tuple[int, Place]](), entries_of(_RANDOM)
    if entries:
        randoms = {*memory.insides_of(memory.objects_of(list(h.List("Random")))).tolist()}
        for at in entries:
            words = words_at(at, _ENTRY_WORDS)
            places = [k for k, word in enumerate(words[:-4]) if word in randoms]
            if not places:
                raise OSError("Random.play is not as expected")
            plays.append((words[places[0]], memory.place_of(words[places[0] + 1 :])))
    return plays


def gathering() -> np.ndarray:
    """Return the addresses, (n,) int64, of functions of CVode.extra_scatter_gather(0, f).

    They are words that point to Python objects: functions, or tuples of a function and its
    arguments.
    """
    objects = entries_of(_SCATTER) or ()
    return np.array([words_at(item, 2)[1] + 8 * _FUNCTION for item in objects], np.int64)


# -- Python code -------------------------------------------------------------------------------


def _python_blocks(memory: NeuronMemory) -> list[Rejected]:
    """Reject rxd, and functions that `nonvint_block_supervisor` calls."""
    rxd = sys.modules.get("neuron.rxd.species")
    supervisor = sys.modules.get("neuron.nonvint_block_supervisor")
    rejected = []
    species = [s for s in (ref() for ref in getattr(rxd, "_all_species", ())) if s is not None]
    if species:
        names = ", ".join(str(s.name) for s in species if s.name) or "without a name"
        rejected.append(reject("", "neuron.rxd-species", names=names))
    calls = getattr(supervisor, "call", ())
    # both are called as long as they exist
    is_listed = calls or "neuron.rxd.rxd" in sys.modules
    others = memory.variable("nrn_nonvint_block") and not is_listed
    if others or any(f is not None for call in calls for f in call[_IN_A_STEP]):
        way_out = f"unregister them; {BETWEEN}"
        rejected.append(reject("", "neuron.nonvint-block-supervisor", way_out, inside=_INSIDE))
    return rejected


def refused_settings(h: Hoc, memory: NeuronMemory) -> list[Rejected]:
    """Return unsupported settings for steps, threads and the queue, except variable steps."""
    order, queue = h.secondorder, int(h.CVode().queue_mode())
    is_order = int(order) in (0, 1, 2)
    threads = int(h.ParallelContext().nthread()) > 1
    changed = is_order and not memory.has_order(order, float(h.dt))
    rows = (
        ("neuron.threads", threads),
        ("neuron.secondorder", not is_order),
        ("neuron.secondorder-changed", changed),
        ("neuron.netrec-state-adjust", h.nrn_netrec_state_adjust),
        ("neuron.cvode-queue-mode", queue & 2),  # a separate queue for self events
    )
    return [reject("", name, order=order) for name, is_so in rows if is_so]


def settings_of(h: Hoc, memory: NeuronMemory) -> list[object]:
    """Return the settings that must not change if the stored model is to remain valid."""
    cvode = h.CVode()
    numbers = h.celsius, h.dt, h.secondorder, cvode.queue_mode(), cvode.use_fast_imem()
    index = h.Random().Random123_globalindex()
    return [
        *map(float, numbers),
        int(index),
        h.ParallelContext().spike_compress(),
        memory.transfers,
        on_ranks(h),
        *map(str, refused_settings(h, memory)),
    ]

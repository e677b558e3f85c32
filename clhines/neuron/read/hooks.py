"""Code that NEURON runs in each step outside of a model's tree, mechanisms and NetCons.

Examples are Python callbacks and split cells (multisplit). `acting` rejects all such code except
Random.play (`random_plays`) and functions of CVode.extra_scatter_gather (`gathering`). A model's
own versions of stdrun.hoc's procedures are in `stepping`. This module also reads the settings of
steps and threads.
"""

from __future__ import annotations

import ctypes
import sys
import warnings
from collections.abc import Callable, Iterator

import numpy as np

from clhines.neuron.convert import Rejected, reject
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.objects import on_ranks
from clhines.neuron.memory.raw import (
    WORD,
    Place,
    Readable,
    copied,
    ref,
    vector_at,
    word_behind,
    words_at,
)
from clhines.neuron.memory.session import Hoc, library_path
from clhines.simulator.refusals import refusal

_MOST = 1 << 20  # most entries in a list
_ENTRY_WORDS = 10  # in a readable entry
_lists: dict[str, ctypes.c_uint64] = {}  # words that hold the lists' addresses
_places: dict[str, int] = {}  # offsets in list entries
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
    return [*rejected, *_listed(h, memory), *_python_blocks(memory)]


# -- lists that no function shows ------------------------------------------------------------------
#
# Each list is found by an example: an entry is added, then a ``std::vector`` that ends with it is
# searched for through the library's variables, and the entry is removed. The vectors keep their
# addresses as long as the process lives.


def _entries(name: str) -> list[int] | None:
    """Return the 64-bit words in NEURON's list ``random`` or ``scatter``; None if not found."""
    return vector_at(_lists[name].value) if name in _lists else None


def _find(name: str, is_last: Callable[[int], bool]) -> None:
    """Store the address of NEURON's list `name`, after the example has been added to it.

    ``is_last(word)`` recognises the example. Addresses are listed here, because memory that NEURON
    has allocated for the example may be new.
    """
    readable = Readable(8 * 3)
    addresses = {at for at, last in _vectors(readable) if last in readable and is_last(last)}
    if len(addresses) == 1:
        _lists[name] = WORD(addresses.pop())


def _variables(readable: Readable) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (first address, copied words) of each range of variables in NEURON's library."""
    for begin, end in readable.of_file(library_path() or ""):
        yield begin, copied(begin, (end - begin) // 8)


def _vectors(readable: Readable) -> Iterator[tuple[int, int]]:
    """Yield (address, last entry) of each std::vector to which NEURON's variables point."""
    for _, words in _variables(readable):
        for at in np.unique(words[readable.among(words)]).tolist():
            first, after, room = [*copied(at, 3).tolist(), 0, 0, 0][:3]
            if first < after <= room and after - first < 8 * _MOST and first in readable:
                if (after - first) % 8 == 0 and after - 8 in readable:
                    yield at, word_behind(after - 8)


def _listed(h: Hoc, memory: NeuronMemory) -> list[Rejected]:
    """Locate the lists of Random.play and CVode.extra_scatter_gather; return rejections."""
    if _entries("random") is None:
        _find_random(h, memory)
    if _entries("scatter") is None:
        _find_scatter(h)
    played, called = _entries("random"), _entries("scatter")
    rejected = []
    if played is None and len(list(h.List("Random"))):
        rejected.append(reject("", "neuron.random-play-unreadable"))
    if called is None and Readable(8):
        rejected.append(reject("", "neuron.scatter-gather-unreadable"))
    elif called is None:  # without memory maps an unreadable list looks like a missing one
        warnings.warn(
            "CVode.extra_scatter_gather cannot be seen in NEURON's memory here; a model that uses "
            "it runs without",
            stacklevel=2,
        )
    return rejected


def _find_random(h: Hoc, memory: NeuronMemory) -> None:
    random, vector = h.Random(), h.Vector(1)
    random.play(ref(vector, "x")[0])
    generator, count = memory.object_address(random), _ENTRY_WORDS
    place = memory.place(ref(vector, "x")[0])

    def is_example(at: int) -> bool:
        words = copied(at, count).tolist()
        at_place = words.index(generator) + 1 if generator in words[: count - 4] else 0
        if at_place and memory.place_of(words[at_place:]) == place:
            _places["place"] = at_place
            return True
        return False

    _find("random", is_example)


def random_plays(h: Hoc, memory: NeuronMemory) -> list[tuple[int, Place]]:
    """Return the Random (address of its C++ object) and the variable of each Random.play."""
    if _entries("random") is None:
        _find_random(h, memory)
    plays = []
    for at in _entries("random") or ():
        words, at_place = words_at(at, _ENTRY_WORDS), _places["place"]
        plays.append((words[at_place - 1], memory.place_of(words[at_place:])))
    return plays


def _find_scatter(h: Hoc) -> None:
    cvode = h.CVode()

    def example() -> None:
        pass

    readable = Readable(8 * 3)
    if not readable:  # without memory maps no list is found
        return
    before = [*_variables(readable)]

    def is_example(at: int) -> bool:
        for place, item in enumerate([at, *copied(at, 4).tolist()]):
            inside = copied(item, 2)[1:].tolist()
            words = copied(inside[0], 3).tolist() if inside else []
            if id(example) in words:
                _places["object"], _places["function"] = place - 1, words.index(id(example))
                return True
        return False

    cvode.extra_scatter_gather(0, example)
    try:
        _find("scatter", is_example)
    finally:
        cvode.extra_scatter_gather_remove(example)
    if "scatter" in _lists:
        _remove_list(before)


def _remove_list(before: list[tuple[int, np.ndarray]]) -> None:
    """Delete the list of extra_scatter_gather if NEURON created it since `before`.

    `before` is a copy of NEURON's variables. As long as there is a list, even an empty one, NEURON
    refuses steps with several threads. A variable that already had the list's address in `before`
    is not the list's pointer. Other threads may have returned memory behind the variables since.
    """
    at = _lists["scatter"].value
    variables = [
        begin + 8 * k
        for begin, words in before
        for now in [copied(begin, len(words))]
        for k in np.flatnonzero((now == at) & (words[: len(now)] != at)).tolist()
    ]
    if len(variables) == 1:
        _lists["scatter"] = WORD.from_address(variables[0])
        _lists["scatter"].value = 0


def gathering() -> np.ndarray:
    """Return the addresses, (n,) int64, of functions of CVode.extra_scatter_gather(0, f).

    They are words that point to Python objects: functions, or tuples of a function and its
    arguments. `acting` must have located NEURON's list.
    """
    entries, place = _entries("scatter") or (), _places.get("object", -1)
    # entries are hoc objects; since NEURON 9.1 they point to hoc objects
    objects = entries if place < 0 else [words_at(at, place + 1)[place] for at in entries]
    addresses = [words_at(item, 2)[1] + 8 * _places["function"] for item in objects]
    return np.array(addresses, np.int64)


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
        what = refusal("neuron.nonvint-block-supervisor", inside=_INSIDE)
        rejected.append(Rejected("", what, f"unregister them; {BETWEEN}"))
    return rejected


def refused_settings(h: Hoc, memory: NeuronMemory) -> list[Rejected]:
    """Return unsupported settings for steps, threads and the queue."""
    order, queue = h.secondorder, int(h.CVode().queue_mode())
    is_order = int(order) in (0, 1, 2)
    threads = int(h.ParallelContext().nthread()) > 1
    changed = is_order and not memory.has_order(order, float(h.dt))
    rows = (
        ("neuron.cvode-variable-time-steps", h.CVode().active()),
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

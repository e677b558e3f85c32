"""Functions of `CVode.extra_scatter_gather(0, f)`, which NEURON calls in the middle of each step.

Voltages and `i_membrane_` are those of the step's end then; states and h.t are those of its begin,
and Vectors that record lack it. So a function that reads the former alone is called after a block
of steps, for each with its values. NEURON takes the first step, and what the functions ask for in
it says whether that is so; in later steps they are held to it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from clhines.core.errors import ClhinesError
from clhines.neuron.calls import clock
from clhines.neuron.convert import Rejected
from clhines.neuron.importer import Imported
from clhines.neuron.memory.raw import gather, put_words, vector_at
from clhines.neuron.memory.session import Hoc
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.hooks import BETWEEN, GATHERED, gathering
from clhines.neuron.read.played import steps_at_once
from clhines.neuron.stepping.access import OF_SECTIONS, AccessHooks, named
from clhines.neuron.stepping.step_values import StepValues, of_nodes, used_vectors
from clhines.simulator.refusals import refusal
from clhines.simulator.result import Result
from clhines.simulator.simulation import Simulation

_READ = "v", "i_membrane_"
_OF_SEGMENTS = frozenset({*_READ, "x", "sec", "node_index"})
_OF_MECHANISMS = frozenset({"name", "segment"})
_OF_HOC = frozenset({"t", "dt", "tstop", "Vector", "allsec", "hname"})
_VECTOR_METHODS = (
    "x", "get", "set", "size", "append", "resize", "fill", "sum", "max", "min", "mean", "contains",
    "indwhere", "buffer_size", "fwrite", "printf", "add", "sub", "mul", "div", "remove", "insrt",
    "max_ind", "min_ind", "vwrite",
)  # fmt: skip
_OF_VECTORS = frozenset({
    *_VECTOR_METHODS, "copy", "c", "clear", "dot", "sumsq", "as_numpy", "to_python", "from_python",
    "hname",
})  # fmt: skip
_METHODS = {
    "Vector": _OF_VECTORS,
    "PtrVector": {"gather", "size"},
    "Matrix": {"mulv", "nrow", "ncol", "getval"},
    "ParallelContext": {"id", "nhost"},
}
_CALLED = frozenset(name for names in _METHODS.values() for name in names)
_OPERATORS = ("getitem", "setitem", "len", "iter", "next", "bool", "abs", "neg", "add", "radd",
              "sub", "rsub", "mul", "rmul", "truediv", "eq", "ne", "lt", "le", "gt",
              "ge")  # fmt: skip
_PLACE = 4  # words of a place that a PtrVector has
_tried = [(False, b"")]  # in psolve; and functions that NEURON's step has called last


class GatherError(ClhinesError):
    """A function asks in a later step for what it did not ask for in the first."""


class _Seen(AccessHooks):
    """Sees what functions ask NEURON for while it is `on`, and keeps the first that is not equal.

    `solves`: in psolve, where h.t does not move; `holds`: raise it.
    """

    def __init__(self, model: NeuronModel) -> None:
        super().__init__(model.h, self._acts)
        self._model, self._pointers = model, dict[int, list[int]]()
        used = used_vectors(model)
        self._used = {str(v) for at, v in model.memory.vectors().items() if at in used}
        self.what, self.holds, self.solves = "", False, False
        self.changing: Callable[[], None] = lambda: None  # called before the list is another
        kind, functions = self._vector, [f"__{name}__" for name in _OPERATORS]
        self.changes += [
            (self._hoc, "__call__", self._calling),
            (kind, "__getattribute__", self._of_vector),
            *((kind, name, self._operator) for name in functions if name in kind.__dict__),
        ]

    def note(self, what: str) -> None:
        self.what = self.what or what
        if self.holds:
            raise GatherError(self.line)

    @property
    def line(self) -> str:
        return f"{GATHERED}: f {self.what}; expected v, i_membrane_ and what steps do not change"

    def _acts(self) -> None:
        self.note("sets a variable, or reads one by a reference")

    def _named(self, names: frozenset[str]) -> Callable[..., Any]:
        def of(own: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
            def get(thing: Any, name: str) -> Any:
                if self.on and name not in names and not name.startswith("__"):
                    self.note(f"reads {name}")
                return own(thing, name)

            return get

        return of

    def _of_segment(self, own: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        return self._named(_OF_SEGMENTS)(own)

    def _of_section(self, own: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        return self._named(frozenset({*OF_SECTIONS, *_READ}))(own)

    def _of_mechanism(self, own: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        return self._named(_OF_MECHANISMS)(own)

    def _of_hoc(self, own: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        get = self._named(_OF_HOC | _CALLED)(own)

        def get_own(thing: Any, name: str) -> Any:
            if self.on and self.solves and name == "t":
                self.note("reads t in psolve, where it stays as it was before")
            return get(thing, name)

        return get_own

    def _of_vector(self, own: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        get = self._named(_OF_VECTORS)(own)

        def get_own(thing: Any, name: str) -> Any:
            if self.on:
                self._check(thing)
            return get(thing, name)

        return get_own

    def _operator(self, own: Callable[..., Any]) -> Callable[..., Any]:
        def operate(*words: Any) -> Any:
            if self.on:
                self._check(*words)
            return own(*words)

        return operate

    def _check(self, *things: object) -> None:
        """Note a Vector that records, is played, or that a mechanism has."""
        with self._off():
            own = (str(x) for x in things if isinstance(x, self._vector))
            found = next((name for name in own if name in self._used), "")
        if found:
            self.note(f"uses {found}, which the model uses")

    @contextmanager
    def _off(self) -> Iterator[None]:
        self.on = False
        try:
            yield
        finally:
            self.on = True

    def _calling(self, own: Callable[..., Any]) -> Callable[..., Any]:
        def call(function: Hoc, *words: Any, **others: Any) -> Any:
            if self.on:
                with self._off():
                    what = self._judged(function)
                if what:
                    self.note(what)
                self._check(*words)
            elif named(function)[0] == "CVode":
                self.changing()
            return own(function, *words, **others)

        return call

    def _judged(self, function: Hoc) -> str:
        """Return what a call does that is not equal, empty for one that is."""
        text, (owner, name) = str(function), named(function)
        thing = text.rpartition(".")[0]
        if name not in _METHODS.get(owner, ()):
            return f"calls {text}"
        if thing in self._used:
            return f"uses {thing}, which the model uses"
        if (owner, name) == ("PtrVector", "gather") and not self._points(function):
            return f"calls {text} of other variables"
        return ""

    def _points(self, function: Hoc) -> bool:
        """Whether a PtrVector has voltages and `i_membrane_` alone."""
        memory, places = self._model.memory, self._model.places
        at = memory.inside(function)
        words = vector_at(at + 8)  # behind its table of functions
        if self._pointers.get(at) != words:
            every = (words[k : k + _PLACE] for k in range(0, len(words), _PLACE))
            found = (places.find(memory.place_of(one)) for one in every)
            known = {("", name.rstrip("_")) for name in _READ}
            if not all(v is not None and (v.owner, v.name) in known for v in found):
                return False
            self._pointers[at] = words
        return True


class Gathering:
    """Calls such functions for a model's steps."""

    def __init__(self, model: NeuronModel) -> None:
        self._model, self._seen = model, _Seen(model)
        self._values: StepValues | None = None

    def begin(self, solves: bool) -> None:
        """Before steps of a run, or of psolve."""
        self._seen.solves = solves
        if not self._model.h.t:
            _tried[:] = [(False, b"")]

    @property
    def is_tried(self) -> bool:
        """Whether NEURON's own step has called them in this run."""
        return self._now == _tried[0]

    @property
    def most_steps(self) -> int:
        """Steps that are taken at once, at most, and NEURON's own."""
        return steps_at_once(len(_READ) * self._model.tree.num_nodes) + 1

    @property
    def _now(self) -> tuple[bool, bytes]:
        return self._seen.solves, gather(gathering()).tobytes()

    def start(self, sim: Simulation, imported: Imported) -> None:
        """Let a simulation record what they may read."""
        reads, model = of_nodes(self._model, "v"), self._model
        if model.h.CVode().use_fast_imem():
            reads |= of_nodes(model, "i_membrane")
        self._values = StepValues(sim, imported, reads)

    def play(self, result: Result, first: int, begin: float, dt: float) -> None:
        """Call them for each step of a run from `begin`, ms, less its `first` rows."""
        assert self._values is not None
        steps, words = len(result.t) - first, gather(gathering())[:, 0].tolist()
        calls = [self._guarded(ctypes.cast(word, ctypes.py_object).value) for word in words]
        t = clock(begin, dt, steps)[:-1]
        with self._watching(holds=True), self._values.given(result, first, t) as give:
            for _ in range(steps):
                give()
                for call in calls:
                    call()
                    if self._seen.what:  # f has caught the error
                        raise GatherError(self._seen.line)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Let NEURON take a step, and see what they ask for."""
        at = gathering()
        words = gather(at)[:, 0].copy()
        own = [ctypes.cast(word, ctypes.py_object).value for word in words.tolist()]
        calls = [self._guarded(one) for one in own]  # NEURON has these for the step

        def restore() -> None:
            if np.array_equal(gathering(), at):
                put_words(at, words)

        with self._watching(holds=False):
            self._seen.changing = restore
            put_words(at, np.array([id(call) for call in calls], np.uint64))
            try:
                yield
            finally:
                restore()
                self._seen.changing = lambda: None
        if not self._seen.what:
            _tried[:] = [self._now]

    @property
    def rejected(self) -> list[Rejected]:
        """Return what is rejected of what they have asked for."""
        if not self._seen.what:
            return []
        what = refusal("neuron.gather", line=self._seen.line)
        return [Rejected("", what, f"extra_scatter_gather_remove(f); {BETWEEN}")]

    @contextmanager
    def _watching(self, holds: bool) -> Iterator[None]:
        seen = self._seen
        seen.holds = holds
        seen.begin()
        seen.on = False
        try:
            yield
        finally:
            seen.end()

    def _guarded(self, function: Any) -> Callable[[], None]:
        own, words = function if isinstance(function, tuple) else (function, ())
        words = words if isinstance(words, tuple) else (words,)

        def call() -> None:
            self._seen.on = True
            try:
                own(*words)
            finally:
                self._seen.on = False

        return call

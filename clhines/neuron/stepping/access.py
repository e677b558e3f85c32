"""Hooks in NEURON's Python classes that check what a function reads, sets and calls.

A function f of `CVode.extra_scatter_gather(0, f)` may read voltages, `i_membrane_`, and what no
step changes. It may use Vectors that the model does not use. Any other access is not supported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any

from clhines.core.errors import ClhinesError
from clhines.neuron.memory.raw import vector_at
from clhines.neuron.memory.session import Hoc, all_sections
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.hooks import GATHERED
from clhines.neuron.stepping.step_values import used_vectors

READ = "v", "i_membrane_"
_OF_SECTIONS = frozenset({
    *READ, "name", "hname", "cell", "L", "Ra", "nseg", "rallbranch", "parentseg", "trueparentseg",
    "children", "subtree", "wholetree", "orientation", "n3d", "x3d", "y3d", "z3d", "diam3d",
    "arc3d", "has_membrane", "allseg", "same", "diam", "cm", "sec",
})  # fmt: skip
_OF_SEGMENTS = frozenset({*READ, "x", "sec", "node_index"})
_OF_MECHANISMS = frozenset({"name", "segment"})
_OF_VECTORS = frozenset({
    "x", "get", "set", "size", "append", "resize", "fill", "sum", "max", "min", "mean", "contains",
    "indwhere", "buffer_size", "fwrite", "printf", "add", "sub", "mul", "div", "remove", "insrt",
    "max_ind", "min_ind", "vwrite", "copy", "c", "clear", "dot", "sumsq", "as_numpy", "to_python",
    "from_python", "hname",
})  # fmt: skip
_METHODS = {
    "Vector": _OF_VECTORS,
    "PtrVector": {"gather", "size"},
    "Matrix": {"mulv", "nrow", "ncol", "getval"},
    "ParallelContext": {"id", "nhost"},
}
_OF_HOC = frozenset({"t", "dt", "tstop", "Vector", "allsec", "hname"}).union(*_METHODS.values())
_NO_STEP_NEEDS = {"tstop", "v_init"}  # hoc variables that no step reads
_OPERATORS = ("getitem", "setitem", "len", "iter", "next", "bool", "abs", "neg", "add", "radd",
              "sub", "rsub", "mul", "rmul", "truediv", "eq", "ne", "lt", "le", "gt",
              "ge")  # fmt: skip
_ITEMS = "__getitem__", "__setitem__"
_PLACE_WORDS = 4  # per PtrVector element


class GatherError(ClhinesError):
    """A function of `extra_scatter_gather` has an unsupported access after the run's first step."""


class AccessHooks:
    """Check what functions access while the hooks are `on`; `problem` is the first bad access."""

    def __init__(self, model: NeuronModel) -> None:
        self.on = self.raises = False  # whether a problem raises a GatherError
        self.in_psolve = False  # h.t does not move there
        self.problem = ""
        # called before the list of extra_scatter_gather functions changes
        self.before_change: Callable[[], None] = lambda: None
        self._model = model
        self._vector, self._hoc = type(model.h.Vector()), type(model.h)
        used = used_vectors(model)
        self._used = {str(v) for at, v in model.memory.vectors.by_address().items() if at in used}
        self._checked_pointers = dict[int, list[int]]()  # PtrVectors' words by address

    @property
    def line(self) -> str:
        expected = "expected v, i_membrane_ and what steps do not change"
        return f"{GATHERED}: f {self.problem}; {expected}"

    @contextmanager
    def installed(self, raises: bool) -> Iterator[None]:
        """Context manager: install the hooks, off; `raises`: bad access raises GatherError."""
        self.raises, self.on = raises, False
        originals = list[tuple[type, str, Any]]()
        try:
            for kind, name, hook in self._hooks():
                if (original := kind.__dict__.get(name)) is not None:
                    originals.append((kind, name, original))
                    setattr(kind, name, hook(original))
            yield
        finally:
            self.on = False
            for kind, name, original in reversed(originals):
                setattr(kind, name, original)

    def _hooks(self) -> Iterator[tuple[type, str, Callable[..., Any]]]:
        """Yield (class, name of a method, function that wraps the method) for each hook."""
        from neuron import nrn

        # hoc object classes define methods that equal the base class's
        objects = [k for k in (self._hoc, *self._hoc.__subclasses__()) if k is not self._vector]
        readable = {kind: _OF_HOC for kind in objects}
        readable |= {nrn.Segment: _OF_SEGMENTS, nrn.Section: _OF_SECTIONS}
        readable |= {nrn.Mechanism: _OF_MECHANISMS}
        for kind, names in readable.items():
            yield kind, "__getattribute__", partial(self._read, names)
            yield kind, "__setattr__", partial(self._set, kind)
        segments = (section(0.5) for section in all_sections())
        variables = (v for segment in segments for mechanism in segment for v in mechanism)
        # the class of array variables; no section may have one
        arrays = [type(v) for v in islice(variables, 1)]
        for kind in (*objects, *arrays):
            for name in _ITEMS:
                yield kind, name, self._use_item
        yield self._hoc, "__call__", self._call
        yield self._vector, "__getattribute__", lambda get: self._use(self._read(_OF_VECTORS, get))
        for name in _OPERATORS:
            yield self._vector, f"__{name}__", self._use

    def _note(self, problem: str) -> None:
        self.problem = self.problem or problem
        if self.raises:
            raise GatherError(self.line)

    def _note_access(self) -> None:
        self._note("sets a variable, or reads one by a reference")

    def _read(
        self, names: frozenset[str], original: Callable[[Any, str], Any]
    ) -> Callable[[Any, str], Any]:
        def get(thing: Any, name: str) -> Any:
            if self.on and name not in names and not name.startswith("__"):
                self._note(f"reads {name}")
            if self.on and self.in_psolve and name == "t":
                self._note("reads t in psolve, where it stays as it was before")
            return original(thing, name)

        return get

    def _set(self, kind: type, original: Callable[..., Any]) -> Callable[..., Any]:
        def put(thing: Any, name: str, value: Any) -> None:
            if self.on and name not in _NO_STEP_NEEDS:
                self._note_access()
            hook = kind.__dict__["__setattr__"]
            # Python does not let a derived class call the base class's method here
            setattr(kind, "__setattr__", original)  # noqa: B010
            try:
                setattr(thing, name, value)
            finally:
                setattr(kind, "__setattr__", hook)  # noqa: B010

        return put

    def _use_item(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def item(thing: Any, *arguments: Any) -> Any:
            if self.on and not isinstance(thing, self._vector):
                self._note_access()
            return original(thing, *arguments)

        return item

    def _use(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a method of Vector so that it checks its arguments by `_check`."""

        def use(*arguments: Any) -> Any:
            if self.on:
                self._check(*arguments)
            return original(*arguments)

        return use

    def _check(self, *things: object) -> None:
        """If the model itself uses one of the Vectors in `things`, note this as a problem."""
        with self._off():
            names = [str(x) for x in things if isinstance(x, self._vector)]
        for name in names:
            if name in self._used:
                self._note(f"uses {name}, which the model uses")

    @contextmanager
    def _off(self) -> Iterator[None]:
        self.on = False
        try:
            yield
        finally:
            self.on = True

    def _call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(function: Hoc, *arguments: Any, **named: Any) -> Any:
            if self.on:
                with self._off():
                    problem = self._problem_of(function)
                if problem:
                    self._note(problem)
                self._check(*arguments)
            elif _class_and_name(function)[0] == "CVode":
                self.before_change()
            return original(function, *arguments, **named)

        return call

    def _problem_of(self, function: Hoc) -> str:
        """Say why a call of a hoc function is not supported; empty if the call is supported."""
        text, (owner, name) = str(function), _class_and_name(function)
        thing = text.rpartition(".")[0]
        if name not in _METHODS.get(owner, ()):
            return f"calls {text}"
        if thing in self._used:
            return f"uses {thing}, which the model uses"
        if (owner, name) == ("PtrVector", "gather") and not self._has_read_pointers(function):
            return f"calls {text} of other variables"
        return ""

    def _has_read_pointers(self, function: Hoc) -> bool:
        """Whether the PtrVector of a method only points to voltages and `i_membrane_`."""
        memory, places = self._model.memory, self._model.places
        address = memory.object_address(function)
        words = vector_at(address + 8)  # after its virtual table
        if self._checked_pointers.get(address) != words:
            starts = range(0, len(words), _PLACE_WORDS)
            place_words = (words[k : k + _PLACE_WORDS] for k in starts)
            variables = [places.find(memory.place_of(place)) for place in place_words]
            readable = {("", name.rstrip("_")) for name in READ}
            if not all(v is not None and (v.owner, v.name) in readable for v in variables):
                return False
            self._checked_pointers[address] = words
        return True


def _class_and_name(function: Hoc) -> tuple[str, str]:
    """Return a hoc function's class and name; the class is empty for top-level functions."""
    owner, _, name = str(function).removesuffix("()").rpartition(".")
    return owner.partition("[")[0], name

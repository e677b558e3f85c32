"""What Python asks of NEURON while steps are run ahead: reads of variables, writes and calls.

A loop's body in Python reads and changes a model by attributes, items and calls of NEURON's own
classes. Their functions for these are others for that time, which tell before they do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import partial
from itertools import islice
from typing import Any

from clhines.neuron.memory.session import Hoc, all_sections

_HARMLESS = {"fadvance()", "ParallelContext[0].id()", "ParallelContext[0].nhost()"}
_ACTS = "record()", "play()", "play_remove()", "play_next()"  # of a Vector
OF_SECTIONS = {
    "name", "hname", "cell", "L", "Ra", "nseg", "rallbranch", "parentseg", "trueparentseg",
    "children", "subtree", "wholetree", "orientation", "n3d", "x3d", "y3d", "z3d", "diam3d",
    "arc3d", "has_membrane", "allseg", "same", "diam", "cm", "sec",
}  # fmt: skip
_SET = {"tstop", "v_init"}  # of hoc, which no step needs


_NOW = {"x"}  # of a NetCon: what its source has
_ITEMS, _SETTING = ("__getitem__", "__setitem__"), "__setattr__"


def _of_arrays() -> list[type]:
    """Return NEURON's class of variables that are arrays, which no module has."""
    segments = (section(0.5) for section in all_sections())
    variables = (v for segment in segments for mechanism in segment for v in mechanism)
    return [type(v) for v in islice(variables, 1)]


def named(function: Hoc) -> tuple[str, str]:
    """Return the class of a function of hoc, "" of the top level, and its name."""
    owner, _, name = str(function).removesuffix("()").rpartition(".")
    return owner.partition("[")[0], name


class Asking:
    """Tells what is asked, while it is `on`.

    Parameters
    ----------
    read : callable
        Called with the name of a variable, as ``m_hh``, or ``.g`` of a point process, and the
        segment of it, None where it is of any.
    act : callable
        Called before anything else than reads of what stays.
    call : callable
        Likewise, before a call of a function of hoc: with its class, "" of the top level, and name.
    """

    def __init__(
        self,
        h: Hoc,
        read: Callable[[str, Any], None],
        act: Callable[[], None],
        call: Callable[[tuple[str, str]], None],
    ) -> None:
        from neuron import nrn

        self.on = False
        self.names: frozenset[str] = frozenset()  # of variables that steps change
        self.unread: Set[str] = self.names  # those that are not given of all
        self.of_points: frozenset[str] = frozenset()
        self.lost: frozenset[str] = frozenset()  # of what steps set, and no record has
        self._read, self._act, self._call = read, act, call
        self._vector, self._hoc = type(h.Vector()), type(h)
        mechanism = nrn.Mechanism
        self._own: list[tuple[type, str, Any]] = []
        # classes of hoc have functions of their own, which are those of the class above
        objects = [k for k in (self._hoc, *self._hoc.__subclasses__()) if k is not self._vector]
        self.changes: list[tuple[type, str, Callable[..., Any]]] = [
            (nrn.Segment, "__getattribute__", self._of_segment),
            (nrn.Section, "__getattribute__", self._of_section),
            (mechanism, "__getattribute__", self._of_mechanism),
            *((kind, "__getattribute__", self._of_hoc) for kind in objects),
            *((kind, name, self._item) for kind in objects for name in _ITEMS),
            *(
                (kind, _SETTING, partial(self._set, kind))
                for kind in (nrn.Segment, nrn.Section, mechanism, *objects)
            ),
        ]
        self.changes = [(k, name, f) for k, name, f in self.changes if name in k.__dict__]

    def begin(self) -> None:
        """Let NEURON's classes tell."""
        if not self._own:
            arrays = [(kind, name, self._any) for kind in _of_arrays() for name in _ITEMS]
            for kind, name, makes in (*self.changes, *arrays):
                own = kind.__dict__[name]
                self._own.append((kind, name, own))
                setattr(kind, name, makes(own))
        self.on = True

    def end(self) -> None:
        self.on = False
        for kind, name, own in self._own:
            setattr(kind, name, own)
        self._own.clear()

    def called(self, function: Hoc) -> None:
        """Tell of a call of a function of hoc, before it."""
        if self.on:
            name = str(function)
            own = name.startswith("Vector[") and not name.endswith(_ACTS)
            if not own and name not in _HARMLESS:
                self._call(named(function))

    def _of_segment(self, own: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def get(thing: Any, name: str) -> Any:
            if self.on and name in self.unread:
                self._read(name, thing)
            return own(thing, name)

        return get

    def _of_section(self, own: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def get(thing: Any, name: str) -> Any:
            if self.on:
                if name in self.unread:
                    self._read(name, thing(0.5))
                elif (
                    name not in self.names and name not in OF_SECTIONS and not name.startswith("_")
                ):
                    self._act()
            return own(thing, name)

        return get

    def _of_mechanism(self, own: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def get(thing: Any, name: str) -> Any:
            if self.on and not name.startswith("_") and name not in ("name", "segment"):
                for variable in (name, f"{name}_{own(thing, 'name')()}"):
                    if variable in self.unread:
                        self._read(variable, None)
            return own(thing, name)

        return get

    def _of_hoc(self, own: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def get(thing: Any, name: str) -> Any:
            if not self.on:
                return own(thing, name)
            if name in self.of_points:
                self._read(f".{name}", None)
            if name in self.lost or name in _NOW:
                self._act()
            found = own(thing, name)
            if self.on and issubclass(type(found), type) and found is not self._vector:
                self._act()  # it may make an object
            return found

        return get

    def _item(self, own: Callable[..., Any]) -> Callable[..., Any]:
        def item(thing: Any, *words: Any) -> Any:
            if self.on and not isinstance(thing, self._vector):
                self._act()
            return own(thing, *words)

        return item

    def _any(self, own: Callable[..., Any]) -> Callable[..., Any]:
        def act(thing: Any, *words: Any) -> Any:
            if self.on:
                self._act()
            return own(thing, *words)

        return act

    def _set(self, kind: type, own: Callable[..., Any]) -> Callable[..., Any]:
        def put(thing: Any, name: str, value: Any) -> None:
            if self.on and name not in _SET:
                self._act()
            hooked = kind.__dict__[_SETTING]
            setattr(kind, _SETTING, own)  # Python calls it as no function of a class that is ours
            try:
                setattr(thing, name, value)
            finally:
                setattr(kind, _SETTING, hooked)

        return put

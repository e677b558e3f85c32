"""Hooks in NEURON's Python classes that see reads, writes and calls while they are `on`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

from clhines.neuron.memory.session import Hoc, all_sections

OF_SECTIONS = {
    "name", "hname", "cell", "L", "Ra", "nseg", "rallbranch", "parentseg", "trueparentseg",
    "children", "subtree", "wholetree", "orientation", "n3d", "x3d", "y3d", "z3d", "diam3d",
    "arc3d", "has_membrane", "allseg", "same", "diam", "cm", "sec",
}  # fmt: skip
_SET = {"tstop", "v_init"}  # of hoc, which no step needs
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


class AccessHooks:
    """Calls `act` before a write, or a read by a reference; a subclass judges what else is read.

    `changes` are classes, names of their functions, and what makes another of each.
    """

    def __init__(self, h: Hoc, act: Callable[[], None]) -> None:
        from neuron import nrn

        self.on = False
        self._act = act
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

    def _of_segment(self, own: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        raise NotImplementedError

    def _of_section(self, own: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        raise NotImplementedError

    def _of_mechanism(self, own: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        raise NotImplementedError

    def _of_hoc(self, own: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        raise NotImplementedError

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

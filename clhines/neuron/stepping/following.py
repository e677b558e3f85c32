"""Follows hoc's code: which variables it reads and sets, and what it calls.

The words of a procedure come one after another, without regard to conditions. Of the values on
hoc's stack only objects are followed; what is not known is refused.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import NamedTuple, Protocol

from clhines.neuron.stepping.code import HocCode, Symbol

_PLAIN = {  # words that belong to it, values that it takes, values that it gives
    **dict.fromkeys(("hoc_add", "hoc_sub", "hoc_mul", "hoc_div", "hoc_cyclic"), (0, 2, 1)),
    **dict.fromkeys(("hoc_gt", "hoc_lt", "hoc_ge", "hoc_le", "hoc_eq", "hoc_ne"), (0, 2, 1)),
    **dict.fromkeys(("hoc_and", "hoc_or", "hoc_power"), (0, 2, 1)),
    **dict.fromkeys(("hoc_not", "hoc_negate"), (0, 1, 1)),
    **dict.fromkeys(("hoc_nopop", "hoc_funcret", "ob_sec_access"), (0, 1, 0)),
    **dict.fromkeys(("hoc_Break", "hoc_Continue", "hoc_procret", "sec_access_pop"), (0, 0, 0)),
    "sec_access": (0, 0, 0),
    **dict.fromkeys(("forall_section", "forall_sectionlist"), (2, 1, 0)),
    **dict.fromkeys(("hoc_ifsec", "hoc_ifseclist"), (2, 1, 0)),
    **dict.fromkeys(("hoc_forcode", "hoc_ifcode"), (3, 0, 0)),
    **dict.fromkeys(("hoc_known_type", "hoc_cmp_otype", "hoc_sec_internal_push"), (1, 0, 0)),
    **{"hoc_push_string": (1, 0, 1), "hoc_bltin": (1, 1, 1), "hoc_object_eval": (0, 0, 0)},
}
_PRINTING = {
    **dict.fromkeys(("hoc_prexpr", "hoc_prstr"), (0, 1, 0)),
    **{"hoc_newline": (0, 0, 0), "hoc_assstr": (0, 2, 0)},
}
_ARGUMENTS = {"hoc_arg": 1, "hoc_stringarg": 1, "hoc_argassign": 2}  # words that belong to them
_INDICES = {"hoc_chk_sym_has_ndim1": 1, "hoc_chk_sym_has_ndim2": 1, "hoc_chk_sym_has_ndim": 2}
_LOOPS = {"hoc_shortfor": 2, "for_segment": 0, "for_segment1": 1}  # values above the variable
_SYMBOLS = (  # with one word, a symbol
    "hoc_varpush", "rangevareval", "rangepoint", "sec_access_push", "hoc_objectvar",
    "hoc_constobject", "hoc_constpush",
)  # fmt: skip
_OTHERS = {"hoc_eval": 0, "hoc_assign": 1, "hoc_object_asgn": 1, "hoc_object_component": 6,
           "hoc_pushzero": 0}  # fmt: skip
_RANGES = {"range_const": (1, 1), "range_interpolate": (4, 0), "range_interpolate_single": (2, 0)}
_EXITS = {  # which of its words says where what depends on it ends
    **dict.fromkeys(("hoc_forcode", *_LOOPS, "forall_section", "forall_sectionlist"), 1),
    **{"hoc_ifsec": 1, "hoc_ifseclist": 1, "hoc_ifcode": 2},
}
_WORDS = {
    **{name: words for name, (words, *_) in (_PLAIN | _PRINTING).items()},
    **{**_ARGUMENTS, **_INDICES, **dict.fromkeys(_LOOPS, 2), **dict.fromkeys(_SYMBOLS, 1)},
    **{**_OTHERS, "hoc_call": 2, **dict.fromkeys(_RANGES, 2)},
}
_REFUSED = {  # with the name of the symbol that belongs to it
    **dict.fromkeys(("hoc_newobj", "hoc_newobj_arg", "hoc_newobj_ret"), "makes a new {}"),
    **dict.fromkeys(("hoc_evalpointer", "hoc_ob_pointer"), "takes the address of a variable"),
    **dict.fromkeys(("connectsection", "simpleconnectsection"), "connects sections"),
    **{"rangevarevalpointer": "takes the address of {}", "mech_access": "inserts {}"},
    **{"mech_uninsert": "takes {} out", "add_section": "makes section {}", "hoc_Stop": "stops"},
    **{"hoc_delete_symbol": "deletes {}", "hoc_arayinstal": "declares an array"},
    **{"hoc_objvardecl": "declares objref {}", "hoc_autoobject": "uses localobj {}"},
    **{"hoc_objectarg": "uses an object that is an argument", "hoc_iterator": "uses iterator {}"},
    **{"hoc_argref": "uses a pointer", "hoc_varread": "reads {}"},
}


_ALIKE = "NetCon"  # class whose objects are all used alike


class RefusedError(Exception):
    """Says what code does that is not taken, as ``calls finitialize()``."""


class _Indices(NamedTuple):
    """What hoc has above the indices of an element: how many there are."""

    number: int


class NamedSections(NamedTuple):
    """Sections of this name: of some objects, by address, or of the top level; "" is of any."""

    things: frozenset[int] | None
    name: str


ANY = NamedSections(None, "")
# objects by address, sections, a name, a number that is constant; None of anything else
OnStack = set[int] | NamedSections | Symbol | _Indices | float | None


class Judge(Protocol):
    """Says what code may do, or raises `RefusedError`; `owner`: class of a method."""

    code: HocCode
    acts: bool  # it does something else than to read
    assigned: bool  # an objref that has no object now is set
    of_none: set[str]  # members that are used of such

    def change(self, what: str) -> None: ...  # not taken, but seen between steps

    def call(self, procedure: Symbol, owner: str) -> bool: ...

    def assign(self, symbol: Symbol) -> None: ...

    def evaluate(self, symbol: Symbol) -> None: ...

    def range(self, name: str, sections: NamedSections, x: float | None) -> None: ...

    def sections_of(self, symbol: Symbol, owner: str) -> NamedSections: ...

    def objects_of(self, symbol: Symbol, owner: str) -> set[int]: ...

    def instances_of(self, symbol: Symbol) -> set[int]: ...

    def member(self, thing: int, name: str, is_set: bool) -> OnStack: ...


def code_for(make: Callable[[tuple[str, ...]], HocCode]) -> HocCode:
    """Make a reader of code that knows all instructions that are known here."""
    return make((*_WORDS, *_REFUSED))


class Follower:
    """Follows one procedure for a judge; `owner` as there."""

    def __init__(self, judge: Judge, procedure: Symbol, owner: str) -> None:
        self._judge, self._code, self._owner = judge, judge.code, owner
        self._words = self._code.words(procedure)
        self._locals = self._code.locals_of(procedure)
        self._stack = list[OnStack]()
        self._at = self._depends_until = 0  # words; up to the second a condition decides
        self._steps = self._targets = 0
        self._returned = False
        self._last = [("", list[int]())] * 2  # instructions

    def follow(self) -> bool:
        """Return whether it takes a step, always, and one."""
        operations = self._code.operations
        while self._at < len(self._words):
            word = self._words[self._at]
            name = operations.get(word, "")
            if not word:  # a part ends, and with it its values
                self._stack.clear()
                self._last = [("", [])] * 2
                self._at += 1
            elif name not in _WORDS:
                raise RefusedError(self._refusal(name))
            else:
                count = _WORDS[name]
                given = self._words[self._at + 1 : self._at + 1 + count]
                if name in _EXITS:
                    to = self._at + 1 + _EXITS[name]
                    self._depends_until = max(self._depends_until, to + _signed(self._words[to]))
                self._do(name, given)
                self._returned |= name in ("hoc_procret", "hoc_funcret")
                self._last = [self._last[1], (name, given)]
                self._at += 1 + count
        if self._targets:
            raise RefusedError("sets an objref")
        return bool(self._steps)

    def _refusal(self, name: str) -> str:
        text = _REFUSED.get(name, "has a statement that is not known here")
        return text.format(self._symbol(self._words[self._at + 1]).name) if "{" in text else text

    def _symbol(self, address: int) -> Symbol:
        return self._code.symbol(address)

    def _pop(self, count: int = 1) -> OnStack:
        """Take values; return the last."""
        found: OnStack = None
        for _ in range(count):
            if not self._stack:
                raise RefusedError("has a statement that cannot be followed")
            found = self._stack.pop()
        return found

    def _pop_indices(self) -> None:
        if self._stack and isinstance(self._stack[-1], _Indices):
            self._pop(self._stack[-1].number + 1)

    def _pop_symbol(self) -> Symbol:
        found = self._pop()
        if not isinstance(found, Symbol):
            raise RefusedError("has a statement that cannot be followed")
        return found

    # -- instructions ----------------------------------------------------------------------------

    def _do(self, name: str, given: list[int]) -> None:
        if name in _PLAIN or name in _PRINTING:
            _, takes, gives = (_PLAIN | _PRINTING)[name]
            self._pop(takes)
            self._stack += [None] * gives
            self._judge.acts |= name in _PRINTING
        elif name in _INDICES:
            last = name.removeprefix("hoc_chk_sym_has_ndim")
            self._stack.append(_Indices(int(last) if last else _signed(given[0])))
        elif name in _ARGUMENTS:
            self._pop(int(not _signed(given[0])) + (name == "hoc_argassign"))
            self._stack.append(None)
        elif name in _RANGES:
            takes, gives = _RANGES[name]
            self._pop(takes)
            self._stack += [None] * gives
            self._judge.change(f"sets {self._symbol(given[0]).name}")
        elif name in _LOOPS:
            self._pop(_LOOPS[name])
            self._set(self._pop_symbol())
        elif name == "hoc_call":
            self._call(*given)
        else:
            getattr(self, f"_{name}")(*given)

    def _set(self, symbol: Symbol) -> None:
        self._pop_indices()
        if symbol.address not in self._locals:
            self._judge.assign(symbol)

    def _call(self, procedure: int, count: int) -> None:
        self._pop(_signed(count))
        self._stack.append(None)
        symbol = self._symbol(procedure)
        owner = self._owner if symbol.address == procedure else ""
        if not self._judge.call(symbol, owner):
            return
        if self._at < self._depends_until or self._returned:
            self._judge.change("takes a step that depends on a condition, or steps in a loop")
        self._steps += 1
        if self._steps > 1:
            self._judge.change("takes several steps")

    def _hoc_varpush(self, word: int) -> None:
        self._stack.append(self._symbol(word))

    def _hoc_eval(self) -> None:
        symbol = self._pop_symbol()
        self._pop_indices()
        if symbol.address not in self._locals:
            self._judge.evaluate(symbol)
        self._stack.append(None)

    def _hoc_assign(self, _: int) -> None:
        symbol = self._pop_symbol()
        self._pop()
        self._set(symbol)
        self._stack.append(None)

    def _sec_access_push(self, word: int) -> None:
        if word:
            self._pop_indices()

    def _hoc_constpush(self, word: int) -> None:
        self._stack.append(ctypes.c_double.from_address(self._symbol(word).value).value)

    def _hoc_pushzero(self) -> None:
        self._stack.append(0.0)

    def _rangevareval(self, word: int) -> None:
        x = self._pop()
        is_plain = self._last[1][0] in ("hoc_constpush", "hoc_pushzero")
        at = x if is_plain and isinstance(x, float) else None
        self._range(word, at, ("", []) if at is None else self._last[0])

    def _rangepoint(self, word: int) -> None:
        self._range(word, 0.5, self._last[1])

    def _range(self, word: int, x: float | None, before: tuple[str, list[int]]) -> None:
        """Read a variable of the section that the instruction before has given, or of any."""
        self._pop_indices()
        sections, given = ANY, before[1]
        if before[0] == "sec_access_push" and given[0]:
            symbol = self._symbol(given[0])
            owner = self._owner if symbol.address == given[0] else ""
            sections = self._judge.sections_of(symbol, owner)
        self._judge.range(self._symbol(word).name, sections, x)
        self._stack.append(None)

    def _hoc_objectvar(self, word: int) -> None:
        self._pop_indices()
        symbol = self._symbol(word)
        owner = self._owner if symbol.address == word else ""
        self._stack.append(self._judge.objects_of(symbol, owner))

    def _hoc_constobject(self, word: int) -> None:
        self._pop()
        self._stack.append(self._judge.instances_of(self._symbol(word)))

    def _hoc_object_asgn(self, _: int) -> None:
        value, target = self._pop(), self._pop()
        self._stack.append(None)
        things = [one for some in (value, target) if isinstance(some, set) for one in some]
        self._judge.assigned |= target == set()
        if value and {self._code.template_of(one).name for one in things} == {_ALIKE}:
            self._judge.change("sets an objref")
            return
        self._targets += 1

    def _hoc_object_component(
        self, word: int, indices: int, count: int, _: int, __: int, kind: int
    ) -> None:
        count = _signed(count)
        x = self._pop() if count == 1 else self._pop(count)
        self._pop(_signed(indices))
        owner, name = self._pop(), self._symbol(word).name
        is_set = bool(kind & 2)  # what is assigned to
        self._targets -= is_set
        if isinstance(owner, NamedSections):
            if is_set:
                self._judge.change(f"sets {name}")
                self._stack.append(None)
                return
            at = 0.5 if not count else x if isinstance(x, float) else None
            self._judge.range(name, owner, at)
            self._stack.append(None)
            return
        if not isinstance(owner, set):
            raise RefusedError(f"uses {name} of what cannot be followed")
        if not owner:
            self._judge.of_none.add(name)
        having = [thing for thing in owner if self._code.has_member(thing, name)]  # or hoc's error
        found = [self._judge.member(thing, name, is_set) for thing in sorted(having or owner)]
        objects = [value for value in found if isinstance(value, set)]
        if objects:
            self._stack.append({one for some in objects for one in some})
            return
        sections = [value for value in found if isinstance(value, NamedSections)]
        names = {each.name for each in sections}
        if len(names) == 1 and names != {""}:
            things = frozenset(one for each in sections for one in each.things or ())
            self._stack.append(NamedSections(things, names.pop()))
        else:
            self._stack.append(ANY if sections else None)


def _signed(word: int) -> int:
    return ctypes.c_int32(word & 0xFFFFFFFF).value

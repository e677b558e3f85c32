"""Write channels that hoc builds (KSChan, ChannelBuilder) as NMODL.

The texts follow kschan.cpp of NEURON 9: *hh* gates (one state) advance by exponentials with rates
at the present voltage; kinetic schemes (*ks*) take an implicit Euler step for any `secondorder`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from clhines.core.errors import InputError
from clhines.neuron.memory.session import Hoc
from clhines.neuron.memory.symbols import Library
from clhines.simulator.mechanisms.nmodl import KEYWORDS
from clhines.simulator.refusals import Sentence, refusal

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_USED = {  # names that NMODL or the text itself uses
    *KEYWORDS,
    *"v t dt celsius area diam exp fabs FORALL RESET SENS PUTQ GETQ MATCH".split(),
}
_TABLE, _PAIR = 7, (5, 6)  # function types: a table; Borg-Graham's inf and tau
_FORMS = (  # by function type: its text and its coefficient count
    ("1", 0),
    ("{0}", 1),
    ("{0}*{p}exp({1}*(v - {2}))", 3),
    ("{p}linoid({0}, {1}*(v - {2}))", 3),
    ("{0}/(1 + {p}exp({1}*(v - {2})))", 3),
    ("{p}inf({0}, {3}, {x}*{2}*(v - {1}))", 5),
    ("(1/{p}sum({0}, {3}, {x}*{2}*(v - {1})) + {4})", 5),
)
_BY_LIGAND = 2  # transition type: driven by an outside concentration (3: inside)
_GOLDMAN = 2  # type of a current
_E_OVER_K = 1.602176634e-19 / 1.380649e-23 / 1000  # K/mV, CODATA 2018 as in NEURON
_HELPERS = """
FUNCTION {p}exp(x) {{ LOCAL y
    y = x
    if (x > 700) {{ y = 700 }} else if (x < -700) {{ y = -700 }}
    {p}exp = exp(y)
}}
FUNCTION {p}linoid(a, x) {{
    if (fabs(x) > 1e-6) {{ {p}linoid = a*x/(1 - {p}exp(-x)) }} else {{ {p}linoid = a*(1 + x/2) }}
}}
FUNCTION {p}sum(a, y, x) {{ {p}sum = a*{p}exp(y*x) + a*{p}exp((y - 1)*x) }}
FUNCTION {p}inf(a, y, x) {{ {p}inf = a*{p}exp(y*x)/{p}sum(a, y, x) }}
"""


class Channel(NamedTuple):
    """A KSChan as NMODL text, or the reason why it is not supported."""

    text: str
    variables: tuple[str, ...]
    refused: Sentence | None = None


def channels_of(h: Hoc) -> dict[str, Hoc]:
    return {str(ks.name()): ks for ks in h.List("KSChan")}


def read_channel(h: Hoc, memory: Library, name: str) -> Channel:
    try:
        writer = _Writer(h, memory, channels_of(h)[name])
        return Channel(writer.text(), writer.variables)
    except InputError as error:
        return Channel("", (), refused=refusal("neuron.kschan", error=error))


class _Writer:
    def __init__(self, h: Hoc, memory: Library, ks: Hoc) -> None:
        if ks.single():
            raise InputError("in single-channel mode; single(0) turns it off")
        if ks.usetable():
            raise InputError("with tables of its rates; usetable(0) turns them off")
        self._ks = ks
        self._names = [str(ks.state(k).name()) for k in range(int(ks.nstate()))]
        with memory.printed() as lines:
            ks.pr()
        self._hh = int(re.findall(r"\bnhhstate=(\d+)", "".join(lines))[0])
        every = [ks.trans(k) for k in range(int(ks.ntrans()))]
        self._of_hh, self._of_ks = every[: self._hh], every[self._hh :]
        self._ion = "" if ks.ion() == "NonSpecific" else str(ks.ion())
        if self._ion and int(ks.iv_type()) == _GOLDMAN:
            raise InputError("with a current by Goldman, Hodgkin and Katz")
        if any(t.type() >= _BY_LIGAND for t in every):
            raise InputError("with a transition that a concentration drives")
        self._columns = ["gmax", *(() if self._ion else ("e",)), "g", "i"]
        self.variables = (*self._columns, *self._names)
        self._p = "ks_"
        while any(name.startswith(self._p) for name in self._names):
            self._p += "k_"

    def text(self) -> str:
        p, ion, columns = self._p, self._ion, self._columns
        of_ion = [f"e{ion}", f"i{ion}"] if ion else []
        self._check_names([*self._names, *columns, *of_ion])
        kind = "POINT_PROCESS" if self._ks.is_point() else "SUFFIX"
        lines = [f"NEURON {{ {kind} {self._ks.name()}", f"RANGE {', '.join(columns)}"]
        lines += [f"USEION {ion} READ e{ion} WRITE i{ion} }}" if ion else "NONSPECIFIC_CURRENT i }"]
        lines += [f"PARAMETER {{ {' '.join(f'{n} = 0' for n in columns[:-2])} }}"]
        lines += [f"ASSIGNED {{ v celsius dt {' '.join([*columns[-2:], *of_ion])} }}"]
        lines += [f"STATE {{ {' '.join(self._names)} }}"] * bool(self._names)
        start, step = self._hh_lines()
        scheme = self._scheme()
        firsts = {int(self._ks.gate(k).sindex()) for k in range(int(self._ks.ngate()))}
        states = enumerate(self._names[self._hh :], self._hh)
        lines += ["INITIAL {", *start, *(f"{name} = {int(k in firsts)}" for k, name in states)]
        lines += [f"SOLVE {p}scheme STEADYSTATE sparse"] * bool(scheme)
        lines += ["}", "BREAKPOINT {"]
        lines += [f"SOLVE {p}step"] * bool(step) + [f"SOLVE {p}scheme METHOD sparse"] * bool(scheme)
        lines += [f"g = {'*'.join(['gmax', *self._gate_factors()])}", f"i = g*(v - e{ion})"]
        lines += [f"i{ion} = i", "}"] if ion else ["}"]
        lines += [f"PROCEDURE {p}step() {{ LOCAL {p}a, {p}b", *step, "}"] * bool(step)
        lines += [f"KINETIC {p}scheme {{", *scheme, "}"] * bool(scheme)
        return "\n".join(lines) + _HELPERS.format(p=p)

    def _check_names(self, names: list[str]) -> None:
        texts = [*names, str(self._ks.name())]
        for name in texts:
            if not _IDENTIFIER.fullmatch(name):
                raise InputError(f"with a name that NMODL has not: {name!r}")
        twice = [name for name in texts if texts.count(name) > 1 or name in _USED]
        if twice:
            raise InputError(f"with a name that NMODL has for something else: {twice[0]!r}")

    def _gate_factors(self) -> list[str]:
        factors = list[str]()
        for gate in map(self._ks.gate, range(int(self._ks.ngate()))):
            first, power = int(gate.sindex()), int(gate.power())
            shares = [self._ks.state(first + k).frac() for k in range(int(gate.nstate()))]
            states = self._names[first:]
            terms = [f"{_number(x)}*{n}" for x, n in zip(shares, states, strict=False) if x]
            factors += [f"({' + '.join(terms) or '0'})^{power}"] * bool(power)
        return factors

    def _hh_lines(self) -> tuple[list[str], list[str]]:
        """Return the statements that initialise the hh states, and those that advance them."""
        p, start, step = self._p, list[str](), list[str]()
        for name, t in zip(self._names, self._of_hh, strict=False):
            a, b = self._function(t, 0), self._function(t, 1)
            start += [f"{name} = {a}" if t.type() == 1 else f"{name} = {a}/({a} + {b})"]
            step += [f"{p}a = {a}", f"{p}b = {self._second(t)}"]
            if t.type() != 1:
                step += [f"{p}b = 1/({p}a + {p}b)", f"{p}a = {p}a*{p}b"]
            step += [f"{name} = {name} + ({p}a - {name})*(1 - {p}exp(-dt/{p}b))"]
        return start, step

    def _scheme(self) -> list[str]:
        reactions = list[str]()
        for t in self._of_ks:
            source, target = str(t.src().name()), str(t.target().name())
            a, b = self._function(t, 0), self._second(t)
            a, b = (f"{a}/{b}", f"(1 - {a})/{b}") if t.type() == 1 else (a, b)
            reactions += [f"~ {source} <-> {target} ({a}, {b})"] * (source != target)
        return reactions

    def _second(self, t: Hoc) -> str:
        """Return a transition's beta or tau as NMODL; a pair (inf, tau) shares coefficients."""
        pair = (t.ftype(0), t.ftype(1)) == _PAIR
        return self._function(t, 0, _PAIR[1]) if pair else self._function(t, 1)

    def _function(self, t: Hoc, which: int, type_: int | None = None) -> str:
        form_type = int(t.ftype(which))
        type_ = form_type if type_ is None else type_
        if form_type == _TABLE:
            raise InputError(f"whose transition {int(t.index())} has a table")
        form, count = _FORMS[type_]
        values = [_number(x) for x in self._numbers(t, which, count)]
        x = f"{_number(_E_OVER_K)}/(273.15 + celsius)"
        return "(" + form.format(*values, p=self._p, x=x) + ")"

    def _numbers(self, t: Hoc, which: int, count: int) -> list[float]:
        if t.ftype(which) < 0:
            raise InputError(f"whose transition {int(t.index())} lacks a function")
        numbers = [float(x) for x in t.parm(which)]
        if len(numbers) < count or not np.isfinite(numbers).all():
            raise InputError(f"whose transition {int(t.index())} has numbers of another function")
        return numbers


def _number(x: float) -> str:
    return f"({float(x)!r})" if x < 0 else repr(float(x))

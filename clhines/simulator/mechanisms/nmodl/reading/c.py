"""Translate the C in VERBATIM blocks into NMODL.

Supported is what files need to draw random numbers from a POINTER, and to read ions: assignments,
``if``, ``return``, locals of type double, calls, ``nrn_random_pick(_p_rng)`` and the functions in
``nrnran123.h``. A brace may open in one block and close in another block of the same function.
Other statements become calls of `UNREAD`, which refuses the file if it is executed; if parameters
decide whether it is, the start of a run refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from clhines.simulator.mechanisms.nmodl.reading.macros import (
    NotReadError,
    expanded,
    macros_in,
    preprocessed,
)
from clhines.simulator.mechanisms.nmodl.reading.tree import PICK
from clhines.simulator.mechanisms.nmodl.reading.verbatim import is_break, is_empty, without_comments

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    |(?P<name>[A-Za-z_]\w*)|(?P<text>"(?:[^"\\\n]|\\.)*")
    |(?P<sign>\+\+|--|[-+*/]=|[<>=!]=|&&|\|\||::|[-+*/<>=!(){}\[\];:,&])
    |(?P<other>[^\s\w'\\#]))""",
    re.X,
)
# casts of a stream to its type
_CAST = re.compile(
    r"\bRANDCAST\b|\(\s*(?:nrnran123_State|Rand|void)\s*\*\s*\)(?=[\s(]*_p_)"
    r"|\b(?:reinterpret|static)_cast\s*<\s*(?:nrnran123_State|Rand|void)\s*\*\s*>"
)
_PICKS = {  # a stream's functions, and their names in NMODL
    PICK: PICK, "nrnran123_dblpick": "random_dpick",
    "nrnran123_negexp": "random_negexp", "nrnran123_normal": "random_normal",
}  # fmt: skip
_MATHS = {
    "fabs", "exp", "log", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor",
    "ceil", "asin", "acos", "atan", "pow", "fmod", "atan2",
}  # fmt: skip
_CALLED = {*_MATHS, "exprand", "normrand", "scop_random", "nrn_ghk"}
_LEVELS = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/"))
_BLOCKS = {  # in NMODL
    "FUNCTION", "PROCEDURE", "DERIVATIVE", "KINETIC", "LINEAR", "NONLINEAR", "DISCRETE", "INITIAL",
    "BREAKPOINT", "NET_RECEIVE", "BEFORE", "AFTER", "CONSTRUCTOR", "DESTRUCTOR",
}  # fmt: skip
_RETURN = "VERBATIM\nreturn;\nENDVERBATIM"
# functions that only translations call
UNREAD = "verbatim_unread"  # stands for C that is not supported
OF_ION = "verbatim_of_ion"  # an ion's variable as it was when the block began
_OTHERS = {"abs", "break", "continue", "goto", "switch", "do", "sizeof", "float", "NULL"}


@dataclass
class Surroundings:
    """The names that a VERBATIM block can use."""

    function: str  # the FUNCTION around it, else empty
    names: frozenset[str]  # all names in the file's NMODL
    nmodl: frozenset[str]  # the enclosing block's LOCALs and arguments, and the file's LOCALs
    streams: frozenset[str]  # POINTERs from which any VERBATIM draws random numbers
    functions: frozenset[str]  # FUNCTIONs and PROCEDUREs
    counters: frozenset[str]  # FROM variables, which have C's type int: not supported
    macros: frozenset[str] = frozenset()  # macros, and mathematical functions that C redefines
    takes_v: bool = True  # whether v is the voltage: not in NET_RECEIVE
    defined: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # see `macros_in`
    statics: Mapping[str, int] = field(default_factory=dict)  # static variables' values
    c_locals: set[str] = field(default_factory=set)  # C's locals so far


def translations(parts: Sequence[re.Match[str]], statics: Mapping[str, int]) -> dict[int, str]:
    """Translate the VERBATIM blocks among a file's tokens, `parts`.

    Return each block's NMODL by the block's position in the text. `statics` has the values of
    static variables in the file's C.
    """
    words = [part.group() if part.lastgroup in ("name", "sign") else "" for part in parts]
    depths = [*accumulate({"{": 1, "}": -1}.get(word, 0) for word in words)]  # 0 outside blocks
    around = of_file = _names_of_file(parts, words, depths, statics)
    blocks, replacements = list[tuple[int, tuple[str, int, int] | None]](), dict[int, str]()
    for k, (part, word, depth) in enumerate(zip(parts, words, depths, strict=True)):
        if part.lastgroup == "verbatim" and depth and not _stays(part.group(), around.function):
            blocks.append((part.start(), translated(part.group(), around)))
        elif not depth and word in _BLOCKS:
            ends = (j for j in range(k, len(words)) if words[j] == "}" and not depths[j])
            local_names = frozenset(_locals(words[k : next(ends, len(words))]))
            around = replace(
                of_file,
                function="".join(words[k + 1 : k + 2]) if word == "FUNCTION" else "",
                nmodl=local_names | of_file.nmodl,
                takes_v=word != "NET_RECEIVE",
                c_locals=set(),
            )
        if not depth and blocks:
            replacements |= _balanced(blocks)
            blocks.clear()
    return replacements


def _names_of_file(
    parts: Sequence[re.Match[str]],
    words: Sequence[str],
    depths: Sequence[int],
    statics: Mapping[str, int],
) -> Surroundings:
    """Return the names that every VERBATIM block in a file sees.

    For each of the file's tokens, `parts`, `words` has the name or sign, else "", and `depths` the
    braces around it. `statics` has the values of static variables.
    """
    verbatim = [k for k, part in enumerate(parts) if part.lastgroup == "verbatim"]
    at_top = [without_comments(parts[k].group()) for k in verbatim if not depths[k]]
    defined = {name: macro for text in at_top for name, macro in macros_in(text).items()}
    macros = {name for text in at_top for name in _macros(text)}.difference(defined)
    locals_at = [k for k, word in enumerate(words) if word == "LOCAL" and not depths[k]]
    return Surroundings(
        function="",
        names=frozenset(words) | {"v", "t", "dt"},
        nmodl=frozenset(name for k in locals_at for name in _listed(words, k + 1)),
        streams=frozenset().union(*(_drawn_from(parts[k].group()) for k in verbatim)),
        functions=frozenset(b for a, b in pairwise(words) if a in ("FUNCTION", "PROCEDURE")),
        counters=frozenset(b for a, b in pairwise(words) if a == "FROM"),
        macros=frozenset(macros | {"diam", "area"}.difference(words)),
        defined=defined,
        statics=statics,
    )


def _stays(text: str, function: str) -> bool:
    return is_break(text) or (
        is_empty(text) and not (function and re.search(r"\breturn\b", without_comments(text)))
    )


def _macros(text: str) -> set[str]:
    named = re.findall(r"#\s*define\s+(\w+)", text)
    return {*named, *_MATHS.intersection(re.findall(r"(\w+)\s*\(", text))}


def _locals(words: Sequence[str]) -> Iterator[str]:
    """Yield the names in a block's LOCAL and FROM statements and in its argument list.

    The list is not parsed: its brackets, commas and units are among the results.
    """
    for k, word in enumerate(words):
        if word == "FROM" and words[k + 2 : k + 3] == ["="]:
            yield words[k + 1]
        elif word == "LOCAL":
            yield from _listed(words, k + 1)
        elif word in _BLOCKS | {"FOR_NETCONS"}:
            for name in words[k + 1 :]:
                if name == "{":
                    break
                yield name


def _listed(words: Sequence[str], at: int) -> Iterator[str]:
    while at < len(words):
        yield words[at]
        at += 4 if words[at + 1 : at + 2] == ["["] else 1
        if words[at : at + 1] != [","]:
            return
        at += 1


def _balanced(blocks: Sequence[tuple[int, tuple[str, int, int] | None]]) -> dict[int, str]:
    """Choose the VERBATIM translations to keep in one NMODL block; return them by position.

    `blocks` has each position, and a translation with the brace depth after it and its lowest brace
    depth, or None. If VERBATIM blocks share braces, keep all their translations or none.
    """
    translated, shared, depth, whole = dict[int, str](), dict[int, str](), 0, True
    for start, one in blocks:
        if one is None:
            whole &= not depth
            continue
        nmodl, moved, lowest = one
        (shared if moved or lowest or depth else translated)[start] = nmodl
        whole &= depth + lowest >= 0
        depth += moved
    return translated | (shared if whole and not depth else {})


def _drawn_from(text: str) -> frozenset[str]:
    calls = r"\b(?:nrn_random_pick|nrnran123_(?:dblpick|negexp|normal))\s*\("
    return frozenset(re.findall(rf"{calls}[\w\s*()<>]*?\b_p_(\w+)", without_comments(text)))


def translated(text: str, around: Surroundings) -> tuple[str, int, int] | None:
    """Translate a VERBATIM block, or return None if it cannot be divided into statements.

    Return its NMODL, the brace depth after it, and its lowest brace depth.
    """
    inner = text.strip().removeprefix("VERBATIM").removesuffix("ENDVERBATIM")
    try:
        text = _CAST.sub("", expanded(preprocessed(without_comments(inner)), around.defined))
        reader = _Reader(_with_values(_tokens(text), around.statics), around)
        nmodl = reader.all()
    except NotReadError:
        return None
    return nmodl, reader.depth, reader.lowest


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at, text = [], 0, text.rstrip()
    while at < len(text):
        one = _TOKEN.match(text, at)
        if one is None:
            raise NotReadError
        tokens.append((str(one.lastgroup), str(one[str(one.lastgroup)])))
        at = one.end()
    return tokens


def _with_values(
    tokens: Sequence[tuple[str, str]], statics: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Replace static variables by their values, in brackets, as they may be negative."""
    new = list[tuple[str, str]]()
    for sort, text in tokens:
        if sort != "name" or text not in statics:
            new.append((sort, text))
            continue
        value = statics[text]
        new += [("sign", "("), *[("sign", "-")] * (value < 0), ("number", str(abs(value)))]
        new.append(("sign", ")"))
    return new


class _Reader:
    """Translate a VERBATIM block; methods return NMODL.

    Methods for expressions also return whether the value is a whole number (C's type int). A
    NotReadError means that C is not supported.
    """

    def __init__(self, tokens: Sequence[tuple[str, str]], around: Surroundings) -> None:
        self._tokens, self._around = [*tokens, ("end", ""), ("end", "")], around
        self._at = self.depth = self.lowest = 0

    @property
    def _next(self) -> str:
        return self._tokens[self._at][1]

    @property
    def _is_at_end(self) -> bool:
        return self._tokens[self._at][0] == "end"

    def _take(self, *texts: str) -> bool:
        next_texts = [text for _, text in self._tokens[self._at : self._at + len(texts)]]
        same = next_texts == [*texts] and self._tokens[self._at][0] != "text"
        self._at += len(texts) if same else 0
        return same

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise NotReadError

    def _name(self) -> str:
        sort, text = self._tokens[self._at]
        if sort != "name":
            raise NotReadError
        self._at += 1
        return text

    def all(self) -> str:
        lines = []
        while not self._is_at_end:
            if self._take("}"):
                self._move(-1)
                lines.append("}")
                if self._take("else"):
                    lines.append(self._else())
            else:
                lines.append(self._statement())
        return "\n".join(lines)

    def _move(self, by: int) -> None:
        self.depth += by
        self.lowest = min(self.lowest, self.depth)

    def _statement(self) -> str:
        """Translate a statement; if that fails, call `UNREAD` instead of the text up to ``}``.

        `UNREAD` raises a refusal if it is executed.
        """
        before, names = (self._at, self.depth, self.lowest), set(self._around.c_locals)
        try:
            return self._read()
        except NotReadError:
            (self._at, self.depth, self.lowest), self._around.c_locals = before, names
        depth = 0
        while depth or self._next != "}":
            sort, text = self._tokens[self._at]
            if sort == "end":
                if depth or self.depth:
                    raise NotReadError
                break
            if text in ("goto", "case", "default"):
                raise NotReadError
            depth += {"{": 1, "}": -1}.get(text, 0) if sort == "sign" else 0
            self._at += 1
        return f"{UNREAD}()"

    def _read(self) -> str:
        if self._take(";"):
            return ""
        if self._next == "{":
            return self._body()
        if self._take("if"):
            return self._if()
        if self._take("return"):
            return self._return()
        if self._take("extern"):
            self._skip_to_semicolon()
            return ""
        if self._take("double"):
            return self._declaration()
        if self._take("hoc_execerror", "("):
            self._skip_to_semicolon()
            return "hoc_execerror()"  # refused where it is executed
        if self._take("nrnran123_setseq", "("):
            statement = self._place()
        elif self._tokens[self._at + 1][1] == "(":
            statement = self._expression()[0]
        else:
            name = self._variable()
            self._need("=")
            statement = f"{name} = {self._expression()[0]}"
        self._need(";")
        return statement

    def _body(self) -> str:
        if not self._take("{"):  # `UNREAD` must not swallow the statements after this one
            before = self.depth
            statement = self._read()
            if self.depth != before:
                raise NotReadError
            return f"{{ {statement} }}"
        self._move(1)
        lines, outside = ["{"], set(self._around.c_locals)
        while not self._is_at_end:
            if self._take("}"):
                self._move(-1)
                self._around.c_locals = outside
                return "\n".join([*lines, "}"])
            lines.append(self._statement())
        return "\n".join(lines)

    def _if(self) -> str:
        before = self.depth
        self._need("(")
        condition, _ = self._expression()
        self._need(")")
        statement = f"if ({condition}) {self._body()}"
        if self.depth == before and self._take("else"):
            statement += f" {self._else()}"
        return statement

    def _else(self) -> str:
        return f"else {self._if()}" if self._take("if") else f"else {self._body()}"

    def _return(self) -> str:
        function = self._around.function
        if self._take(";"):
            if function:
                raise NotReadError
            return _RETURN
        value, _ = self._expression()
        self._need(";")
        if not function and re.search(r"[A-Za-z_]", value):
            raise NotReadError
        return f"{function} = {value}\n{_RETURN}" if function else _RETURN

    def _skip_to_semicolon(self) -> None:
        while not self._take(";"):
            if self._is_at_end or self._next in "{}=":
                raise NotReadError
            self._at += 1

    def _declaration(self) -> str:
        around, lines = self._around, []
        while True:
            name = self._name()
            names = around.nmodl | around.functions | around.macros | around.c_locals | _OTHERS
            if name in names:
                raise NotReadError  # it would hide another variable
            lines.append(f"LOCAL {name}")
            around.c_locals.add(name)
            if self._take("="):
                lines.append(f"{name} = {self._expression()[0]}")
            if self._take(";"):
                return "\n".join(lines)
            self._need(",")

    def _place(self) -> str:
        """Translate the arguments of ``nrnran123_setseq(stream, seq, which)``.

        The stream's next word has the number ``4*seq + which`` in NMODL.
        """
        stream, numbers = self._stream(), list[str]()
        for _ in range(2):
            self._need(",")
            value, is_whole = self._expression()  # C converts it to an unsigned number
            numbers.append(f"({value})" if is_whole else f"floor({value})")
        self._need(")")
        return f"random_setseq({stream}, 4 * {numbers[0]} + {numbers[1]})"

    def _expression(self, level: int = 0) -> tuple[str, bool]:
        if level == len(_LEVELS):
            return self._signed()
        value, is_whole = self._expression(level + 1)
        while self._next in _LEVELS[level] and self._tokens[self._at][0] == "sign":
            sign = self._next
            self._at += 1
            other, is_other_whole = self._expression(level + 1)
            both = is_whole and is_other_whole
            if sign == "/" and both:
                raise NotReadError  # C rounds
            is_whole = both or level < 4
            value = f"{value} {sign} {other}"
            if level in (2, 3):
                value = f"({value})"  # NMODL's comparisons bind alike
        return value, is_whole

    def _signed(self) -> tuple[str, bool]:
        for sign in "-+!":
            if self._take(sign):
                value, is_whole = self._signed()
                return f"({sign}{value})" if sign != "+" else value, is_whole or sign == "!"
        if self._take("("):
            value, is_whole = self._expression()
            self._need(")")
            return f"({value})", is_whole
        return self._atom()

    def _atom(self) -> tuple[str, bool]:
        sort, text = self._tokens[self._at]
        for sign, value in (("!=", "0"), ("==", "1")):
            if self._take("_nt", sign, "nrn_threads"):  # there is one thread, the first
                return value, True
        if sort == "number":
            self._at += 1
            if text.isdigit() and text.startswith("0") and len(text) > 1:
                raise NotReadError  # octal
            return text, text.isdigit()
        if self._tokens[self._at + 1][1] == "(" and sort == "name":
            return self._call(), False
        if self._take("cvode_active_"):  # steps are fixed
            return "0", True
        if text.startswith("_ion_"):
            self._at += 1
            return f"{OF_ION}({text[5:]})", False
        if text.startswith("_p_"):
            return f"nrn_pointing({self._stream()})", True
        return self._variable(), False

    def _variable(self) -> str:
        name, around = self._name(), self._around
        if name.startswith("_l"):  # a LOCAL, an argument, or the function's value
            name = name[2:]
            names = around.nmodl | {around.function}
            if name in around.c_locals | around.counters or name not in names:
                raise NotReadError
        elif name not in around.c_locals:
            others = around.nmodl | around.macros | _OTHERS  # a LOCAL is another variable
            others |= set() if around.takes_v else {"v"}
            if name in others or name not in around.names:
                raise NotReadError
        return name

    def _call(self) -> str:
        name = self._name()
        self._need("(")
        if name in _PICKS:
            stream = self._stream()
            self._need(")")
            return f"{_PICKS[name]}({stream})"
        if name not in _CALLED | self._around.functions or name in self._around.macros:
            raise NotReadError
        values = list[str]()
        if name in self._around.functions:
            self._take("_threadargscomma_") or self._take("_threadargs_")
        while not self._take(")"):
            if values:
                self._need(",")
            values.append(self._expression()[0])
        return f"{name}({', '.join(values)})"

    def _stream(self) -> str:
        if self._take("("):
            name = self._stream()
            self._need(")")
            return name
        name = self._name()
        if not name.startswith("_p_") or name[3:] not in self._around.streams:
            raise NotReadError
        return name[3:]

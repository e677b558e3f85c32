"""Translate the C in VERBATIM blocks into NMODL.

Supported are assignments, ``if``, ``for``, ``while``, ``return``, locals of type double and int,
calls, ``printf`` (dropped), ``assert``, and random numbers from a POINTER: ``nrn_random_pick
(_p_rng)`` and the functions in ``nrnran123.h``. A condition may test whether a variable holds a
Vector. A brace may open in one block and close in another block of the same function. Other
statements become calls of `UNREAD`, which refuses the file if it is executed; if parameters decide
whether it is, the start of a run refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from clhines.simulator.mechanisms.nmodl.reading.macros import (
    NotReadError,
    expanded,
    macros_in,
    preprocessed,
)
from clhines.simulator.mechanisms.nmodl.reading.tree import PICK
from clhines.simulator.mechanisms.nmodl.reading.verbatim import is_empty, without_comments

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    |(?P<name>[A-Za-z_]\w*)|(?P<text>"(?:[^"\\\n]|\\.)*")
    |(?P<sign>\+\+|--|[-+*/]=|[<>=!]=|&&|\|\||::|[-+*/<>=!(){}\[\];:,&])
    |(?P<other>[^\s\w'\\#]))""",
    re.X,
)
_CASTS = {"nrnran123_State", "Rand", "void"}  # pointer types for a stream
_PICKS = {  # a stream's functions, and their names in NMODL
    PICK: PICK, "nrnran123_dblpick": "random_dpick",
    "nrnran123_negexp": "random_negexp", "nrnran123_normal": "random_normal",
}  # fmt: skip
_MATHS = {
    "fabs", "exp", "log", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor",
    "ceil", "asin", "acos", "atan", "pow", "fmod", "atan2",
}  # fmt: skip
_DRAWN = {"exprand", "normrand", "scop_random"}  # draw from NEURON's one generator
_LEVELS = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/"))
_BLOCKS = {  # in NMODL
    "FUNCTION", "PROCEDURE", "DERIVATIVE", "KINETIC", "LINEAR", "NONLINEAR", "DISCRETE", "INITIAL",
    "BREAKPOINT", "NET_RECEIVE", "BEFORE", "AFTER", "CONSTRUCTOR", "DESTRUCTOR",
}  # fmt: skip
_RETURN = "VERBATIM\nreturn;\nENDVERBATIM"
# functions that only translations call
UNREAD = "verbatim_unread"  # stands for C that is not supported
OF_ION = "verbatim_of_ion"  # an ion's variable as it was when the block began
WHOLE = "verbatim_whole"  # a number without its fraction, as C's cast to int gives it
_POINTED = {"void", "double", "int", "char", "float", "FILE", "Object", "Symbol", "IvocVect"}
_OTHERS = {"abs", "break", "continue", "goto", "switch", "do", "sizeof", "float", "NULL"}


class _Open(Exception):  # noqa: N818
    """A C statement that continues after its VERBATIM block."""


@dataclass
class Surroundings:
    """The names that a VERBATIM block can use."""

    function: str  # the FUNCTION around it, else empty
    nmodl: frozenset[str]  # the enclosing block's LOCALs and arguments, and the file's LOCALs
    streams: frozenset[str]  # POINTERs from which any VERBATIM draws random numbers
    functions: frozenset[str]  # FUNCTIONs and PROCEDUREs
    whole: frozenset[str]  # FROM variables, which have C's type int
    macros: frozenset[str] = frozenset()  # macros, and mathematical functions that C redefines
    takes_v: bool = True  # whether v is the voltage: not in NET_RECEIVE
    defined: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # see `macros_in`
    statics: Mapping[str, int] = field(default_factory=dict)  # static variables' values
    types: dict[str, str] = field(default_factory=dict)  # C locals' types so far


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
                types={},
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
        nmodl=frozenset(name for k in locals_at for name in _listed(words, k + 1)),
        streams=frozenset().union(*(_drawn_from(parts[k].group()) for k in verbatim)),
        functions=frozenset(b for a, b in pairwise(words) if a in ("FUNCTION", "PROCEDURE")),
        whole=frozenset(b for a, b in pairwise(words) if a == "FROM"),
        macros=frozenset(macros | {"diam", "area"}.difference(words)),
        defined=defined,
        statics=statics,
    )


def _stays(text: str, function: str) -> bool:
    return is_empty(text) and not (function and re.search(r"\breturn\b", without_comments(text)))


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
    """Translate a VERBATIM block, or return None if no statement is supported.

    Return its NMODL, the brace depth after it, and its lowest brace depth.
    """
    inner = text.strip().removeprefix("VERBATIM").removesuffix("ENDVERBATIM")
    try:
        text = expanded(preprocessed(without_comments(inner)), around.defined)
        reader = _Reader(_with_values(_tokens(text), around.statics), around)
        nmodl = reader.all()
    except (NotReadError, _Open):
        return None
    return None if nmodl == f"{UNREAD}()" else (nmodl, reader.depth, reader.lowest)


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
    """Translate a VERBATIM block; methods return NMODL, for expressions also the type in C.

    Types are ``int``, ``double`` and ``pointer``. A NotReadError means that C is not supported.
    """

    def __init__(self, tokens: Sequence[tuple[str, str]], around: Surroundings) -> None:
        self._tokens, self._around = [*tokens, ("end", "")], around
        self._at = self.depth = self.lowest = 0

    @property
    def _next(self) -> str:
        return self._tokens[self._at][1]

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
        while self._tokens[self._at][0] != "end":
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
        before, types = (self._at, self.depth, self.lowest), dict(self._around.types)
        try:
            return self._read()
        except NotReadError:
            (self._at, self.depth, self.lowest), self._around.types = before, types
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
        if self._take("while"):
            return f"while ({self._condition()}) {self._closed(self._body)}"
        if self._take("for"):
            return self._for()
        if self._take("return"):
            return self._return()
        if self._take("extern"):
            return self._skipped()
        if self._take("assert"):
            statement = f"if (!({self._condition()})) {{ hoc_execerror() }}"
            self._need(";")
            return statement
        if self._next in _POINTED and self._tokens[self._at + 1] == ("sign", "*"):
            return self._pointers()
        if self._next in ("double", "int", "long", "const", "static"):
            return self._declaration()
        for printing in (("printf", "("), ("fprintf", "(", "stderr"), ("fprintf", "(", "stdout")):
            if self._take(*printing):
                return self._dropped()
        if self._take("hoc_execerror", "("):
            return f"hoc_execerror()\n{self._dropped()}"  # refused where it is executed
        statement = self._simple()
        self._need(";")
        return statement

    def _body(self) -> str:
        if self._next == "" and self._tokens[self._at][0] == "end":
            raise _Open
        if not self._take("{"):  # `UNREAD` must not swallow the statements after this one
            return f"{{ {self._closed(self._read)} }}"
        self._move(1)
        lines, outside = ["{"], dict(self._around.types)
        while self._tokens[self._at][0] != "end":
            if self._take("}"):
                self._move(-1)
                self._around.types = outside
                return "\n".join([*lines, "}"])
            lines.append(self._statement())
        return "\n".join(lines)

    def _closed(self, read: Callable[[], str]) -> str:
        before = self.depth
        statement = read()
        if self.depth != before:
            raise NotReadError
        return statement

    def _condition(self) -> str:
        self._need("(")
        condition, _ = self._expression()
        self._need(")")
        return condition

    def _if(self) -> str:
        before = self.depth
        statement = f"if ({self._condition()}) {self._body()}"
        if self.depth == before and self._take("else"):
            statement += f" {self._else()}"
        return statement

    def _else(self) -> str:
        return f"else {self._if()}" if self._take("if") else f"else {self._body()}"

    def _for(self) -> str:
        self._need("(")
        outside = dict(self._around.types)
        if self._next in ("double", "int", "long"):
            first = self._declaration()
        else:
            first = "" if self._next == ";" else self._simple()
            self._need(";")
        test, _ = self._expression()
        self._need(";")
        step = self._simple()
        self._need(")")
        loop = f"{first}\nwhile ({test}) {{ {self._closed(self._body)}\n{step} }}"
        self._around.types = outside
        return f"{{ {loop} }}" if "LOCAL" in first else loop

    def _return(self) -> str:
        function = self._around.function
        if self._take(";"):
            if function:
                raise NotReadError
            return _RETURN
        value, kind = self._expression()
        self._need(";")
        if kind == "pointer" or (not function and re.search(r"[A-Za-z_]", value)):
            raise NotReadError
        return f"{function} = {value}\n{_RETURN}" if function else _RETURN

    def _skipped(self) -> str:
        while not self._take(";"):
            if self._tokens[self._at][0] == "end" or self._next in "{}=":
                raise NotReadError
            self._at += 1
        return ""

    def _declaration(self) -> str:
        if self._take("static"):
            raise NotReadError
        self._take("const")
        kind = self._integer() or self._name()
        if kind not in ("double", "int"):
            raise NotReadError
        lines = []
        while True:
            name = self._name()
            around = self._around
            if self._take("(", ")") or self._take("(", "void", ")"):
                pass  # a function that is defined elsewhere
            elif name in around.nmodl | around.functions | around.macros | _OTHERS | {
                *around.types
            }:
                raise NotReadError  # it would hide another variable
            else:
                lines.append(f"LOCAL {name}")
                self._around.types[name] = kind
                if self._take("="):
                    lines.append(self._assigned(name, name))
            if self._take(";"):
                return "\n".join(lines)
            self._need(",")

    def _integer(self) -> str:
        return "int" if self._take("int") or self._take("long") else ""

    def _pointers(self) -> str:
        """Drop a pointer declaration; the pointers' values, if any, must be the file's Vectors."""
        self._at += 1
        while not self._take(";"):
            while self._take("*"):
                pass
            name = self._name()
            self._around.types[name] = "pointer"
            if self._take("="):
                self._pointed(name)
            if self._next != ";":
                self._need(",")
        return ""

    def _pointed(self, name: str) -> None:
        sort = self._tokens[self._at + 3][1]
        if self._around.types[name] != "pointer" or sort not in ("void", "IvocVect"):
            raise NotReadError  # a second value: which one the pointer has would be unknown
        for text in ("*", "(", "(", sort, "*", "*", ")", "(", "&"):
            self._need(text)
        self._around.types[name] = f"pointer:{self._variable()[0]}"
        self._need(")")
        self._need(")")

    def _dropped(self) -> str:
        depth = 1
        while depth:
            sort, text = self._tokens[self._at]
            after = self._tokens[self._at + 1][1] if sort == "name" else ""
            changes = text in ("=", "++", "--") or text[1:] == "="
            if sort == "end" or changes or (after == "(" and text not in _MATHS):
                raise NotReadError
            depth += {"(": 1, ")": -1}.get(text, 0) if sort == "sign" else 0
            self._at += 1
        self._need(";")
        return ""

    def _simple(self) -> str:
        for sign in ("++", "--"):
            if self._take(sign):
                name, kind = self._variable()
                return f"{name} = {name} {sign[0]} 1"
        if self._next == "nrnran123_setseq":
            return self._place()
        if self._tokens[self._at + 1][1] == "(":
            return self._expression()[0]
        if self._around.types.get(self._next) == "pointer":
            name = self._name()
            self._need("=")
            self._pointed(name)
            return ""
        name, kind = self._variable()
        for sign in ("++", "--"):
            if self._take(sign):
                return f"{name} = {name} {sign[0]} 1"
        for sign in "+-*/":
            if self._take(f"{sign}="):
                value, other = self._expression()
                if kind == "int" and (other != "int" or sign == "/"):
                    raise NotReadError
                return f"{name} = {name} {sign} ({value})"
        self._need("=")
        return self._assigned(name, kind)

    def _assigned(self, name: str, kind: str) -> str:
        value, other = self._expression()
        kind = self._around.types.get(kind, kind)
        if kind == "int" and other == "double":
            raise NotReadError  # C rounds
        return f"{name} = {value}"

    def _place(self) -> str:
        """Translate ``nrnran123_setseq(stream, seq, which)`` to NMODL's ``random_setseq``.

        The stream's next word has the number ``4*seq + which``.
        """
        self._at += 1
        self._need("(")
        stream, numbers = self._stream(), list[str]()
        for _ in range(2):
            self._need(",")
            value, kind = self._expression()  # C converts it to an unsigned number
            numbers.append(f"({value})" if kind == "int" else f"floor({value})")
        self._need(")")
        return f"random_setseq({stream}, 4 * {numbers[0]} + {numbers[1]})"

    def _expression(self, level: int = 0) -> tuple[str, str]:
        if level == len(_LEVELS):
            return self._unary()
        value, kind = self._expression(level + 1)
        while self._next in _LEVELS[level] and self._tokens[self._at][0] == "sign":
            sign = self._next
            self._at += 1
            other, of_other = self._expression(level + 1)
            whole = kind == of_other == "int"
            if sign == "/" and whole:
                raise NotReadError  # C rounds
            if level > 1 and "pointer" in (kind, of_other):
                raise NotReadError
            kind = "int" if whole or level < 4 else "double"
            value = f"{value} {sign} {other}"
            if level in (2, 3):
                value = f"({value})"  # NMODL's comparisons bind alike
        return value, kind

    def _unary(self) -> tuple[str, str]:
        return self._signed() or self._bracketed() or self._atom()

    def _signed(self) -> tuple[str, str] | None:
        for sign in "-+!":
            if self._take(sign):
                value, kind = self._unary()
                return f"({sign}{value})" if sign != "+" else value, "int" if sign == "!" else kind
        return None

    def _bracketed(self) -> tuple[str, str] | None:
        if not self._take("("):
            return None
        kind = self._integer() or ("double" if self._take("double") else "")
        if not kind:
            value, kind = self._expression()
            self._need(")")
            return f"({value})", kind
        self._need(")")
        value, other = self._unary()
        if other == "pointer":
            raise NotReadError
        return f"{WHOLE}({value})" if (kind, other) == ("int", "double") else value, kind

    def _atom(self) -> tuple[str, str]:
        sort, text = self._tokens[self._at]
        for sign, value in (("!=", "0"), ("==", "1")):
            if self._take("_nt", sign, "nrn_threads"):  # there is one thread, the first
                return value, "int"
        if sort == "number":
            self._at += 1
            if text.isdigit() and text.startswith("0") and len(text) > 1:
                raise NotReadError  # octal
            return text, "int" if text.isdigit() else "double"
        if self._tokens[self._at + 1][1] == "(" and sort == "name":
            return self._call()
        if self._take("cvode_active_"):  # steps are fixed
            return "0", "int"
        if text.startswith("_ion_"):
            self._at += 1
            return f"{OF_ION}({text[5:]})", "double"
        if text.startswith("_p_"):
            self._at += 1
            if text[3:] not in self._around.streams:
                raise NotReadError
            return f"nrn_pointing({text[3:]})", "int"
        return self._variable()

    def _variable(self) -> tuple[str, str]:
        name, around = self._name(), self._around
        if name.startswith("_l"):  # a LOCAL, an argument, or the function's value
            name = name[2:]
            if name in around.types or (name not in around.nmodl and name != around.function):
                raise NotReadError
            kind = "int" if name in around.whole else "double"
        elif name in around.types:
            kind, _, holder = around.types[name].partition(":")
            if holder:
                return holder, "pointer"
            if kind in ("pointer", "text"):
                raise NotReadError
            return name, kind
        elif name.startswith("_") or name in around.nmodl | around.macros | _OTHERS:
            raise NotReadError  # a LOCAL with that name is another variable
        elif name == "v" and not around.takes_v:
            raise NotReadError
        else:
            kind = "double"
        if self._take("["):
            index, _ = self._expression()
            self._need("]")
            name += f"[{index}]"
        return name, kind

    def _call(self) -> tuple[str, str]:
        name = self._name()
        self._need("(")
        if name in _PICKS:
            stream = self._stream()
            self._need(")")
            return f"{_PICKS[name]}({stream})", "double"
        functions = {*_MATHS, *_DRAWN, "nrn_ghk"} | self._around.functions
        if name not in functions or name in self._around.macros:
            raise NotReadError
        values = list[str]()
        if name in self._around.functions:
            self._take("_threadargscomma_") or self._take("_threadargs_")
        while not self._take(")"):
            if values:
                self._need(",")
            values.append(self._expression()[0])
        return f"{name}({', '.join(values)})", "double"

    def _stream(self) -> str:
        self._take("RANDCAST")
        depth = 0
        if self._take("reinterpret_cast", "<") or self._take("static_cast", "<"):
            self._cast(">")
        while self._take("("):
            if self._next in _CASTS:
                self._cast(")")
            else:
                depth += 1
        name = self._name()
        for _ in range(depth):
            self._need(")")
        if not name.startswith("_p_") or name[3:] not in self._around.streams:
            raise NotReadError
        return name[3:]

    def _cast(self, end: str) -> None:
        if self._name() not in _CASTS:
            raise NotReadError
        self._need("*")
        self._need(end)

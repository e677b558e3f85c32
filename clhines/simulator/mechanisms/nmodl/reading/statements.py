"""Parse NMODL's statements and expressions; functions read at a `Cursor`'s position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from clhines.simulator.mechanisms.ir import exact
from clhines.simulator.mechanisms.nmodl.reading.cursor import Cursor
from clhines.simulator.mechanisms.nmodl.reading.tree import (
    PICK,
    Expression,
    Statement,
    not_neuron,
    refuse,
)
from clhines.simulator.refusals import refusal

MAX_DEPTH = 100  # brackets and blocks within each other
_LEVELS = (("||",), ("&&",), ("<", "<=", ">", ">=", "==", "!="), ("+", "-"), ("*", "/"))


def check_index(name: str, length: int, has_index: bool, line: int) -> None:
    if has_index and not length:
        raise not_neuron(f"'{name}' is not an array", line)
    if length and not has_index:
        raise not_neuron(f"'{name}' is an array", line, f"give an index, as {name}[0]")


def expression(p: Cursor, level: int = 0) -> Expression:
    """Read an expression whose operators outside brackets bind at least as tightly as `level`."""
    if level == len(_LEVELS):
        return unary(p)
    left = expression(p, level + 1)
    while p.token.sort == "sign" and p.token.text in _LEVELS[level]:
        sign = p.token.text
        p.place += 1
        left = (sign, left, expression(p, level + 1))
    return left


def unary(p: Cursor) -> Expression:
    """Read a power, and signs before it."""
    signs = []
    unary_signs = ("-", "+", "!") if p.token.of_c else ("-", "!")
    while p.token.sort == "sign" and p.token.text in unary_signs:
        signs.append(p.token.text)
        p.place += 1
    value = _power(p)
    for sign in reversed(signs):
        if sign != "+":
            value = ("neg" if sign == "-" else "not", value)
    return value


def _deeper(p: Cursor) -> None:
    p.depth += 1
    if p.depth > MAX_DEPTH:
        raise refuse("mod.too-deep", p.token.line, what=f"more than {MAX_DEPTH} brackets or blocks")


def _power(p: Cursor) -> Expression:
    _deeper(p)
    base = _primary(p)
    if p.take("^"):
        base = ("^", base, unary(p))
    p.depth -= 1
    return base


def _primary(p: Cursor) -> Expression:
    token = p.token
    if token.sort == "number":
        p.place += 1
        if p.token.text == "(" and p.token.line == token.line:
            p.unit()
        return ("number", exact.literal(token.text))
    if token.sort == "text":
        p.place += 1
        return ("text", token.text)
    if p.take("("):
        inner = expression(p)
        p.need(")")
        return inner
    return _named(p)


def _named(p: Cursor) -> Expression:
    line, of_c, name = p.token.line, p.token.of_c, p.name()
    if not of_c and p.token.text != "(":
        has_index = p.token.text == "["
        lengths = [scope[name] for scope in p.scopes if name in scope]
        if lengths:
            check_index(name, lengths[-1], has_index, line)
        else:
            p.used.append((name, has_index, line))
    if p.token.text == "(" and name not in p.defines:
        p.place += 1
        values: list[Expression] = []
        while values or not p.take(")"):
            values.append(expression(p))
            if not p.take(","):
                p.need(")")
                break
        _note(p, name, values)
        return ("call", name, tuple(values), line)
    if name in p.defines:
        return ("number", Fraction(p.defines[name]))
    after = p.tokens[p.place + 1 : p.place + 2]
    if p.sort == "DERIVATIVE" and after and after[0].text not in ("=", "'", "["):
        if p.take("'"):
            raise refuse("mod.rate-in-expression", line, name=name)
    return ("name", name, read_index(p))


def _note(p: Cursor, name: str, values: list[Expression]) -> None:
    p.has_exponential |= name == "exprand"
    picks = name == PICK
    if (picks or name.startswith("random_")) and values and values[0][0] == "name":
        stream = str(values[0][1])
        p.drawn[stream] = p.drawn.get(stream, False) or picks


def read_index(p: Cursor) -> Expression | None:
    if not p.take("["):
        return None
    index = read_integer(p)
    p.need("]")
    return index


def read_integer(p: Cursor) -> Expression:
    """Read an index or a bound of FROM; like NEURON, accept only whole numbers and names in it."""
    begin = p.place
    value = expression(p)
    for token in p.tokens[begin : p.place]:
        plain = token.sort == "name" or token.text.isdigit() or token.text in "+-*/()"
        if not plain and not token.of_c:
            what = f"'{token.text[:40]}' in an index or a bound of FROM"
            raise not_neuron(what, token.line, "use whole numbers and names")
    if value[0] in ("neg", "call") and not p.tokens[begin].of_c:
        raise not_neuron("a sign or a call in an index or a bound of FROM", p.token.line)
    return value


def read_block(p: Cursor, sort: str = "", arguments: Sequence[str] = ()) -> list[Statement]:
    """Read the statements of a block in braces; `sort` is the keyword of a block of the file."""
    p.sort = sort or p.sort
    p.scopes.append(dict.fromkeys(arguments, 0))
    _deeper(p)
    if p.take("SOLVEFOR"):
        p.names()
    p.need("{")
    statements: list[Statement] = []
    while not p.take("}"):
        token, one = p.token, statement(p)
        if one is not None and one.kind == "local" and statements and not token.of_c:
            raise not_neuron("LOCAL behind a statement", one.line, "begin the block with it")
        if one is not None:
            statements.append(one)
    p.depth -= 1
    p.scopes.pop()
    if not p.depth:
        p.sort = ""
    return statements


def statement(p: Cursor) -> Statement | None:
    token = p.token
    if token.sort == "verbatim":
        p.place += 1
        return Statement("verbatim", token.line, (token.text,))
    if token.text == "~":
        p.place += 1
        return _reaction(p) if p.sort == "KINETIC" else _equation(p, token.line)
    if token.sort != "name":
        return _bare(p)
    reader = _READERS.get(token.text)
    if reader is not None:
        p.place += 1
        return reader(p, token.line)
    return _bare(p)


def _none(p: Cursor, line: int) -> None:
    return None


def _bare(p: Cursor) -> Statement | None:
    line = p.token.line
    if p.token.of_c and p.take(";"):
        return None
    if p.token.text == "{":  # a block becomes an IF that is always true
        return Statement("if", line, values=(("number", Fraction(1)),), blocks=[read_block(p)])
    start, is_named = p.place, p.token.sort == "name"
    left = unary(p)
    if left[0] == "name" and (is_named or p.sort in ("LINEAR", "NONLINEAR")):
        primes = 0
        while p.take("'"):
            primes += 1
        index = left[2]
        if primes and index is None:
            index = read_index(p)
        if p.take("="):
            if primes > 1:
                raise refuse("mod.derivative-order", line, primes=primes)
            kind = "prime" if primes else "assign"
            return Statement(kind, line, (left[1], index), (expression(p),))
        if p.sort in ("LINEAR", "NONLINEAR") and not primes:
            p.place = start
            return _equation(p, line)
    if left[0] == "call":
        return Statement("call", line, values=(left,))
    p.place = start
    raise p.wrong()


def _bracketed(p: Cursor) -> Expression:
    p.need("(")
    inner = expression(p)
    p.need(")")
    return inner


def _if(p: Cursor, line: int) -> Statement:
    result = Statement("if", line, values=(_bracketed(p),), blocks=[read_block(p)])
    if p.take("ELSE") or p.take("else"):
        at = p.token.line
        if p.take("IF") or p.take("if"):
            result.blocks.append([_if(p, at)])
        else:
            result.blocks.append(read_block(p))
    return result


def _while(p: Cursor, line: int) -> Statement:
    return Statement("while", line, values=(_bracketed(p),), blocks=[read_block(p)])


def _from(p: Cursor, line: int) -> Statement:
    name = p.name()
    p.need("=")
    first = read_integer(p)
    p.need("TO")
    last = read_integer(p)
    by: Expression = read_integer(p) if p.take("BY") else ("number", Fraction(1))
    return Statement("from", line, (name,), (first, last, by), [read_block(p, "", (name,))])


def _local(p: Cursor, line: int) -> Statement:
    declared = [(p.name(), p.length())]
    while p.take(","):
        declared.append((p.name(), p.length()))
    p.scopes[-1] |= declared
    return Statement("local", line, tuple(declared))


def _solve(p: Cursor, line: int) -> Statement:
    name, method, steady = p.name(), "", False
    while True:
        if p.take("METHOD"):
            method = p.word()
        elif p.take("STEADYSTATE"):
            method, steady = p.word(), True
        else:
            return Statement("solve", line, (name, method, steady))


def _table(p: Cursor, line: int) -> Statement:
    columns = p.names() if p.token.text not in ("DEPEND", "FROM") else ()
    depends = p.names() if p.take("DEPEND") else ()
    p.need("FROM")
    low = expression(p)
    p.need("TO")
    high = expression(p)
    p.need("WITH")
    return Statement("table", line, (columns, depends, p.whole()), (low, high))


def _conserve(p: Cursor, line: int) -> Statement:
    terms = _terms(p)
    p.need("=")
    return Statement("conserve", line, (terms,), (expression(p),))


def _compartment(p: Cursor, line: int) -> Statement:
    name = ""
    if p.token.sort == "name" and p.tokens[p.place + 1].text == ",":
        name = p.name()
        p.need(",")
    volume = expression(p)
    p.need("{")
    names = []
    while not p.take("}"):
        names.append(p.name())
        p.take(",")
    return Statement("compartment", line, (name, tuple(names)), (volume,))


def _diffuse(p: Cursor, line: int) -> Statement:
    compartment = _compartment(p, line)
    return Statement("diffuse", line, compartment.names, compartment.values)


def _watch(p: Cursor, line: int) -> Statement:
    values: list[Expression] = []
    while True:
        values += [_bracketed(p), unary(p)]
        if not p.take(","):
            return Statement("watch", line, values=tuple(values))


def _for_netcons(p: Cursor, line: int) -> Statement:
    names = p.arguments()
    return Statement("for_netcons", line, names, blocks=[read_block(p, "", names)])


def _initial(p: Cursor, line: int) -> Statement:
    return Statement("initial", line, blocks=[read_block(p)])


def _conductance(p: Cursor, line: int) -> Statement:
    name = p.name()
    ion = p.name() if p.take("USEION") else ""
    return Statement("conductance", line, (name, ion))


def _terms(p: Cursor) -> tuple[tuple[Fraction, Expression], ...]:
    """Read one side of a reaction, ``2 a + b[i]``, as pairs (number, name expression)."""
    terms: list[tuple[Fraction, Expression]] = []
    while True:
        number = Fraction(1)
        if p.token.sort == "number" or p.token.text in p.defines:
            number = p.signed()
        terms.append((number, ("name", p.name(), read_index(p))))
        if not p.take("+"):
            return tuple(terms)


def _reaction(p: Cursor) -> Statement:
    line = p.token.line
    left = _terms(p)
    right: tuple[tuple[Fraction, Expression], ...] = ()
    sign = next((s for s in ("<->", "<<", "->") if p.take(s)), "")
    if not sign:
        raise p.wrong()
    if sign == "<->":
        right = _terms(p)
    p.need("(")
    read = expression if sign == "<<" else _rate
    values = [read(p)]
    if p.take(","):
        values.append(read(p))
    p.need(")")
    return Statement("reaction", line, (sign, left, right), tuple(values))


def _rate(p: Cursor) -> Expression:
    begin, depth = p.place, 0
    rate = expression(p)
    for k in range(begin, p.place):
        text = p.tokens[k].text
        depth += (text in ("(", "[")) - (text in (")", "]"))
        if k > begin and not depth and any(text in level for level in _LEVELS[:4]):
            raise not_neuron(refusal("mod.rate-without-brackets"), p.tokens[k].line)
    return rate


def _equation(p: Cursor, line: int) -> Statement:
    left = expression(p)
    p.need("=")
    return Statement("equation", line, values=(left, expression(p)))


_READERS: dict[str, Callable[[Cursor, int], Statement | None]] = {
    "IF": _if, "if": _if, "WHILE": _while, "while": _while,
    "FROM": _from, "LOCAL": _local, "SOLVE": _solve, "TABLE": _table,
    "CONSERVE": _conserve, "COMPARTMENT": _compartment, "PROTECT": _none,
    "LONGITUDINAL_DIFFUSION": _diffuse, "WATCH": _watch,
    "FOR_NETCONS": _for_netcons, "INITIAL": _initial,
    "CONDUCTANCE": _conductance, "UNITSON": _none, "UNITSOFF": _none,
    "MUTEXLOCK": _none, "MUTEXUNLOCK": _none,
}  # fmt: skip

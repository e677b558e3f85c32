"""Split an NMODL file into tokens: drop comments, include files, translate C into NMODL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clhines.core.errors import InputError
from clhines.core.files import read_bytes
from clhines.simulator.mechanisms.nmodl.reading.c import translations
from clhines.simulator.mechanisms.nmodl.reading.tree import not_neuron, refuse
from clhines.simulator.mechanisms.nmodl.reading.verbatim import counter_statements

MAX_TEXT, MAX_INCLUDES = 2_000_000, 20

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v\ufeff]+|\n)
    |(?P<verbatim>VERBATIM\b.*?^[ \t]*ENDVERBATIM\b)
    |(?P<comment>COMMENT\b.*?^[ \t]*ENDCOMMENT\b|[:?][^\n]*)
    |(?P<title>TITLE\b[^\n]*)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<text>"[^"\n]*")
    |(?P<sign><->|<<|->|<=|>=|==|!=|&&|\|\||.)
    """,
    re.X | re.S | re.M | re.A,
)
_END = "\x1a"  # a file's, in DOS and in NEURON
_SKIPPED = "space", "comment", "title", "text"


@dataclass(frozen=True)
class Token:
    sort: str  # ``name``, ``number``, ``sign``, ``text``, ``verbatim`` or ``end``
    text: str
    line: int  # in the first file: an included file stands on INCLUDE's line
    start: int  # in the whole text
    end: int
    of_c: bool = False  # whether it is translated from VERBATIM


@dataclass
class Includes:
    """The included files' texts by name; files in `folder` are read when they are needed."""

    folder: Path | None = None
    texts: dict[str, str] = field(default_factory=dict)

    def text(self, name: str, line: int) -> str:
        """Return the text of an included file; Refused, with `line`, if it cannot be read."""
        if name not in self.texts:
            path = (self.folder or Path()) / name
            if self.folder is None or not path.is_file():
                way_out = "give the path of the file, so that others are found beside it"
                raise refuse("mod.include", line, way_out, name=name, error="there is no such file")
            try:
                self.texts[name] = read_bytes(path, MAX_TEXT).decode("utf-8", "replace")
            except InputError as error:
                raise refuse("mod.include", line, name=name, error=error) from error
        return self.texts[name]


def tokens(text: str, includes: Includes, statics: Mapping[str, int] | None = None) -> list[Token]:
    """Return the tokens in a text and in the files that it includes, then an ``end``.

    `statics` has the values of C's static variables. Refused if a file cannot be read, or if files
    include each other endlessly.
    """
    result = _tokens(text, includes, statics or {}, 0, 0)
    return [*result, Token("end", "", text.count("\n") + 1, 0, 0)]


def _tokens(
    text: str,
    includes: Includes,
    statics: Mapping[str, int],
    depth: int,
    fixed: int,
    of_c: bool = False,
) -> list[Token]:
    """Return a text's tokens.

    `depth` counts the files that include the text; `of_c`: the text is translated C. `fixed`,
    unless 0, is the line number of all tokens.
    """
    result, row, closed, include = list[Token](), 1, 0, False
    parts = list(_TOKEN.finditer(text))
    read = [p for p in parts if p.lastgroup not in _SKIPPED]
    translated: dict[int, str] = {} if of_c else translations(read, statics)
    counters = {p.start(): counter_statements(p.group()) for p in read if p.lastgroup == "verbatim"}
    translated |= {start: nmodl for start, nmodl in counters.items() if nmodl is not None}
    for match in parts:
        line, sort, part = fixed or row, str(match.lastgroup), match.group()
        if part == _END:
            break
        if closed == row and sort not in _SKIPPED and not of_c:
            what = f"'{part[:40]}' behind ENDVERBATIM in its line, which NEURON drops"
            raise not_neuron(what, line, "begin a line with it")
        if include and sort == "text":
            if depth >= MAX_INCLUDES:
                raise refuse("mod.include-within-others", line, max_includes=MAX_INCLUDES)
            result[-1:] = _tokens(
                includes.text(part[1:-1], line), includes, statics, depth + 1, line
            )
        elif match.start() in translated:
            nmodl = translated[match.start()]
            result += _tokens(nmodl, includes, statics, depth, line, of_c=True)
        elif sort == "text" or sort not in _SKIPPED:
            result.append(Token(sort, part, line, *match.span(), of_c))
        row += part.count("\n")
        closed = row if sort == "verbatim" else closed
        if sort != "space":
            include = sort == "name" and part == "INCLUDE"
        if len(result) > MAX_TEXT:
            raise refuse("mod.too-much-text", line, most=MAX_TEXT)
    return result

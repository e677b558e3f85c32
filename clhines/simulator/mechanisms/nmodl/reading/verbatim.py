"""VERBATIM blocks without an effect on a simulation, and the blocks of NEURON's apcount.mod."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from clhines.simulator.mechanisms.nmodl.reading.tree import Statement, all_of, refuse, uses

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*', re.S)  # or a text
_LINES = re.compile(
    r"^[ \t]*#[ \t]*(include|ifndef|ifdef|if|endif|else|define|undef)\b[^\n]*$", re.M
)
_OPEN = re.compile(r"#\s*ifndef\s+CORENEURON_BUILD|#\s*if\s+!NRNBBCORE|#\s*endif")
_NOTHING = re.compile(
    r"if\s*\(\s*cvode_active_\s*\)\s*\{\s*hoc_execerror\([^;{}]*\)\s*;\s*\}"  # no CVode here
    r"|return\s*(0|0\.0?|\(\s*0\s*\))?\s*;|extern\b[^;{}]*;|;"
    r"|(?:static\s+|const\s+|unsigned\s+)*(?:double|int|void|float|long)\s*\**\s*\w+\s*\([^;{}]*\)\s*;"
)
# statements in NEURON's apcount.mod, without spaces, and the same in NMODL
_COUNTS = (
    "if(v>=thresh&&!firing){intsize;double*px;firing=1;time=t;n+=1.;"
    "if(auto*vv=*reinterpret_cast<IvocVect**>(&space)){size=(int)n;vector_resize(vv,size);"
    "px=vector_vec(vv);px[size-1]=time;}}if(firing&&v<thresh&&t>time){firing=0;}"
)
VECTOR_OF_COUNTER = "space"  # its variable that has APCount.record's Vector
_EMPTIED = "if(auto*vv=*reinterpret_cast<IvocVect**>(&space)){vector_resize(vv,0);}"
_STATEMENTS = {
    _COUNTS: (
        "if (v >= thresh && !firing) { firing = 1 time = t n = n + 1 } "
        "if (firing && v < thresh && t > time) { firing = 0 }"
    ),
    _EMPTIED: "",  # the importer fills APCount.record's Vector
}


def without_comments(text: str) -> str:
    return _COMMENT.sub(lambda m: m[0] if m[0].startswith('"') else " ", text)


def counter_statements(text: str) -> str | None:
    """Translate a VERBATIM block of NEURON's apcount.mod to NMODL; return None for other blocks."""
    return _STATEMENTS.get(re.sub(r"\s+", "", _inner(text)))


def counts_crossings(text: str) -> bool:
    """Return whether an NMODL text counts crossings like NEURON's apcount.mod."""
    return _COUNTS in re.sub(r"\s+", "", without_comments(text))


def is_break(text: str) -> bool:
    return re.sub(r"\s+", "", _inner(text)) == "break;"


def _inner(text: str) -> str:
    return without_comments(text.strip().removeprefix("VERBATIM").removesuffix("ENDVERBATIM"))


def is_empty(text: str) -> bool:
    """Return whether a VERBATIM block has no effect on a simulation."""
    inner = _inner(text)
    opened = [word for word in _LINES.findall(inner) if word in ("if", "ifdef", "ifndef", "endif")]
    if 2 * opened.count("endif") != len(opened) and not _OPEN.fullmatch(inner.strip()):
        return False  # the preprocessor may skip statements behind the block
    return not _NOTHING.sub(" ", _LINES.sub("", inner)).strip()


def is_return(s: Statement) -> bool:
    if s.kind != "verbatim" or not is_empty(str(s.names[0])):
        return False
    return re.search(r"\breturn\b", _LINES.sub("", _inner(str(s.names[0])))) is not None


def without_returns(body: Sequence[Statement]) -> list[Statement]:
    """Remove ``return``: ``if (a) { b return } c`` becomes ``if (a) { b } else { c }``.

    Declarations stay where they are, and so does a ``return`` in a loop, which is refused later.
    """
    for k, s in enumerate(body):
        if is_return(s):
            return [*body[:k], *_fixed(body[k:])]
        if s.kind == "if" and any(map(is_return, all_of([s], "verbatim"))):
            after = [one for one in body[k + 1 :] if one.kind not in _FIXED]
            blocks = [*s.blocks, []][:2]
            locals_ = {one[0] for local in all_of([s], "local") for one in local.names}
            if any(uses(after, str(name)) for name in locals_):
                raise refuse("mod.verbatim-return-beside-local", s.line)
            moved = replace(s, blocks=[without_returns([*block, *after]) for block in blocks])
            return [*body[:k], moved, *_fixed(body[k + 1 :])]
    return [*body]


_FIXED = ("initial", "table", "conductance")


def _fixed(body: Sequence[Statement]) -> list[Statement]:
    return [s for s in body if s.kind in _FIXED]

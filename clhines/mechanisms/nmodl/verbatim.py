"""VERBATIM that says nothing to a simulation: declarations, includes, ``return 0;``."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_LINES = re.compile(
    r"^[ \t]*#[ \t]*(include|ifndef|ifdef|if|endif|else|define|undef)\b[^\n]*$", re.M
)
_NOTHING = re.compile(
    r"return\s*(0|0\.0?|\(\s*0\s*\))?\s*;|extern\b[^;{}]*;|;"
    r"|(?:static\s+|const\s+|unsigned\s+)*(?:double|int|void|float|long)\s*\**\s*\w+\s*\([^;{}]*\)\s*;"
)


def is_empty(text: str) -> bool:
    """Whether a VERBATIM block, with its words around it, can be dropped."""
    inner = text.strip().removeprefix("VERBATIM").removesuffix("ENDVERBATIM")
    inner = _LINES.sub("", _COMMENT.sub(" ", inner))
    return not _NOTHING.sub(" ", inner).strip()

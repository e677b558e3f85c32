"""The only caller of Mako: a frozen spec in, OpenCL source out."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any

from clhines.solver.plan.kernel_spec import TemplateSpec, signature

_INSTALLED = Path(__file__).parents[2] / "kernels"
# in a checkout beside the package, which another clhines that is installed has nothing to do with
FOLDER = _INSTALLED if _INSTALLED.is_dir() else _INSTALLED.parents[1] / "kernels"


@cache
def _template(name: str) -> Any:
    from mako.template import Template  # plans are made without it

    text = (FOLDER / f"{name}.mako").read_text("utf-8")
    return Template(text, strict_undefined=True, filename=f"{name}.mako")


@cache
def digest() -> str:
    """Return a digest of all templates: it changes if any kernel may change."""
    sha256 = hashlib.sha256()
    for file in sorted(FOLDER.rglob("*.mako")):
        sha256.update(file.read_bytes())
    return sha256.hexdigest()[:16]


@cache
def render(spec: TemplateSpec) -> str:
    """Return a spec's OpenCL source.

    ``${part("NAME", SPACES, size=3)}`` includes another template, whose page has the argument
    `size` besides `spec`.
    """

    def part(name: str, spaces: int = 0, **values: object) -> str:
        known = {"spec": spec, "part": part, "signature": signature}
        text = str(_template(name).render(**known, **values))
        return indent(text, " " * spaces)

    return part(spec.template)

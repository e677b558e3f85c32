"""Render a spec to OpenCL source; the only caller of Mako."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any

from clhines.solver.plan.kernel_spec import TemplateSpec, signature

_INSTALLED = Path(__file__).parents[2] / "kernels"
# in a checkout the folder is beside the package
FOLDER = _INSTALLED if _INSTALLED.is_dir() else _INSTALLED.parents[1] / "kernels"


@cache
def compiled(name: str) -> Any:
    """Return the compiled Mako template from the file `name`."""
    from mako.template import Template  # plans are made without it

    text = (FOLDER / f"{name}.mako").read_text("utf-8")
    return Template(text, strict_undefined=True, filename=f"{name}.mako")


@cache
def digest() -> str:
    """Return a digest of all templates: it changes whenever a kernel may change."""
    sha256 = hashlib.sha256()
    for file in sorted(FOLDER.rglob("*.mako")):
        sha256.update(file.read_bytes())
    return sha256.hexdigest()[:16]


@cache
def render(spec: TemplateSpec) -> str:
    """Return the OpenCL source of a spec.

    In a template ``${part("NAME", SPACES, size=3)}`` includes template NAME, indented by SPACES
    spaces. NAME can use `spec` and the keyword arguments, here `size`.
    """

    def part(name: str, spaces: int = 0, **values: object) -> str:
        known = {"spec": spec, "part": part, "signature": signature}
        text = str(compiled(name).render(**known, **values))
        return indent(text, " " * spaces)

    return part(spec.template)

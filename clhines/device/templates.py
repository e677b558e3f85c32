"""The only caller of Mako: a frozen spec in, OpenCL source out."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

from mako.template import Template

from clhines.plan.kernel_spec import TemplateSpec, signature

if TYPE_CHECKING:
    from importlib.abc import Traversable


@cache
def _template(name: str) -> Template:
    text = _folder().joinpath(f"{name}.mako").read_text("utf-8")
    return Template(text, strict_undefined=True, filename=f"{name}.mako")


def _folder() -> Traversable:
    try:
        return files("clhines.kernels")
    except ModuleNotFoundError:  # run from a checkout that is not installed
        return Path(__file__).parents[2] / "kernels"


@cache
def digest() -> str:
    """Return a digest of all templates: another one where any kernel may be another."""
    found = hashlib.sha256()
    for folder in (_folder(), *(f for f in _sorted(_folder()) if f.is_dir())):
        for file in _sorted(folder):
            if file.name.endswith(".mako"):
                found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _sorted(folder: Traversable) -> list[Traversable]:
    return sorted(folder.iterdir(), key=lambda found: found.name)


@cache
def render(spec: TemplateSpec) -> str:
    """Return a spec's OpenCL source; ``${part("NAME", SPACES)}`` includes another template."""

    def part(name: str, spaces: int = 0) -> str:
        text = str(_template(name).render(spec=spec, part=part, signature=signature))
        return indent(text, " " * spaces)

    return part(spec.template)

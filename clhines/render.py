"""The only caller of Mako: a frozen spec in, OpenCL source out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mako.template import Template

if TYPE_CHECKING:
    from importlib.abc import Traversable


@dataclass(frozen=True)
class PermuteSpec:
    """``permute.mako``: between natural and device order; `real` is ``double`` or ``float``."""

    template: ClassVar[str] = "permute"
    real: str


@dataclass(frozen=True)
class PassiveSpec:
    """``passive.mako``: the right-hand side of a step of passive cells."""

    template: ClassVar[str] = "passive"
    real: str


@dataclass(frozen=True)
class FloorSpec:
    """``floor.mako``: the memory floor; `vector_width` above 1 is for CPUs.

    `streaming` stores past their caches, as `plan_fine.FineVectorSpec` does.
    """

    template: ClassVar[str] = "floor"
    real: str
    vector_width: int
    streaming: bool = False


@cache
def _template(name: str) -> Template:
    text = _folder().joinpath(f"{name}.mako").read_text("utf-8")
    return Template(text, strict_undefined=True, filename=f"{name}.mako")


def _folder() -> Traversable:
    """Where the templates are: the installed package, or beside it in a checkout."""
    try:
        return files("clhines.kernels")
    except ModuleNotFoundError:  # run from a checkout that is not installed
        return Path(__file__).parents[1] / "kernels"


@cache
def render(spec: Any) -> str:
    """Return the OpenCL source of a spec: a frozen dataclass whose class names its template.

    A template takes in another one, for the same spec, by ``${part("its name")}``.
    """

    def part(name: str) -> str:
        return str(_template(name).render(spec=spec, part=part))

    return part(spec.template)

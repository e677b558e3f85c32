"""Templates turn a spec into OpenCL source."""

import re
from dataclasses import dataclass
from typing import ClassVar

import pytest

from clhines.solver.device.timing import FloorSpec
from clhines.solver.engines.loaded import PermuteSpec
from clhines.solver.plan import templates
from clhines.solver.plan.kernel_spec import TemplateSpec

pytestmark = pytest.mark.core


@dataclass(frozen=True)
class MadeSpec(TemplateSpec):
    template: ClassVar[str] = "outer"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {"run": ("int n, real *x",)}
    real: str
    scale: int


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(templates, "FOLDER", tmp_path)
    for cached in (templates.compiled, templates.digest, templates.render):
        cached.cache_clear()
    yield tmp_path
    for cached in (templates.compiled, templates.digest, templates.render):
        cached.cache_clear()


def test_parts_are_included_with_their_indent(folder):
    (folder / "outer.mako").write_text("void f() {\n${part('inner', 4)}\n}")
    (folder / "inner.mako").write_text("x *= ${spec.scale};\nx += 1;")
    assert templates.render(MadeSpec("float", 3)) == "void f() {\n    x *= 3;\n    x += 1;\n}"


def test_a_name_that_the_spec_lacks_is_an_error(folder):
    (folder / "outer.mako").write_text("${spec.scale} ${scale}")
    with pytest.raises(NameError, match="scale"):
        templates.render(MadeSpec("float", 3))


def test_the_digest_is_of_every_file(folder):
    def digest():
        templates.digest.cache_clear()
        return templates.digest()

    (folder / "outer.mako").write_text("a")
    first = digest()
    (folder / "deep").mkdir()
    (folder / "deep" / "more.mako").write_text("b")
    second = digest()
    (folder / "deep" / "more.mako").write_text("c")
    assert len({first, second, digest()}) == 3 and len(first) == 16


@pytest.mark.parametrize(
    "spec", [PermuteSpec("double"), PermuteSpec("float"), FloorSpec("float", 2)]
)
def test_each_kernel_of_a_spec_is_in_its_source(spec):
    names = re.findall(r"void (\w+)\(", re.sub(r"//[^\n]*", "", templates.render(spec)))
    assert set(type(spec).kernels) <= set(names)
    other = "float" if spec.real == "double" else "double"
    assert not re.search(rf"\b{other}\b", templates.render(spec))

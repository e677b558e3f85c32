"""Every kernel of the snapshots compiles with clang, for x86-64 and for AMD's gfx90a."""

import clang
import pytest

PARTS = 8
WHY_NOT = clang.why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture(scope="module")
def every():
    return clang.sources()


@pytest.mark.parametrize("part", range(PARTS))
def test_every_kernel_compiles(every, part):
    """Compile each form that a user can reach, for each target."""
    some = dict(list(every.items())[part::PARTS])
    assembly, errors = clang.compile_all(some)
    assert errors == []
    assert len(assembly) == sum(len(source.targets) for source in some.values()) > 30


def test_an_error_is_found_where_it_is(every):
    """Planted: a variable that is not declared, in one of the sources."""
    name = min(every, key=lambda name: len(every[name].text))
    source = every[name]
    text = source.text.rstrip().removesuffix("}") + "    undeclared = 1;\n}\n"
    planted = clang.Source(text, source.ptx, source.lines)
    _, errors = clang.compile_all({name: planted})
    assert len(errors) == len(source.targets)
    assert all("undeclared" in error and source.lines[0] in error for error in errors)

"""The protocols `Run` and `PartRun`: their implementations have the same parameters."""

import inspect

import pytest

from clhines.simulator.engines.arena_run import ArenaRun
from clhines.simulator.engines.reference import Reference
from clhines.simulator.engines.run import PartRun, Run
from clhines.simulator.ranks.run import RankedRun, SharedRun

PLAYED = [
    *((PartRun, cls) for cls in (Reference, ArenaRun)),
    *((Run, cls) for cls in (RankedRun, SharedRun)),
]


def methods(protocol):
    """Return the public methods of a protocol and its bases."""
    functions = {}
    for base in protocol.__mro__:
        if getattr(base, "_is_protocol", False):
            functions |= {k: f for k, f in vars(base).items() if inspect.isfunction(f)}
    return {k: f for k, f in functions.items() if not k.startswith("_")}


@pytest.mark.parametrize(("protocol", "cls"), PLAYED)
def test_methods_are_those_of_the_protocol(protocol, cls):
    expected = methods(protocol)
    assert len(expected) >= 4
    for name, method in expected.items():
        parameters = inspect.signature(getattr(cls, name)).parameters
        assert [*parameters] == [*inspect.signature(method).parameters], name
    assert any("device" in {**vars(c), **vars(c).get("__annotations__", {})} for c in cls.__mro__)


def test_a_part_is_a_run_too():
    assert methods(Run).keys() < methods(PartRun).keys()

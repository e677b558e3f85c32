"""The method `serial` is taken only when asked for."""

from clhines import Forest, make_plan
from clhines.cells.shapes import chain
from clhines.plan import auto


def test_auto_never_takes_it():
    assert all(c.method != "serial" for row in auto.CANDIDATES.values() for c in row)
    assert make_plan(Forest(chain(1))).method != "serial"

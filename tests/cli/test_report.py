"""Long lines are folded without loss."""

import sys

from clhines.cli.report import folded


def test_long_lines_are_folded_on_a_terminal(monkeypatch):
    """In a pipe they stay whole; once they were cut at column 100."""
    names = [f"mechanism_{k} x 220" for k in range(20)]
    line = f"mechanisms {', '.join(names)}"
    assert folded(line, 11) == line
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    rest = folded(line, 11).splitlines()
    assert len(rest) > 2 and max(map(len, rest)) <= 100
    assert all(line.startswith(" " * 11) for line in rest[1:])
    assert " ".join(line.strip() for line in rest) == line
    assert folded("x" * 100, 3) == "x" * 100

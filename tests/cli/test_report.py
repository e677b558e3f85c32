"""Tables of commands: long lines are folded without loss."""

import sys

from clhines.cli.report import folded, table


def test_long_lines_are_folded_on_a_terminal(monkeypatch):
    """In a pipe they stay whole; once they were cut at column 100."""
    names = [f"mechanism_{k} x 220" for k in range(20)]
    text = table(
        {"dt": "{dt} ms", "mechanisms": "{mechanisms}"},
        {"dt": 0.025, "mechanisms": ", ".join(names)},
    )
    assert len(text.splitlines()) == 2 and text.endswith(", ".join(names))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    text = folded(text.splitlines()[0], 11) + "\n" + folded(text.splitlines()[1], 11)
    first, *rest = text.splitlines()
    assert first == "dt         0.025 ms"
    assert len(rest) > 2 and max(map(len, rest)) <= 100
    assert all(line.startswith(" " * 11) for line in rest[1:])
    assert " ".join(line.strip() for line in rest) == f"mechanisms {', '.join(names)}"
    assert folded("x" * 100, 3) == "x" * 100

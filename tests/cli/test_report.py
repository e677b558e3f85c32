"""Tables of commands: long lines are folded, and nothing of them is lost."""

from clhines.cli.report import folded, table


def test_long_lines_are_folded():
    """They were cut at column 100, also in a pipe, with no mark."""
    names = [f"mechanism_{k} x 220" for k in range(20)]
    text = table(
        {"dt": "{dt} ms", "mechanisms": "{mechanisms}"},
        {"dt": 0.025, "mechanisms": ", ".join(names)},
    )
    first, *rest = text.splitlines()
    assert first == "dt         0.025 ms"
    assert len(rest) > 2 and max(map(len, rest)) <= 100
    assert all(line.startswith(" " * 11) for line in rest[1:])
    assert " ".join(line.strip() for line in rest) == f"mechanisms {', '.join(names)}"
    assert folded("x" * 100, 3) == "x" * 100

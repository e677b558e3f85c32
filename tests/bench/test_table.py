"""Layout of tables."""

import pytest

from bench import table


def test_groups_are_set_apart():
    assert table.ruled("head", ["a", "b", "c"], [1, 1, 2]).splitlines() == [
        "head", "----", "a", "b", "", "c",
    ]  # fmt: skip
    assert table.ruled("h", ["a", "b"]).splitlines() == ["h", "-", "a", "b"]


@pytest.mark.parametrize(
    ("value", "text"), [(1.234, "  1.23"), (123456.7, "123457"), (1234567.0, "1.2e+06")]
)
def test_narrow_numbers_lose_digits_first(value, text):
    assert table.narrow(value, 6, 2) == text


def test_what_is_missing_is_said_once():
    missing = [("A", "no GPU", "1 cell"), ("A", "no GPU", "2 cells"), ("B", "x" * 120, "1 cell")]
    lines = table.missing(missing)
    assert lines[0] == "missing: A: no GPU; 1 cell and 1 more"
    assert lines[1].startswith("missing: B:") and all(len(line) <= 120 for line in lines)

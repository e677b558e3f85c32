"""Tables of README and of pages are those of their results; planted faults prove the comparison."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="no docs here")
SPEC = r"result-table\}? (?P<name>\S+)\n(?::where: (?P<where>.*)\n)?(?P<lines>(?:\|.*\n)+)"
IN_README = re.compile(rf"<!-- {SPEC}-->\n\n(?P<table>(?:\|.*\n)+)")
IN_PAGE = re.compile(rf"```\{{{SPEC}```")


@pytest.fixture(scope="module")
def tables():
    sys.path.append(str(DOCS))
    import tables

    return tables


def printed(tables, match):
    return tables.printed(match["name"], match["where"] or "", match["lines"].splitlines())


def wrong_tables(tables, text):
    """Lines of README that are not those of the results."""
    found = list(IN_README.finditer(text))
    assert len(found) == text.count("<!-- result-table")
    for match in found:
        lines = match["table"].splitlines()
        yield from (line for line in printed(tables, match) if line not in lines)


def test_tables_of_readme_are_those_of_their_results(tables):
    text = (ROOT / "README.md").read_text("utf-8")
    assert not list(wrong_tables(tables, text))
    wrong = re.sub(r"(\| clhines \| )(\S+)", r"\g<1>7\g<2>", text, count=1)
    assert wrong != text and len(list(wrong_tables(tables, wrong))) == 1


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda p: p.name)
def test_tables_of_pages_can_be_printed(tables, page):
    """Each line has a number, and each result that is named is there."""
    text = page.read_text("utf-8")
    found = list(IN_PAGE.finditer(text))
    assert len(found) == text.count("{result-table}")
    for match in found:
        head, rule, *lines = printed(tables, match)
        assert {line.count("|") for line in lines} == {head.count("|")} == {rule.count("|")}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["| a | b :: cells=1 |", "| x :: method=flatt |"], "no number for the line 'x'"),
        (["| a | b :: cells |", "| x :: method=flat |"], "'cells' is no condition"),
        (["| a | b :: show=*2 |", "| x :: method=flat |"], r"show=\*2: expected FIELD"),
        (["| a | b :: cells=1 |", "| x | y :: method=flat |"], "no number for the line 'x'"),
    ],
)
def test_tables_that_cannot_be_printed(tables, lines, said):
    with pytest.raises(tables.TableError, match=said):
        tables.printed("solve-nvidia-h200", "show=seconds", lines)


def test_how_numbers_look(tables):
    with pytest.raises(tables.TableError, match="no-such: no such file"):
        tables.result_of("no-such")
    row = {"a": 12.34, "b": {"c": 1234.5, "d.e": 0.5}, "n": 70000, "text": "x", "none": None}
    shown = {"a": "12.3", "b.c": "1,234", "b.d.e*1e3": "500", "n": "70,000", "text": "x"}
    assert {how: tables.shown(row, how) for how in shown} == shown
    assert tables.shown(row, "a:.1f") == "12.3"
    assert tables.shown(row, "none") == tables.shown(row, "b.none") == tables.shown(row, "z") == "-"

"""Tables in README and on pages equal their results; planted faults prove the comparison."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
pytestmark = [pytest.mark.skipif(not DOCS.is_dir(), reason="no docs here"), pytest.mark.core]
IN_PAGE = re.compile(
    r"```\{result-table\} (?P<name>\S+)\n(?::where: (?P<where>.*)\n)?(?P<lines>(?:\|.*\n)+)```"
)
README = [  # its tables, which are not built with the site
    (
        "frameworks-last-spike-nvidia-h200",
        "",
        "| script | NEURON, 1 process :: show=neuron_ended:.1f "
        "| NEURON, 16 ranks :: show=ranks_ended:.1f | CoreNEURON :: show=core_ended:.1f "
        "| clhines, first run :: show=first_ended:.1f | next :: show=ended:.1f "
        "| clhines, 16 ranks :: show=here_ranks_first_ended:.1f "
        "| next :: show=here_ranks_ended:.1f |\n"
        "| NetPyNE `HHTut`, 200 cells :: name=netpyne HHTut |\n"
        "| LFPy `example_EEG.py`, 1 cell :: name=LFPy EEG |\n"
        "| BMTK `bio_300cells`, 300 cells :: name=BMTK bio_300cells |\n"
        "| NetPyNE M1, 94 cells :: name=netpyne M1 |\n",
    ),
    (
        "peers-nvidia-h200",
        "dtype=float64; show=seconds*1e6",
        "| solver | 1 tree :: kind=1 shape; cells=1 "
        "| 25,600 trees of 64 shapes :: kind=64 shapes; cells=25600 "
        "| 1 chain :: kind=chains; cells=1 | 25,600 chains :: kind=chains; cells=25600 |\n"
        "| memory floor :: name=memory floor |\n"
        "| clhines :: name=clhines auto* |\n"
        "| cuSPARSE gtsv2StridedBatch :: name=cuSPARSE gtsv2StridedBatch |\n"
        "| cuSPARSE gtsvInterleavedBatch, Thomas :: name=cuSPARSE gtsvInterleavedBatch, T"
        "homas |\n"
        "| C/OpenMP, equal trees in lanes :: name=C/OpenMP, equal trees in lanes |\n"
        "| C, one thread :: name=C, one thread |\n",
    ),
]


@pytest.fixture(scope="module")
def tables():
    sys.path.append(str(DOCS))
    import tables

    return tables


def wrong_tables(tables, text):
    """Return the names of README's tables that differ from the results."""
    for name, where, lines in README:
        if "\n".join(tables.printed(name, where, lines.splitlines())) not in text:
            yield name


def test_tables_of_readme_are_those_of_their_results(tables):
    text = (ROOT / "README.md").read_text("utf-8")
    assert not list(wrong_tables(tables, text))
    section = text[text.index("## How fast") : text.index("## Read on")]
    assert section.count("---:") == sum(lines.split("\n")[0].count("::") for _, _, lines in README)
    wrong = re.sub(r"(\| clhines \| )(\S+)", r"\g<1>7\g<2>", text, count=1)
    assert len(list(wrong_tables(tables, wrong))) == 1


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda p: p.name)
def test_tables_of_pages_can_be_printed(tables, page):
    """Each line has a number, and each named result exists."""
    text = page.read_text("utf-8")
    requests = list(IN_PAGE.finditer(text))
    assert len(requests) == text.count("{result-table}")
    for match in requests:
        lines = match["lines"].splitlines()
        head, rule, *lines = tables.printed(match["name"], match["where"] or "", lines)
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


def test_the_cost_table_is_of_the_switch(tables):
    """Longer models gain from shorter runs on, and runs whose kernels are cached sooner."""
    first, later = ([tables.break_even(n, known) for n in tables.SEGMENTS] for known in (0, 1))
    assert all(a[1] > b[1] for a, b in zip(first, later, strict=True))
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in zip(first, first[1:], strict=False))
    assert len(tables.break_even_table()) == 2 + len(tables.SEGMENTS)

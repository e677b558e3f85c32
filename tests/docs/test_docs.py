"""Tables in the docs that repeat facts from the code."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import clhines
from clhines import METHODS
from clhines.simulator import analysis
from clhines.simulator.choose import described
from clhines.simulator.engines.table import ENGINES
from clhines.simulator.model.needs import EXACT, phrases

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REFERENCE = [DOCS / "reference/mechanisms.md", *sorted(DOCS.glob("reference/api/*.md"))]
pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="no docs here")


def rows(page, heading):
    """Cells of each row of the table below a line that begins with `heading`, without its head."""
    text = (ROOT / page).read_text("utf-8")
    table = re.search(rf"^{re.escape(heading)}\n[^|]*\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[c.strip() for c in line[1:-1].split("|")] for line in table[1].splitlines()[2:]]


def names(text):
    return re.findall(r"`(\w+)`", text)


def test_every_method_is_listed_with_all_its_options():
    listed = {
        names(row[0])[0]: names(row[2]) for row in rows("docs/reference/methods.md", "# Methods")
    }
    assert listed.keys() == METHODS.keys()
    for method, options in listed.items():
        assert sorted(options) == sorted(METHODS[method].options), method


def test_every_feature_is_listed_once():
    text = (DOCS / "analysing.md").read_text("utf-8")
    listed = re.search(r"^These are in `analysis.FEATURES`:\n\n((?:- .*\n|  .*\n)+)", text, re.M)
    assert sorted(names(listed[1])) == sorted(analysis.FEATURES)


def test_every_option_is_explained():
    explained = {names(row[0])[0] for row in rows("docs/reference/methods.md", "## Options")}
    assert explained == {name for row in METHODS.values() for name in row.options}


def documented():
    """Each class in the reference, with its directive's options."""
    text = "".join(page.read_text("utf-8") for page in REFERENCE)
    for name, given in re.findall(r"^\.\. autoclass:: (\S+)\n((?:   :.*\n)*)", text, re.MULTILINE):
        module, _, attribute = name.rpartition(".")
        options = dict(re.findall(r"^   :([\w-]+):(.*)$", given, re.MULTILINE))
        yield getattr(importlib.import_module(module), attribute), options


def test_the_reference_has_every_public_attribute():
    """The page names omitted ones; fields are in the docstring of their class."""
    classes = dict(documented())
    public = [c for name in clhines.__all__ if isinstance(c := getattr(clhines, name), type)]
    assert {c for c in public if not issubclass(c, BaseException)} <= classes.keys()
    missing = []
    for cls, options in classes.items():
        left_out = {*options.get("exclude-members", "").replace(",", " ").split()}
        fields = {n for n in vars(cls).get("__annotations__", {}) if n[0] != "_"}
        attributes = {n for n in dir(cls) if n[0] != "_"} - fields
        assert left_out <= attributes | fields, cls
        bases = [c for c in cls.__mro__ if c in classes or c.__module__ == "builtins"]
        shown = {n for c in bases for n in vars(c)} if "members" in options else set()
        shown |= {n for c in bases if c is not cls for n in vars(c)}
        shown |= attributes if "inherited-members" in options else set()
        words = {*re.findall(r"\w+", cls.__doc__)}
        wrong = (attributes - shown) | (fields - words)
        wrong |= {n for n in attributes if not inspect.getdoc(getattr(cls, n))}
        missing += [f"{cls.__name__}.{n}" for n in sorted(wrong - left_out)]
    assert not missing


def test_every_function_of_the_reference_is_described():
    text = "".join(page.read_text("utf-8") for page in REFERENCE)
    names = re.findall(r"^\.\. autofunction:: (\S+)\.(\w+)$", text, re.MULTILINE)
    assert len(names) > 10
    assert all(inspect.getdoc(getattr(importlib.import_module(m), n)) for m, n in names)


def test_engines_are_those_of_the_table():
    """Compare each engine's description, limits, and support of exact times."""
    page = DOCS / "reference/simulating.md"
    expected = [
        [f"`{name}`", on, f"{about}; {limits}" if limits else about, lacks]
        for name, on, about, lacks, limits in described()
    ]
    assert rows(page, "### Execution engines") == expected
    needs = EXACT - ENGINES[0].lacks - {"exact_times", "bins"}
    listed = re.search(r"^  it has any of:\n((?:  - .*\n)+)", page.read_text("utf-8"), re.MULTILINE)
    assert {line[4:] for line in listed[1].splitlines()} == {phrases([need]) for need in needs}

"""Kernels and the reference cite the phases of a step by the numbers of the page about the step."""

import inspect
import re
from pathlib import Path

import pytest
import snapshots

from clhines.simulator.engines import reference
from clhines.solver.plan.templates import FOLDER, render

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-it-works" / "step.md"
PHASES = {
    int(number): name
    for number, name in re.findall(
        r"^\| (\d) \| ([a-z ]+) \|", PAGE.read_text("utf-8"), re.MULTILINE
    )
}
CITED = re.compile(r"(?://|#) phase (\d): ([a-z ]+)(?:; phase (\d): ([a-z ]+))?")
WHOLE_STEPS = {1, 3, 4, 5, 7, 8, 9}  # nothing is played in models whose events come in whole steps
FOUND_IN = {  # template -> phases of its kernels
    "simulator/steps": set(range(1, 10)) - {4},  # the solver's kernel is a launch of its own
    "simulator/blocks": set(range(1, 10)),
    "simulator/epoch_by_node": set(range(1, 10)),
    "simulator/epoch_by_instance": WHOLE_STEPS,
    "simulator/epoch_constant": WHOLE_STEPS,
    "simulator/artificial": {1, 2, 9},  # cells without nodes: played values, too, have one place
    "simulator/layers": {4},
    "simulator/gradients": {1, 3, 5, 7, 8, 9},  # nothing is played
}


def citations(text):
    """Return (number, name) of each phase that a text cites, in its order."""
    return [
        (int(number), name.strip())
        for match in CITED.finditer(text)
        for number, name in zip(match.groups()[::2], match.groups()[1::2])
        if number
    ]


@pytest.fixture(scope="module")
def cited():
    """Template -> the phases that its kernels cite, over all forms of the snapshots."""
    results = {}
    for _, _, every in snapshots.specs():
        for spec in every:
            results.setdefault(spec.template, []).append({n for n, _ in citations(render(spec))})
    return results


def test_the_page_numbers_nine_phases():
    assert list(PHASES) == list(range(1, 10))


def test_all_phases_are_cited_in_every_kernel(cited):
    union = {name: set().union(*forms) for name, forms in cited.items()}
    assert {name: phases for name, phases in union.items() if phases} == FOUND_IN
    for name in set(FOUND_IN) - {"simulator/artificial", "simulator/gradients"}:
        assert all(form == FOUND_IN[name] for form in cited[name]), name


def test_the_reference_cites_all_phases_in_order():
    step = citations(inspect.getsource(reference.Reference.step))
    row = citations(inspect.getsource(reference.Reference.advance))
    assert step + row == list(PHASES.items())


def test_phases_have_one_name_everywhere():
    texts = {path: path.read_text("utf-8") for path in FOLDER.rglob("*.mako")}
    texts |= {path: path.read_text("utf-8") for path in (ROOT / "clhines").rglob("*.py")}
    for path, text in texts.items():
        for number, name in citations(text):
            assert PHASES[number] == name, path

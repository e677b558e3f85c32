"""The catalogue of refusals: its ids and their use."""

import copy
import pickle
import re
import string
from pathlib import Path

import pytest

from clhines.refusals import REFUSALS, id_of, refusal, sentence_of, way_out_of

ROOT = Path(__file__).parents[1]


def used():
    """By id: how many calls of `refusal` name it in the package."""
    found = {}
    for path in (ROOT / "clhines").rglob("*.py"):
        for name in re.findall(r'refusal\(\s*"([\w.-]+)"', path.read_text("utf-8")):
            found[name] = found.get(name, 0) + 1
    return found


def test_each_id_is_used_and_known():
    calls = used()
    assert calls.keys() - {"mod.table-with"} <= REFUSALS.keys()
    assert REFUSALS.keys() <= calls.keys()
    assert all(re.fullmatch(r"(mod|neuron|network)\.[a-z0-9-]+", name) for name in REFUSALS)


@pytest.mark.parametrize("name", REFUSALS)
def test_a_sentence_is_one_line_with_named_fields(name):
    sentence, way_out = REFUSALS[name]
    assert "\n" not in sentence + way_out and sentence == sentence.strip()
    fields = [field for _, field, _, _ in string.Formatter().parse(sentence) if field is not None]
    assert all(field.isidentifier() for field in fields)


def test_a_sentence_knows_its_id_and_its_way_out():
    made = refusal("mod.solve-method", name="states", method="heun")
    assert made == "SOLVE states with METHOD heun" and id_of(made) == "mod.solve-method"
    assert way_out_of(made).startswith("use cnexp") and id_of(str(made)) == ""
    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert (again, id_of(again)) == (made, id_of(made))
    assert sentence_of(ValueError(made)) is made
    assert id_of(sentence_of(ValueError("other"))) == "network.message"

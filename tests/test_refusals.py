"""The catalogue of refusals: its ids and their use."""

import copy
import pickle
import re
import string
from pathlib import Path

import pytest

from clhines.refusals import REFUSALS, id_of, refusal, sentence_of, way_out_of

ROOT = Path(__file__).parents[1]


def named(pattern):
    """Ids that the package names, in a pattern."""
    own = ROOT / "clhines" / "refusals.py"
    texts = [p.read_text("utf-8") for p in (ROOT / "clhines").rglob("*.py") if p != own]
    return {name for text in texts for name in re.findall(pattern, text)}


def test_each_id_is_used_and_known():
    assert named(r'refusal\(\s*"([\w.-]+)"') <= REFUSALS.keys()
    assert REFUSALS.keys() - {"network.message"} <= named(r'"((?:mod|neuron|network)\.[a-z0-9-]+)"')


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

"""NMODL texts that send events at the times of a Vector are recognised; test_entry.py runs them."""

from pathlib import Path

import pytest

from clhines.neuron.read.trains import is_train

MOD = Path(__file__).parents[2] / "mod"


@pytest.mark.parametrize("name", ["vec_inside", "vec_pointer"])
def test_a_train_is_known_by_its_text(name):
    assert is_train((MOD / f"{name}.mod").read_text("utf-8"))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("vec_inside", "net_event(t)", "net_event(t + 1)"),
        ("vec_inside", "etime - t, 1)", "2*etime - t, 1)"),
        ("vec_inside", "vector_vec(vector)[i]", "vector_vec(vector)[i] + 1"),
        ("vec_inside", "index etime", "etime index"),
        ("vec_pointer", "net_send(0, 2)", "net_send(1, 2)"),
        ("vec_pointer", "flag == 1) { net_event(t) }", "flag == 1) { net_event(t) w = 0 }"),
        ("vec_pointer", "index += 1.", "index += 2."),
    ],
)
def test_a_text_that_does_something_else_is_none(name, old, new):
    text = (MOD / f"{name}.mod").read_text("utf-8")
    assert old in text
    assert not is_train(text.replace(old, new))


def test_mechanisms_of_other_kinds_are_none():
    names = [path.stem for path in sorted(MOD.glob("*.mod")) if is_train(path.read_text("utf-8"))]
    assert names == ["vec_inside", "vec_pointer"]

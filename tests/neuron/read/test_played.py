"""Vector.play into unsupported variables is refused by name."""

import pytest

import clhines
from tests.support import mod_files

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron


@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize("name", ["celsius", "pointed_level"])
def test_plays_into_variables_of_hoc_are_refused(name, continuous):
    """NEURON steps these models, since any POINTER may read the variable."""
    mod_files.loaded()
    soma = h.Section(name="soma")
    soma.insert("hh")
    h("pointed_level = 0")
    values, times, before = h.Vector([20, 31]), h.Vector([0, 2]), h.celsius
    values.play(getattr(h, f"_ref_{name}"), times, continuous)
    try:
        h.finitialize(-65)
        said = [str(line) for line in clhines.neuron.check()]
        with pytest.raises(clhines.neuron.RejectedError, match=f"Vector.play into {name}"):
            clhines.neuron.run(1)
    finally:
        values.play_remove()
        h.celsius = before
    assert said == [f"Vector.play into {name}; expected a parameter of a mechanism"]

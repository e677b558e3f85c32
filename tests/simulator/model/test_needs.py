"""The names of a network's needs, and the engines that support them."""

import mod_files
import pytest
from small_networks import DT, NETWORKS, gap, model_of, with_ions

from clhines import InputError
from clhines.simulator.choose import engines_for
from clhines.simulator.engines.table import ALL, CHOICES, NAMES
from clhines.simulator.model import compile
from clhines.simulator.model.needs import EXACT, NEEDS
from clhines.simulator.network.groups import inside

BOTH, GPU, CPU = ("epochs-gpu", "epochs-cpu"), "epochs-gpu", "epochs-cpu"


FIRST = {  # a need -> the first engine of `auto` on a GPU and on a CPU, if they are not BOTH
    "instant_between_cells": ("steps", CPU),
    "steered_weights": ("steps", "steps"),
    "layers": (GPU, "steps"),
    "read_elsewhere": ("steps", "steps"),
}


def sees(net):
    net.set_pointer(net.add(mod_files.ours("ext_gap"), [5]), "vgap", to=[0])


def late(net):
    net.add(mod_files.ours("ext_late"), [3])
    net.add_detector([3])


def test_words_are_those_of_the_table():
    assert NEEDS.keys() == ALL
    assert CHOICES == ("auto", "epochs", *NAMES) and len({*NAMES}) == len(NAMES)
    assert {*NEEDS} - {*NETWORKS} == {"begins", "ranks", "ranked_pointers", "solver"}


@pytest.mark.parametrize("word", NETWORKS)
def test_needs_of_networks(word):
    model = model_of(word)
    assert word in model.needs and model.needs <= NEEDS.keys()
    assert model.exact == bool(model.needs & EXACT)
    assert ("exact_times" in model.needs) != ("grid_times" in model.needs)
    first = [engines_for(model.needs, "auto", device)[0].name for device in ("gpu", "cpu")]
    assert tuple(first) == FIRST.get(word, BOTH)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda net: net.add(mod_files.ours("ext_watch"), [0]), "other events at the node depend"),
        (lambda net: net.add(mod_files.ours("ext_reset"), [0]), "other events at the node depend"),
        (sees, "pointers point to it"),
        (gap, ""),
        (lambda net: setattr(inside(net).added, "bins", True), "events are delivered in bins"),
        (lambda net: net.add_detector([0]), ""),
        (late, "its threshold is compared"),
    ],
)
def test_voltages_that_events_set(change, said):
    net = with_ions()
    net.add(mod_files.ours("ext_reset"), [0])
    change(net)
    if not said:
        assert "set_voltages" in compile(net, DT).needs
        return
    with pytest.raises(InputError, match=f"v is set in NET_RECEIVE, and .*{said}"):
        compile(net, DT)

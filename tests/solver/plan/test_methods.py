"""The table of methods and their options, without a device."""

import numpy as np
import pytest
from plans import CPU, GPU, OPTIONS
from systems import dissimilar, families, forest_for

from bench.made import chain
from clhines import METHODS, Forest, InputError, make_plan

pytestmark = pytest.mark.core


@pytest.mark.parametrize("limits", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize(("method", "options"), OPTIONS)
def test_gather_is_a_permutation_plus_padding(method, options, limits):
    for cells in families().values():
        forest = forest_for(method, cells)
        plan = make_plan(forest, method, limits=limits, **options)
        gather = plan.gather
        assert gather.dtype == np.int32
        assert gather.min() >= -1
        assert np.array_equal(np.sort(gather[gather >= 0]), np.arange(forest.num_nodes))
        assert plan.packed_size == len(gather)
        assert all(t.dtype == np.int32 for t in plan.parts[0].tables.values())


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("gauss", {}, "method 'gauss' is unknown; expected auto, flat, interleaved, "),
        ("flat", {"block_size": 4},
            "option 'block_size' is not one of method 'flat'; .*work_group"),
        ("fine", {"block_size": 4}, "option 'block_size' .*'fine'; expected work_group, max_cells"),
        ("fine", {"work_group": 4, "vector_width": 8},
            "vector_width=8 needs work_group=1; got work_group=4"),
        ("fine", {"work_group": 0}, "work_group=0 is not valid; expected a whole number of at lea"),
        ("fine", {"work_group": -3}, "work_group=-3 is not valid"),
        ("fine", {"work_group": 2.0}, "work_group=2.0 is not valid"),
        ("fine", {"work_group": True}, "work_group=True is not valid"),
        ("fine", {"work_group": "64"}, "work_group='64' is not valid"),
        ("fine", {"work_group": 257}, "work_group=257 is above the device's limit of 256 work-i"),
        ("flat", {"work_group": 257}, "work_group=257 is above the device's limit of 256 work-i"),
        ("fine", {"max_cells": 0}, "max_cells=0 is not valid; expected a whole number of at leas"),
        ("block_interleaved", {"vector_width": 3}, "vector_width=3 .* expected 1, 2, 4, 8 or 16"),
        ("block_interleaved", {"vector_width": 32}, "vector_width=32 .* expected 1, 2, 4, 8 or 16"),
        ("block_interleaved", {"block_size": 0}, "block_size=0 is not valid"),
        ("block_interleaved", {"block_size": 6, "vector_width": 4},
            "block_size=6 is not a multiple of vector_width=4"),
        ("block_local", {"block_size": 257}, "block_size=257 is above the device's limit of 256 w"),
        ("block_local", {"block_size": 1.5}, "block_size=1.5 is not valid; expected a whole"),
        ("block_local", {"vector_width": 1}, "'vector_width' is not one of method 'block_local'"),
        ("fine", {"vector_width": 3}, "vector_width=3 is not valid; expected 1, 2, 4, 8 or 16"),
        ("fine", {"local": 1}, "local=1 is not valid; expected True or False"),
        ("fine", {"split": "mean", "vector_width": 4},
            "split='mean' shapes levels.* got vector_width=4"),
        ("fine", {"level_shift": True, "vector_width": 2}, "level_shift=True shapes levels"),
        ("fine", {"level_shift": True, "packing": "best_fit"},
            "level_shift=True needs packing 'next_fit'"),
        ("fine", {"split": "median"}, "split='median' is not valid; expected 'mean' or 'block'"),
        ("fine", {"packing": "first"}, "packing='first' .* 'next_fit', 'sorted' or 'best_fit'"),
        ("levels", {"padding": "none"}, "padding='none' is not valid; expected 'compute' or 'sk"),
        ("levels", {"padding": 1}, "padding=1 is not valid"),
        ("fine", {"vector_width": True}, "vector_width=True is not valid"),
        ("fine", {"work_group": 264}, "work_group=264 is above the device's limit of 256"),
    ],
)  # fmt: skip
def test_bad_options_name_option_value_and_limit(method, options, words):
    with pytest.raises(InputError, match=words) as caught:
        make_plan(Forest(chain(3)), method, limits=GPU, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", ["float16", np.int32, np.complex64, "nonsense", object()])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(InputError, match="expected float64 or float32"):
        make_plan(Forest(chain(3)), dtype=dtype)


def test_none_takes_the_default_of_an_option():
    for method, row in METHODS.items():
        forest = forest_for(method, dissimilar(5))
        with_none = make_plan(forest, method, **dict.fromkeys(row.options))
        assert with_none.parts[0].spec == make_plan(forest, method).parts[0].spec

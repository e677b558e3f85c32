"""Solvers on the host: the C baselines, and the line for a missing compiler."""

import numpy as np
import pytest
from bench_cases import TREES, needs_cc, small_case

from bench import MissingError
from bench import made as cells_shapes
from bench.measures import peers
from bench.peers import host


def test_no_compiler_and_one_that_fails(monkeypatch, tmp_path):
    script = tmp_path / "badcc"
    script.write_text("#!/bin/sh\necho 'x.c:1: error: no OpenMP here' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.delenv("CC", raising=False)
    for name, value, said in (
        ("PATH", "", "no C compiler: set CC"),
        ("CC", str(script), "badcc: x.c:1: error: no OpenMP here"),
    ):
        with monkeypatch.context() as patch, pytest.raises(MissingError, match=said):
            patch.setenv(name, value)
            host.library.cache_clear()
            list(host.c_serial(small_case([cells_shapes.chain(9)], 3)))


@pytest.mark.parametrize("name", TREES)
def test_depth_first(name):
    """The same tree, renumbered; only a branch's first node has a parent further away."""
    parents = np.stack(TREES[name])
    order, up = host.depth_first(parents)
    for tree, o, p in zip(parents, order, up):
        assert sorted(o) == list(range(len(tree)))
        assert p[0] == -1 and (p[1:] < np.arange(1, len(tree))).all()
        np.testing.assert_array_equal(tree[o[1:]], o[p[1:]])
        further = int((p[1:] < np.arange(len(tree) - 1)).sum())
        children = np.bincount(tree[tree >= 0], minlength=len(tree))
        assert further == np.maximum(children - 1, 0).sum()


@needs_cc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("cells", [1, 7, 16, 33, 100])
@pytest.mark.parametrize("name", TREES)
def test_c_baselines(name, cells, dtype):
    """All three are right, for full and partial lanes, and any number of children."""
    small = small_case(TREES[name], cells, dtype)
    candidates = [*host.c_serial(small), *host.c_different(small)]
    try:
        candidates += host.c_equal(small)
    except MissingError:
        assert cells < 8 * len(TREES[name]) * (1 if dtype == "float64" else 2)
    for candidate in candidates:
        peers.check(small, candidate, {})  # raises if the error is too large
        assert candidate.error is not None

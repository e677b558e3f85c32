"""cuSPARSE, as its manual describes it, without a GPU."""

import ctypes
import dataclasses
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from bench_cases import small_case

from bench import MissingError
from bench import made as cells_shapes
from bench.measures import peers
from bench.peers import cuda


class FakeArray(np.ndarray):
    """An array that gives its address as CuPy's arrays do."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


class FakeEvent:
    now = 0

    def record(self):
        FakeEvent.now += 1
        self.at = FakeEvent.now

    def synchronize(self):
        pass


def thomas(real, interleaved, m, count, pointers):
    """Solve chains at four addresses; destroy the arrays that gtsvInterleavedBatch destroys."""
    shape = (m, count) if interleaved else (count, m)
    kind = ctypes.POINTER({"D": ctypes.c_double, "S": ctypes.c_float}[real])
    arrays = [np.ctypeslib.as_array(ctypes.cast(p, kind), shape) for p in pointers]
    dl, d, du, x = ((a.T if interleaved else a).copy() for a in arrays)
    assert not dl[:, 0].any() and not du[:, -1].any()  # the manual asks for these zeros
    for c in range(count):
        matrix = np.diag(d[c]) + np.diag(dl[c, 1:], -1) + np.diag(du[c, :-1], 1)
        x[c] = np.linalg.solve(matrix, x[c])
    arrays[3][...] = x.T if interleaved else x
    if interleaved:
        for a in arrays[:3]:
            a[...] = np.nan


class FakeLibrary:
    """Both routines in both precisions, with the argument order in cuSPARSE 12 and 13."""

    def __getattr__(self, name):
        real, routine = name.removeprefix("cusparse")[0], name.removeprefix("cusparse")[1:]
        size = routine.endswith("_bufferSizeExt")
        interleaved = routine.startswith("gtsvInterleavedBatch")
        assert interleaved or routine.startswith("gtsv2StridedBatch")

        def call(handle, *arguments):
            assert handle.value == 7
            if interleaved:
                algorithm, m, *arrays, count, last = arguments
                assert algorithm.value == 0
            else:
                m, *arrays, count, stride, last = arguments
                assert stride.value == m.value
            assert len(arrays) == 4 and all(isinstance(a, ctypes.c_void_p) for a in arrays)
            if size:
                last._obj.value = 64
            else:
                thomas(real, interleaved, m.value, count.value, arrays)
            return 0

        return call


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("cells", [1, 5])
@pytest.mark.parametrize("make", [cuda.strided, cuda.interleaved])
def test_cusparse_is_called_as_its_manual_says(monkeypatch, make, cells, dtype):
    fake = SimpleNamespace(
        asarray=lambda a: a.copy().view(FakeArray),
        asnumpy=np.asarray,
        empty=lambda n, dtype: np.empty(n, dtype).view(FakeArray),
        tile=np.tile,
        ascontiguousarray=lambda a: np.ascontiguousarray(a).view(FakeArray),
        max=np.max,
        abs=np.abs,
        get_default_memory_pool=lambda: SimpleNamespace(free_all_blocks=lambda: None),
        cuda=SimpleNamespace(
            Event=FakeEvent, get_elapsed_time=lambda begin, end: 1000.0 * (end.at - begin.at)
        ),
    )
    monkeypatch.setattr(cuda, "cupy", lambda: fake)
    monkeypatch.setattr(cuda, "library", lambda: (FakeLibrary(), ctypes.c_void_p(7)))
    monkeypatch.setattr(cuda, "delay", lambda: lambda *launch: None)
    small = small_case([cells_shapes.chain(9)], cells, dtype, "chains")
    (candidate,) = make(small)
    for _ in range(2):  # arrays that the first run destroyed are restored for the second
        peers.check(small, candidate, {})
    assert candidate.clock == "device" and candidate.run(0) == 1.0
    assert not list(make(small_case([cells_shapes.chain(9)], cells, dtype, "1 shape")))
    once = small_case([cells_shapes.chain(9)], 2, dtype, "chains")
    repeated = dataclasses.replace(small, values=once.values, part=once.forest)
    if cells > once.cells:
        (candidate,) = make(repeated)
        peers.check(repeated, candidate, {})
        assert len(candidate.result(0).once) == once.forest.num_nodes


def test_cusparse_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    cuda.cupy.cache_clear()
    with pytest.raises(MissingError, match="cupy"):
        list(cuda.strided(small_case([cells_shapes.chain(9)], 3, kind="chains")))

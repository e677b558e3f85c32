"""One batch on several devices, and one in slices."""

import json

import pytest

from bench.measures import devices as measure
from clhines.solver.device import devices as choice
from clhines.solver.solver import Solver


def half_of_what_is_needed(case, queue):
    """Bytes of half the device memory that the batch needs as a whole."""
    engine = Solver(case.forest, "auto", case.dtype, queue=queue).engine
    return engine.room.needed(engine.plan) // 2


def test_a_batch_that_fits_has_no_slices_to_measure(fast_queue):
    case = measure.Case(64, 32, 4, "float32")
    times = case.out.nbytes / half_of_what_is_needed(case, fast_queue)  # a generous limit
    with pytest.raises(SystemExit, match=r"--times .* into which the batch fits"):
        measure.in_slices(case, fast_queue, "auto", times, pinned=False)


def test_devices_and_slices(fast_queue, monkeypatch, tmp_path, capsys):
    """Two devices of one kind; here they are the same."""
    queues = [fast_queue, choice.make_queue(fast_queue.device)]
    case = measure.Case(128, 32, 4, "float32")  # the largest one below
    times = 4 * case.out.nbytes / half_of_what_is_needed(case, fast_queue)
    monkeypatch.setattr(measure, "find_queues", lambda _: queues)
    arguments = (
        f"--cells 64 128 --nodes 32 --branches 4 --dtype float32 --times {times} "
        "--copy-bytes 4e6 --out"
    )
    arguments = [*arguments.split(), str(tmp_path)]
    measure.main(arguments)
    (path,) = tmp_path.glob("devices-*.json")
    result = json.loads(path.read_text("utf-8"))
    rows = [(r["cells"], r["devices"], r["shares"]) for r in result["rows"]]
    assert rows == [(c, k, [1 / k] * k) for c in (64, 128) for k in (1, 2)]
    for row in result["rows"]:
        assert max(row["packed_error"], row["numpy_error"]) < 1e-5
        assert len(row["device_seconds"]) == row["devices"]
        assert min(row["single_seconds"], row["stream_seconds"], row["numpy_seconds"]) > 0
    assert {row["pinned"] for row in result["slices"]} == {False, True}
    for row in result["slices"]:
        assert row["slices"] > 3
        assert row["error"] < 1e-5
        larger = max(row["copy_seconds"], row["compute_seconds"])
        assert row["ratio"] == pytest.approx(row["seconds"] / larger)
    assert min(result["gb_per_s"].values()) > 0
    text = path.with_suffix(".txt").read_text("utf-8")
    assert "64 cells, 2 devices:\n  on the devices 50.0%, 50.0% in " in text
    assert max(map(len, text.splitlines())) <= 100

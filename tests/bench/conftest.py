"""Path of the benchmarks, which lie beside the tests, and a queue for the measures."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if not (ROOT / "bench").is_dir():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)


@pytest.fixture
def measured_on(fast_queue, monkeypatch):
    """Let every measure use this queue, whatever `--device` says."""
    from bench import record

    monkeypatch.setattr(record, "queue", lambda *_, **__: fast_queue)
    return fast_queue

"""The benchmarks' runner, which also starts these tests."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if not (ROOT / "bench").is_dir():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)

"""The compiler that a thread loads while a model is read."""

import hashlib

import pytest

from clhines.simulator.device import compiler
from clhines.solver.device import caches, devices

SMALL = 1 << 16  # bytes


def test_the_compiler_is_loaded_by_a_small_program(tmp_path, monkeypatch):
    """Load the compiler once per name; not for a missing device, nor after another program."""
    monkeypatch.setattr(compiler, "build_seconds", [])
    indices = [k for k, d in devices.all_devices() if "Portable" in d.platform.name]
    if not indices:
        pytest.skip("needs PoCL")
    name = hashlib.sha256(str(tmp_path).encode()).hexdigest()
    for _ in range(2):
        compiler.load_compiler(indices[0], name).join()
        files = caches.pocl_folder().rglob("program.bc")
        small = [path for path in files if path.exists() and path.stat().st_size < SMALL]
        assert sum(f"of_{name}".encode() in path.read_bytes() for path in small) == 1
    assert compiler.load_compiler("no such device", name) is None
    compiler.build_seconds.append(0.1)
    assert compiler.load_compiler(indices[0], name) is None

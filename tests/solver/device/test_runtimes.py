"""clhines finds Intel's runtime from pip beside the runtimes that the system registers."""

import os
import sys
from pathlib import Path

import pytest
from processes import output_of

from clhines.solver.device import devices, runtimes

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """Set up a Linux with a runtime of the system and a runtime that pip installed."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setattr(runtimes, "_is_of_wheel", lambda: True)
    monkeypatch.setenv("OPENCL_VENDOR_PATH", str(tmp_path / "system"))
    monkeypatch.setenv("CLHINES_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"):
        monkeypatch.setenv(name, "")
    (tmp_path / "prefix" / "lib").mkdir(parents=True)
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "gpu.icd").write_text("libgpu.so.1\n")
    library = tmp_path / "prefix" / "lib" / "libintelocl.so"
    library.write_bytes(b"")
    return library


def test_the_loader_gets_both(environment):
    for _ in range(2):  # the folder is made once
        os.environ["OCL_ICD_VENDORS"] = ""
        runtimes.register()
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        texts = {path.name: path.read_text() for path in folder.iterdir()}
        assert texts == {"gpu.icd": "libgpu.so.1\n", "clhines-intel.icd": f"{environment}\n"}
    assert len(list(folder.parent.iterdir())) == 1


def test_another_system_gets_another_folder(environment, tmp_path):
    runtimes.register()
    first = os.environ["OCL_ICD_VENDORS"]
    (tmp_path / "system" / "second.icd").write_text("libsecond.so\n")
    os.environ["OCL_ICD_VENDORS"] = ""
    runtimes.register()
    assert os.environ["OCL_ICD_VENDORS"] != first and len(os.listdir(first)) == 2


@pytest.mark.parametrize("case", ["told", "registered", "other loader", "not there", "no folder"])
def test_what_is_left_alone(environment, tmp_path, monkeypatch, case):
    folder = ""
    if case == "told":
        folder = str(tmp_path)
        monkeypatch.setenv("OCL_ICD_VENDORS", folder)
    elif case == "registered":
        (tmp_path / "system" / "intel.icd").write_text("/opt/intel/lib/libintelocl.so\n")
    elif case == "other loader":
        monkeypatch.setattr(runtimes, "_is_of_wheel", lambda: False)
    elif case == "not there":
        environment.unlink()
    else:
        (tmp_path / "cache").write_text("a file")
    runtimes.register()
    assert os.environ["OCL_ICD_VENDORS"] == folder


def test_a_distribution_installs_into_local(environment, tmp_path, monkeypatch):
    """Python on Debian, Fedora and Colab has the prefix /usr; its pip installs into /usr/local."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    assert runtimes.installed() != environment
    environment.parent.parent.rename(tmp_path / "local")
    assert runtimes.installed() == tmp_path / "local" / "lib" / "libintelocl.so"


def test_windows_names_the_library(environment, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    library = tmp_path / "prefix" / "Library" / "bin" / "intelocl64.dll"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    runtimes.register()
    assert os.environ["OCL_ICD_FILENAMES"] == str(library)
    assert os.environ["OCL_ICD_VENDORS"] == ""


BESIDE = """
import numpy as np, clhines
from clhines.solver.device import devices
found = [d for _, d in devices.all_devices() if devices.is_cpu(d)]
assert len({d.platform.name for d in found}) > 1, found
forest = clhines.Forest.repeat([np.array([-1, 0, 1, 1])], 50)
n = forest.num_nodes
solvers = [clhines.Solver(forest, device=d) for d in found]
x = [s.solve(np.full(n, 4.0), np.full(n, -1.0), np.ones(n)) for s in solvers * 2]
assert max(np.abs(a - x[0]).max() for a in x) < 1e-15
print("beside each other")
"""


def test_it_works_beside_pocl():
    """In a separate process without OCL_ICD_VENDORS, both runtimes work."""
    here = {d.platform.name.strip() for _, d in devices.all_devices() if devices.is_cpu(d)}
    if runtimes.installed() is None or "Portable Computing Language" not in here:
        pytest.skip("needs intel-opencl-rt and PoCL")
    path = os.pathsep.join([str(ROOT), *sys.path])
    assert "beside each other" in output_of("-c", BESIDE, PYTHONPATH=path, OCL_ICD_VENDORS="")

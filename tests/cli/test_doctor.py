"""`clhines doctor`: each fault is planted, detected and answered with advice."""

import os
import stat
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from commands import process

from clhines.cli import doctor
from clhines.solver.device import devices, pocl


@dataclass(frozen=True, eq=False)  # each is another, of whatever name
class Platform:
    name: str


def fake(name="A GPU", platform="A platform", fp64=True, version="OpenCL 3.0"):
    return SimpleNamespace(
        name=name,
        platform=Platform(platform),
        extensions="cl_khr_fp64" if fp64 else "",
        double_fp_config=0,
        type=4,
        version=version,
        driver_version="1.0",
        int_ptr=0,
    )


@pytest.fixture
def among(monkeypatch):
    """Replace the devices of this machine."""
    for name in ("CLHINES_DEVICE", "PYOPENCL_CTX", "OCL_ICD_VENDORS", pocl.SWITCH):
        monkeypatch.delenv(name, raising=False)

    def replace(*found):
        listed = [(f"{k}:0", device) for k, device in enumerate(found)]
        monkeypatch.setattr(devices, "all_devices", lambda: listed)

    return replace


def only_fault(findings):
    (fault,) = [f for f in findings if not f.good]
    assert fault.advice and "\n" not in fault.what + fault.advice
    return fault


def test_a_good_installation(cli):
    result = cli("doctor")
    names = [p.name for p in {d.platform: 0 for _, d in devices.all_devices()}]
    assert result.err == "" and result.code == ("FAULT" in result.out)
    if len(set(names)) == len(names):  # or this machine has a fault indeed
        assert result.out.splitlines()[-1] == "no fault found", result.out
    for index, device in devices.all_devices():
        solved = f"device {index} solves in float" in result.out
        assert solved != devices.is_simulator(device)


def test_a_folder_of_icds_that_does_not_exist(tmp_path):
    result = process("doctor", cwd=tmp_path, OCL_ICD_VENDORS=str(tmp_path / "nowhere"))
    assert result.code == 1 and "Traceback" not in result.err
    assert "unset OCL_ICD_VENDORS" in result.out


def test_no_icd(monkeypatch):
    import pyopencl as cl

    def none():
        raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")

    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    monkeypatch.setattr(cl, "get_platforms", none)
    fault = only_fault(doctor.opencl())
    assert fault.what == "no OpenCL platform was found"
    assert "pip install '.[cpu]'" in fault.advice
    assert doctor.precisions() == doctor.processors() == list(doctor.solves()) == []


def test_no_fp64(among):
    among(fake(fp64=False), fake("Simulator", "Oclgrind"))
    fault = only_fault(doctor.precisions())
    assert "A GPU" in fault.what and "float32" in fault.advice


def test_only_a_simulator(among):
    among(fake("Simulator", "Oclgrind"))
    assert "simulator" in only_fault(doctor.precisions()).what


def test_two_icds_of_one_runtime(among):
    among(fake(platform="PoCL"), fake(platform="PoCL"), fake(platform="Other"))
    fault = only_fault(doctor.platforms())
    assert "2 platforms are called PoCL" in fault.what and "OCL_ICD_VENDORS" in fault.advice


def test_two_devices_of_one_platform_are_no_fault(among):
    first, second = fake(), fake("Another GPU")
    second.platform = first.platform
    among(first, second)
    assert all(f.good for f in doctor.platforms())


UNKNOWN = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic"


def test_pocl_that_does_not_know_the_processor(among, monkeypatch):
    among(fake("cpu", "Portable Computing Language", version=UNKNOWN))
    monkeypatch.setattr(pocl, "name_processor", lambda device: None)
    fault = only_fault(doctor.processors())
    assert "does not know this processor" in fault.what and "newer PoCL" in fault.advice
    monkeypatch.setenv(pocl.SWITCH, "1")
    assert pocl.SWITCH in only_fault(doctor.processors()).advice
    monkeypatch.setattr(pocl, "name_processor", lambda device: "x86-64-v3")
    (fault,) = doctor.processors()
    assert fault.good and "x86-64-v3" in fault.what


def test_the_workaround_for_pocl_has_a_switch(monkeypatch):
    """With the switch, not even the device's record is looked at."""
    monkeypatch.setenv(pocl.SWITCH, "1")
    monkeypatch.setattr(pocl, "_find_name", lambda *_: pytest.fail("looked"))
    assert pocl.name_processor(fake("cpu", "Portable Computing Language", version=UNKNOWN)) is None


def test_a_cache_that_cannot_be_written(among, monkeypatch, tmp_path):
    among(fake("cpu", "Portable Computing Language"))
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("POCL_CACHE_DIR", str(blocked / "cache"))
    fault = only_fault(doctor.caches())
    assert str(blocked) in fault.what and "POCL_CACHE_DIR" in fault.advice


def test_a_device_that_the_environment_names_and_nobody_has(cli, monkeypatch):
    monkeypatch.setenv("CLHINES_DEVICE", "no such device")
    fault = only_fault(doctor.choice())
    assert "no such device" in fault.what and "unset CLHINES_DEVICE" in fault.advice


def test_a_device_that_solves_wrongly(monkeypatch, fast_queue):
    index = next(i for i, d in devices.all_devices() if d == fast_queue.device)
    monkeypatch.setattr(doctor, "_difference", lambda name, dtype: 1e-3 if name == index else 0.0)
    assert "differs by 1.0e-03" in only_fault(doctor.solves()).what


def test_a_device_that_does_not_build(monkeypatch, fast_queue):
    from clhines import BuildError

    def fails(index, dtype):
        raise BuildError("kernel of X did not build\nerror: no such builtin\n" + "line\n" * 99)

    monkeypatch.setattr(doctor, "_difference", fails)
    faults = [f for f in doctor.solves() if not f.good]
    assert faults and all("no such builtin" in f.what and len(f.what) < 250 for f in faults)


@pytest.fixture
def launcher(tmp_path, monkeypatch):
    """A made-up mpiexec, the only one in PATH."""

    def make(text):
        path = tmp_path / "mpiexec"
        path.write_text(f"#!/bin/sh\necho '{text}'\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")

    return make


def test_mpi_of_two_libraries(launcher, monkeypatch):
    pytest.importorskip("mpi4py")
    launcher("mpiexec (OpenRTE) 4.1.4")
    findings = doctor.mpi()
    if "Open MPI" in doctor._output([doctor.sys.executable, "-c", PRINT_MPI]):
        pytest.skip("this is Open MPI")
    fault = only_fault(findings)
    assert "is of Open MPI, but mpi4py has MPICH" in fault.what
    launcher("HYDRA build details:")
    assert [f.good for f in doctor.mpi()] == [True]


PRINT_MPI = "from mpi4py import MPI; print(MPI.Get_library_version())"


def test_no_mpiexec(monkeypatch, tmp_path):
    pytest.importorskip("mpi4py")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "_beside_python", lambda: str(tmp_path))
    assert "no mpiexec in PATH" in only_fault(doctor.mpi()).what


def test_mpi4py_without_a_library(monkeypatch):
    pytest.importorskip("mpi4py")
    monkeypatch.setattr(doctor, "_output", lambda command: None)
    assert "finds no MPI library" in only_fault(doctor.mpi()).what


def test_no_mpi_is_no_fault(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    assert [f.good for f in doctor.mpi()] == [True]

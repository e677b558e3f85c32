"""`clhines devices` and `clhines engines`."""

from types import SimpleNamespace

from clhines.simulator.choose import described
from clhines.solver.device import devices, pocl


def test_devices(cli):
    result = cli("devices")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert "engines" not in result.out
    assert lines[0].split()[:2] == ["index", "type"]
    default = devices.choose()
    for index, device in devices.all_devices():
        (row,) = [line.split() for line in lines if index in line.split()]
        kind = "CPU" if devices.is_cpu(device) else "GPU"
        assert ("simulator" if devices.is_simulator(device) else kind) in row
        assert device.name.split()[0] in row
        assert (row[0] == "*") == (device == default)


def test_the_workaround_for_pocl_is_shown(cli, monkeypatch):
    """A PoCL that calls the processor `generic`: the listing names the processor of the kernels."""
    found = SimpleNamespace(
        name="cpu",
        platform=SimpleNamespace(name="Portable Computing Language"),
        version="OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic",
        driver_version="3.0",
        type=2,
        extensions="cl_khr_fp64",
        double_fp_config=0,
        max_compute_units=2,
        global_mem_size=2**30,
        local_mem_size=2**15,
    )
    monkeypatch.delenv("CLHINES_DEVICE", raising=False)
    monkeypatch.delenv("PYOPENCL_CTX", raising=False)
    monkeypatch.setattr(devices, "all_devices", lambda: [("0:0", found)])
    monkeypatch.setattr(pocl, "name_processor", lambda device: "x86-64-v3")
    lines = cli("devices").out.splitlines()
    assert "PoCL (3.0) does not know this processor; clhines lets it build for x86-64-v3" in lines


def test_engines(cli):
    """Each engine, with the features that it does not support."""
    text = " ".join(cli("engines").out.split())
    for name, on, about, lacks, limits in described():
        assert f"{name} {on} {about}" in text and lacks in text and limits in text

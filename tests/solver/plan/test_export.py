"""Exported plans: their files, and C and C++ programs that solve with them."""

import json
import os
import re
import shutil
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest
from processes import output_of

import clhines
from clhines import Forest, InputError, Solver, make_plan
from clhines.solver.device import devices, pocl
from clhines.solver.device import program as device_program
from clhines.solver.plan.export import METHODS

SOURCES = Path(__file__).resolve().parents[3] / "docs/howto/c"
LIBRARIES = Path(cl.__file__).parent / ".libs"  # the libraries of PyOpenCL's wheel and PoCL's
LOADERS = sorted(LIBRARIES.glob("libOpenCL*"))
STRICT = "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror"
needs_compiler = pytest.mark.skipif(
    not SOURCES.is_dir() or not LOADERS or shutil.which("g++") is None,
    reason="needs docs, g++, and PyOpenCL from pip",
)


def batch():
    shapes = [np.array([-1, 0, 1, 1, 3]), np.arange(-1, 40), np.array([-1]), np.arange(-1, 6) // 2]
    return Forest.from_parents(shapes * 10)


def long_cell(nodes=600):
    """Return a cell that 4 KiB of local memory cannot hold."""
    return Forest(np.arange(-1, nodes - 1) - np.arange(nodes) % 3 // 2)


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    for compiler, standard, name in (("gcc", "c99", "solve.c"), ("g++", "c++17", "solve.cpp")):
        out = folder / name.replace(".", "_")
        command = [compiler, f"-std={standard}", *STRICT, "-o", out, SOURCES / name, LOADERS[0]]
        subprocess.run([*command, "-lm"], check=True)
    return [folder / "solve_c", folder / "solve_cpp"]


def ran(program, folder, index, **variables):
    """Run a program on a device with this process's loader and platforms."""
    paths = {"PYOPENCL_HOME": str(LIBRARIES.parent), "LD_LIBRARY_PATH": str(LIBRARIES)}
    command = [program, folder, *index.split(":")]
    environment = {**os.environ, **paths, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def solves(program, folder, index, **variables):
    done = ran(program, folder, index, **variables)
    assert done.returncode == 0, done.stderr
    forest = manifest_of(folder)
    begin = f"{forest['cells']} cells, {forest['nodes']} nodes, residual "
    assert done.stdout.startswith(begin)


@needs_compiler
@pytest.mark.parametrize("index", [index for index, _ in devices.all_devices()])
@pytest.mark.parametrize("method", METHODS)
def test_programs_solve_on_every_device(tmp_path, programs, method, index):
    device = dict(devices.all_devices())[index]
    dtype = np.float64 if devices.has_fp64(device) else np.float32
    Solver(batch(), method, dtype, device).export(tmp_path)
    for program in programs:
        solves(program, tmp_path, index)


@needs_compiler
@pytest.mark.optimised
@pytest.mark.parametrize("symmetric", [True, False])
def test_programs_compile_nothing(tmp_path, programs, symmetric):
    """PoCL compiles at a launch, and wrongly for a processor that it calls `generic`."""
    index = next(i for i, d in devices.all_devices() if not devices.is_simulator(d))
    device = dict(devices.all_devices())[index]
    dtype = np.float64 if devices.has_fp64(device) else np.float32
    solver = Solver(long_cell(6000), "contraction", dtype, device)
    solver.export(tmp_path, symmetric)
    for program in programs:
        cache = tmp_path / program.name
        solves(program, tmp_path, index, POCL_CACHE_DIR=str(cache))
    with pytest.raises(InputError, match="nothing|before anything"):
        solver.status()


@needs_compiler
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_programs_compile_the_sources_of_a_plan(tmp_path, programs, dtype, symmetric):
    """A plan with several kernels cuts cells into pieces; its launches have additional arrays."""
    index = next(i for i, d in devices.all_devices() if not devices.is_simulator(d))
    device = dict(devices.all_devices())[index]
    if pocl.is_unnamed(device) or (dtype == "float64" and not devices.has_fp64(device)):
        pytest.skip("PoCL builds nothing for a processor without a name, or no float64")
    small = replace(devices.limits(device), local_bytes=4096, max_work_group=64)
    plan = make_plan(long_cell(), "contraction", dtype, small)
    assert {part.phase for part in plan.parts} == {"reduce", "solve", "expand"}
    plan.export(tmp_path, symmetric)
    manifest = manifest_of(tmp_path)
    assert len(manifest["kernels"]) > 1 and not manifest["kernels"][0]["binary"]
    for program in programs:
        solves(program, tmp_path, index)


@needs_compiler
def test_programs_report_missing_files_and_failed_builds(tmp_path, programs):
    index, device = devices.all_devices()[-1]
    solver = Solver(batch(), "flat", np.float32, device)
    solver.export(tmp_path)
    for program in programs:
        assert ran(program, tmp_path / "none", index).returncode == 1
        assert ran(program, tmp_path, "15:0").returncode == 1
    (tmp_path / "kernel0.bin").write_bytes(b"\0")
    name = "kernel0.cl"
    (tmp_path / name).write_text(solver.source.replace("{", "{ not_declared", 1))
    reason = "unknown target CPU" if pocl.is_unnamed(device) else "not_declared"
    for program in programs:
        done = ran(program, tmp_path, index)
        assert done.returncode == 1 and reason in done.stderr
    (tmp_path / "gather.int32").write_bytes(b"\0" * 8)
    for program in programs:
        done = ran(program, tmp_path, index)
        assert done.returncode == 1 and "gather.int32" in done.stderr


UNKNOWN = """
import ctypes, os, sys
import numpy as np, pyopencl as cl
from clhines.solver.device import devices, pocl
device = next(d for _, d in devices.all_devices() if "Portable" in d.platform.name)
triple, name = device.version.strip().rpartition("pthread-")[2].rpartition("-")[::2]
if not pocl.is_unnamed(device):
    field = pocl._find_name(device.int_ptr, triple.encode(), name.encode())
    generic = ctypes.create_string_buffer(b"generic")
    ctypes.c_void_p.from_address(field).value = ctypes.addressof(generic)
context = cl.Context([device])
try:
    cl.Program(context, open(sys.argv[1] + "/kernel0.cl").read()).build(cache_dir=False)
except cl.Error as error:
    assert "unknown target CPU 'generic'" in str(error), error
else:
    raise SystemExit("PoCL knows the name generic")
binary = open(sys.argv[1] + "/kernel0.bin", "rb").read()
kernel = cl.Kernel(cl.Program(context, [device], [binary]).build(), "solve")
print(kernel.num_args)
sys.stdout.flush()
os._exit(0)
"""


def test_compiled_kernels_serve_processors_that_pocl_does_not_know(tmp_path):
    """LLVM calls such processors `generic`, which its own front end rejects (error -11)."""
    matches = [d for _, d in devices.all_devices() if "Portable" in d.platform.name]
    if not matches or pocl.register_bytes(matches[0]) is None or "x86_64" not in matches[0].version:
        pytest.skip("needs PoCL on x86-64")
    Solver(batch(), "flat", device=matches[0]).export(tmp_path)
    path = os.pathsep.join([str(SOURCES.parents[2]), *sys.path])
    environment = {"PYTHONPATH": path, "POCL_CACHE_DIR": str(tmp_path / "cache")}
    out = output_of("-c", UNKNOWN, tmp_path, **environment)
    arguments = manifest_of(tmp_path)["launches"][0]["arguments"]
    assert out.strip() == str(len(arguments))


AFTER_A_LARGE_BATCH = """
import sys
import numpy as np
from clhines import Forest, Solver
cells = int(sys.argv[2])
forest = Forest.from_parents([np.arange(-1, 9)] * cells)
solver = Solver(forest, "flat", device=sys.argv[3])
ones = np.ones(forest.num_nodes)
solver.solve(4 * ones, 0 * ones, ones)
small = Solver(forest.subset(np.arange(10)), "flat", device=sys.argv[3])
assert small.plan.parts[0].spec == solver.plan.parts[0].spec
small.export(sys.argv[1])
"""


def test_compiled_kernels_serve_small_batches_after_large_ones(tmp_path):
    """PoCL launches its kernels for large grids for small ones, too, but only in one process."""
    indices = [i for i, d in devices.all_devices() if "Portable" in d.platform.name]
    if not indices:
        pytest.skip("needs PoCL")
    variants = []
    for cells in (10, 70_000):
        folder = tmp_path / str(cells)
        options = {"POCL_CACHE_DIR": str(tmp_path / f"cache{cells}")}
        output_of("-c", AFTER_A_LARGE_BATCH, folder, cells, indices[0], **options)
        binary = (folder / "kernel0.bin").read_bytes()
        variants.append(set(re.findall(rb"/solve/([0-9]+-[0-9]+-[0-9]+[a-z0-9-]*)/", binary)))
    assert variants[0] and variants[0] == variants[1]


def test_the_context_is_held_while_kernels_are_compiled(tmp_path, monkeypatch):
    """Intel's runtime frees a context to which only a queue refers."""
    held, build = [], device_program.build

    class Watched(cl.Context):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            held.append(weakref.ref(self))

    def built(*arguments, **options):
        assert held[-1]() is not None
        return build(*arguments, **options)

    solver = Solver(batch(), "flat")
    monkeypatch.setattr(cl, "Context", Watched)
    monkeypatch.setattr(device_program, "build", built)
    solver.export(tmp_path)
    assert len(held) == 1 and tmp_path.joinpath("kernel0.bin").exists()


@pytest.mark.core
def test_a_manifest_has_what_launches_need(tmp_path):
    plan = make_plan(batch(), "fine", np.float32)
    plan.export(tmp_path / "new" / "folder")
    place = tmp_path / "new" / "folder"
    manifest = manifest_of(place)
    assert (manifest["format"], manifest["clhines"]) == (1, clhines.__version__)
    assert (manifest["method"], manifest["real"], manifest["device"]) == ("fine", "float", "")
    assert (manifest["cells"], manifest["nodes"]) == (40, plan.forest.num_nodes)
    sizes = {one["name"]: one["bytes"] for one in manifest["buffers"]}
    assert sizes["d"] == sizes["x"] == 4 * plan.packed_size and sizes["status"] == 4 * 40
    for one in manifest["buffers"]:
        if one["file"]:
            assert (place / one["file"]).stat().st_size == one["bytes"]
    np.testing.assert_array_equal(np.fromfile(place / "gather.int32", "<i4"), plan.gather)
    (part,) = plan.parts
    ((launch,),) = [manifest["launches"]]
    names = [p.name for p in part.solve_spec(True, 1).parameters()]
    assert [str(a).rpartition("/")[2] for a in launch["arguments"][3:]] == names[3:]
    assert launch["items"] == part.num_groups * part.spec.work_group
    assert "__kernel" in (place / "kernel0.cl").read_text("utf-8")


@pytest.mark.core
def test_other_methods_are_refused_by_name(tmp_path):
    chains = Forest.from_parents([np.arange(-1, 7)] * 4)
    for method in sorted({*clhines.METHODS} - {*METHODS}):
        with pytest.raises(InputError, match=f"'{method}' cannot be exported; expected flat"):
            make_plan(chains, method).export(tmp_path)
    assert not any(tmp_path.iterdir())
    plan = make_plan(chains, "flat")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        plan.export(tmp_path / "file")
    with pytest.raises(InputError, match="folder is 3; expected a path"):
        plan.export(3)
    with pytest.raises(InputError, match="symmetric is 1; expected True or False"):
        plan.export(tmp_path, symmetric=1)

"""Choosing devices, building kernels, and the processor's name for PoCL."""

import gc
import re
from types import SimpleNamespace

import pyopencl as cl
import pytest

from bench.made import chain, star
from clhines import BuildError, DeviceError, Forest, InputError, Solver, make_plan
from clhines.solver.device import declarations, devices, program
from clhines.solver.device.timing import FloorSpec
from clhines.solver.plan.templates import render

GPU, CPU = cl.device_type.GPU, cl.device_type.CPU


def fake(name, kind, double=True, platform="Some Platform"):
    return SimpleNamespace(
        name=name,
        type=kind,
        platform=SimpleNamespace(name=platform),
        version="OpenCL 3.0",
        extensions="cl_khr_fp64 cl_khr_icd" if double else "cl_khr_icd",
        double_fp_config=0,
    )


SIMULATOR = fake("Simulator", GPU | CPU, platform="Oclgrind")
SMALL_GPU = fake("Small GPU", GPU, double=False)
BIG_GPU = fake("Big GPU", GPU)
OTHER_CPU = fake("A CPU", CPU, platform="Portable Computing Language")


@pytest.fixture
def choose(monkeypatch):
    monkeypatch.delenv("CLHINES_DEVICE", raising=False)
    monkeypatch.delenv("PYOPENCL_CTX", raising=False)

    def among(found, *arguments):
        listed = [(f"{k}:0", d) for k, d in enumerate(found)]
        monkeypatch.setattr(devices, "all_devices", lambda: listed)
        return devices.choose(*arguments)

    return among


@pytest.mark.parametrize(
    ("found", "dtype", "expected"),
    [
        ([SIMULATOR, OTHER_CPU, SMALL_GPU, BIG_GPU], "float64", BIG_GPU),
        ([SIMULATOR, OTHER_CPU, SMALL_GPU, BIG_GPU], "float32", SMALL_GPU),
        ([SIMULATOR, OTHER_CPU, SMALL_GPU], "float64", OTHER_CPU),
        ([SIMULATOR, OTHER_CPU], "float32", OTHER_CPU),
    ],
)
def test_default_is_the_first_gpu_with_the_precision_then_a_cpu(choose, found, dtype, expected):
    assert choose(found, None, dtype) is expected


@pytest.mark.parametrize("found", [[SIMULATOR], [SIMULATOR, SMALL_GPU]])
def test_no_default_says_what_was_found_and_what_to_install(choose, found):
    with pytest.raises(DeviceError, match=r"no device for float64 .* Simulator.*pip install"):
        choose(found, None, "float64")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("0:0", SIMULATOR),
        ("1:0", OTHER_CPU),
        ("2", BIG_GPU),
        ("big", BIG_GPU),
        ("portable", OTHER_CPU),
        ("oclgrind", SIMULATOR),
        ("pocl", OTHER_CPU),
        ("CPU", OTHER_CPU),
    ],
)
def test_device_by_index_or_name(choose, monkeypatch, spec, expected):
    fakes = [SIMULATOR, OTHER_CPU, BIG_GPU]
    assert choose(fakes, spec) is expected
    monkeypatch.setenv("PYOPENCL_CTX", spec)
    assert choose(fakes) is expected
    monkeypatch.setenv("CLHINES_DEVICE", "1:0")
    assert choose(fakes) is OTHER_CPU
    assert choose(fakes, spec) is expected


@pytest.mark.core
@pytest.mark.parametrize("spec", ["7:0", "9", "Voodoo"])
def test_no_match_lists_the_devices(choose, monkeypatch, spec):
    words = f"device='{spec}' matches no device; found: "
    words += "0:0 Simulator (Oclgrind); 1:0 A CPU (Portable Computing Language)"
    with pytest.raises(DeviceError, match=re.escape(words)):
        choose([SIMULATOR, OTHER_CPU], spec)
    monkeypatch.setenv("CLHINES_DEVICE", spec)
    with pytest.raises(DeviceError, match=f"CLHINES_DEVICE='{spec}' matches no device"):
        choose([SIMULATOR, OTHER_CPU])


def test_a_named_device_without_float64(choose):
    with pytest.raises(DeviceError, match="'Small GPU' has no float64; use dtype float32"):
        choose([SMALL_GPU], "small", "float64")
    assert choose([SMALL_GPU], "small", "float32") is SMALL_GPU


@pytest.mark.core
def test_other_kinds_of_device(choose):
    with pytest.raises(DeviceError, match=r"device=1\.5 is not valid; expected a pyopencl device"):
        choose([BIG_GPU], 1.5)


def test_no_platform_says_what_to_install(monkeypatch):
    def none():
        raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")

    monkeypatch.setattr(cl, "get_platforms", none)
    with pytest.raises(DeviceError, match=r"no OpenCL platform .*pip install '\.\[cpu\]'"):
        devices.all_devices()
    monkeypatch.setattr(cl, "get_platforms", list)
    with pytest.raises(DeviceError, match=r"no OpenCL device .*pip install '\.\[cpu\]'"):
        devices.all_devices()


def test_real_devices(every_queue):
    device = every_queue.device
    assert devices.choose(device, "float32") == device
    limits = devices.limits(device)
    assert limits.max_work_group == device.max_work_group_size >= 1
    assert limits.compute_units == device.max_compute_units >= 1
    assert device.name.strip() in devices.label(device)
    assert "\n" not in devices.label(device)


# ------------------------------------------------------------------------------------ building


@pytest.mark.core
def test_build_error_shows_the_numbered_source(every_queue):
    source = "__kernel void k(__global int *a)\n{\n    a[0] = undeclared_name;\n}"
    spec = FloorSpec("float", 1)
    with pytest.raises(BuildError) as caught:
        program.build(every_queue.context, spec, source=source)
    message = str(caught.value)
    assert message.startswith(
        f"kernel of {spec} did not build on {every_queue.device.name.strip()}\n"
    )
    assert message.endswith(
        "   1  __kernel void k(__global int *a)\n   2  {\n"
        "   3      a[0] = undeclared_name;\n   4  }"
    )


def test_a_build_without_a_reason_is_done_once_more(every_queue, monkeypatch):
    """Builds of PoCL in several processes may disturb each other; a compiler's error is final."""
    context, built = every_queue.context, cl.Program.build
    if "PoCL" not in every_queue.device.version:
        pytest.skip("of PoCL")
    turns, said = [], ["Device failed to build the program"]

    def build(self, *args, **kwargs):
        turns.append(1)
        if len(turns) <= len(said):
            raise cl.RuntimeError(said[len(turns) - 1])
        return built(self, *args, **kwargs)

    monkeypatch.setattr(cl.Program, "build", build)
    assert program._build(context, "__kernel void one() {}", []).num_kernels == 1
    assert len(turns) == 2
    # a compiler's error repeats with all declarations
    _, fewer = declarations.minimal(every_queue.device, "")
    for said in (["<source>:1:1: error: no"] * (1 + bool(fewer)), ["no reason"] * 3):
        turns.clear()
        with pytest.raises(cl.RuntimeError, match="no"):
            program._build(context, "__kernel void one() {}", [])
        assert len(turns) == len(said)


def test_programs_are_built_once_per_context_and_spec(every_queue):
    spec = FloorSpec("float", 2)
    built = program.build(every_queue.context, spec)
    count = len(program.build_seconds)
    assert program.build(every_queue.context, FloorSpec("float", 2)) is built
    assert len(program.build_seconds) == count
    assert program.build(every_queue.context, spec, source=render(spec)) is not built
    assert len(program.build_seconds) == count + 1


def test_dump_writes_what_is_built(every_queue, tmp_path, monkeypatch):
    fresh = devices.make_queue(every_queue.device)
    monkeypatch.setenv("CLHINES_DUMP", str(tmp_path / "dump"))
    solver = Solver(Forest(star(5)), "fine", "float32", queue=fresh)
    written = {f.name.split("-")[0]: f.read_text("utf-8") for f in (tmp_path / "dump").iterdir()}
    template = solver.plan.parts[0].spec.template.rpartition("/")[2]
    assert set(written) == {template, "permute"}
    assert written[template] == solver.source


@pytest.mark.parametrize(("width", "expected"), [(1, 16), (4, 16), (8, 32), (16, 64), (32, 64)])
def test_explicit_vectors_are_as_wide_as_the_registers_of_a_cpu(width, expected):
    device = SimpleNamespace(
        type=cl.device_type.CPU,
        native_vector_width_float=width,
        max_compute_units=2,
        max_work_group_size=64,
        local_mem_size=1 << 15,
        extensions="cl_khr_fp64",
        platform=SimpleNamespace(name="Some Platform"),
    )
    assert devices.limits(device).vector_bytes == expected
    device.type = cl.device_type.GPU
    assert devices.limits(device).vector_bytes == 16


@pytest.mark.parametrize(
    ("name", "reported", "vectors", "trusted"),
    [
        ("znver3", 64, 32, 32),  # Zen 4 in LLVM 14
        ("generic", 64, 32, 32),  # replaced by another name
        ("generic", 32, 32, 32),
        ("skylake", 64, 32, 32),
        ("some-later-name", 64, 32, 32),
        ("skylake-avx512", 64, 64, 128),
        ("icelake-client", 64, 64, 128),
        ("sapphirerapids", 64, 64, 128),
        ("x86-64-v4", 64, 64, 128),
        ("znver3", 32, 32, 128),
        ("haswell", 32, 32, 128),
        ("x86-64", 16, 16, 128),
        ("x86-64-v2", 64, 16, 16),
    ],
)
def test_vectors_of_pocl_are_as_wide_as_the_name_of_the_processor(name, reported, vectors, trusted):
    """The processor's name decides, whatever the device reports; wider vectors are rejected."""
    device = fake("A CPU", CPU, platform="Portable Computing Language")
    device.version = f"OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-{name} "
    device.native_vector_width_float, device.local_mem_size = reported // 4, 1 << 15
    device.max_compute_units, device.max_work_group_size = 2, 64
    found = devices.limits(device)
    assert (found.vector_bytes, found.trusted_bytes) == (vectors, trusted)
    most = min(16, trusted // 8)
    for method in ("fine", "block_interleaved"):
        make_plan(Forest.repeat([chain(9)], 8), method, limits=found, vector_width=most)
        if most < 16:
            message = f"vector_width={2 * most} is wider .* in float64; expected at most {most}"
            with pytest.raises(InputError, match=message):
                make_plan(Forest.repeat([chain(9)], 8), method, limits=found, vector_width=2 * most)


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("Portable Computing Language", True),
        ("Intel(R) OpenCL", True),
        ("rusticl", False),
        ("Intel(R) OpenCL Graphics", False),
        ("NVIDIA CUDA", False),
    ],
)
def test_whose_compiler_takes_what_is_clangs(platform, expected):
    device = fake("A CPU", CPU, platform=platform)
    device.native_vector_width_float, device.local_mem_size = 8, 1 << 15
    device.max_compute_units, device.max_work_group_size = 2, 64
    limits = devices.limits(device)
    assert limits.clang == expected
    assert limits.vectorises == (platform == "Intel(R) OpenCL")
    device.type = cl.device_type.GPU
    assert not devices.limits(device).vectorises
    plan = make_plan(Forest.repeat([chain(9)], 8), "fine", limits=limits)
    (part,) = plan.parts
    source = render(part.solve_spec(True, 1))
    assert ("__builtin_prefetch(" in source) == expected
    assert (" prefetch(" in source) != expected  # OpenCL C's, which all compilers know


def test_a_queue_that_has_lost_its_context_is_refused(fast_queue):
    """A queue alone does not keep the context of Intel's CPU runtime alive."""

    class Lost(cl.CommandQueue):
        lost = False

        @property
        def context(self):
            if self.lost:
                raise cl.LogicError("clRetainContext failed: INVALID_CONTEXT")
            return super().context

    queue = Lost(fast_queue.context)
    queue.lost = True
    with pytest.raises(InputError, match="queue has lost its context.*hold a reference to the py"):
        Solver(Forest(chain(3)), dtype="float32", queue=queue)


def test_a_queue_keeps_its_context(every_queue):
    fresh = devices.make_queue(every_queue.device)
    gc.collect()
    assert fresh.context.devices == [every_queue.device]


# ---------------------------------------------------------------------------------------- PoCL


@pytest.mark.parametrize(
    ("major", "driver", "extensions", "expected"),
    [
        (9, "580.159.04", "cl_khr_fp64 cl_nv_device_attribute_query", True),
        (10, "575", "cl_nv_device_attribute_query", True),
        (9, "520.61.05", "cl_nv_device_attribute_query", False),  # PTX 7.8
        (8, "580.159.04", "cl_nv_device_attribute_query", False),
        (9, "unknown", "cl_nv_device_attribute_query", False),
        (9, "580.159.04", "cl_khr_fp64", False),
    ],
)
def test_bulk_copies_need_the_chip_and_the_driver(major, driver, extensions, expected):
    device = SimpleNamespace(
        compute_capability_major_nv=major, driver_version=driver, extensions=extensions
    )
    assert devices._copies_in_bulk(device) == expected

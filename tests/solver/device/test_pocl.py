"""PoCL's name of the processor, and the width of its vectors."""

import ctypes
import json
from types import SimpleNamespace

import pytest
from processes import output_of

from clhines.solver.device import pocl, program
from clhines.solver.device.timing import FloorSpec


class Record(ctypes.Structure):
    """A device record in PoCL's layout: the target triple, then the processor's name."""

    _fields_ = (
        ("head", ctypes.c_char * 256),
        ("triple", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("tail", ctypes.c_char * 2048),
    )


TRIPLE = b"x86_64-pc-linux-gnu"


def pocl_device(record, processor="generic", platform="Portable Computing Language"):
    return SimpleNamespace(
        version=f"OpenCL 3.0 PoCL HSTR: pthread-{TRIPLE.decode()}-{processor}",
        platform=SimpleNamespace(name=platform),
        int_ptr=ctypes.addressof(record),
    )


def test_generic_processor_gets_a_name():
    record = Record(triple=TRIPLE, name=b"generic")
    name = pocl.name_processor(pocl_device(record))
    assert name in ("x86-64-v4", "x86-64-v3", "x86-64")
    assert record.name == name.encode()
    assert pocl.name_processor(pocl_device(record)) == name  # the name is set
    assert record.name == name.encode()


@pytest.mark.parametrize(
    ("record", "options"),
    [
        (Record(triple=TRIPLE, name=b"skylake"), {}),
        (Record(triple=b"aarch64-linux", name=b"generic"), {}),
        (Record(triple=TRIPLE, name=b"generic"), {"processor": "znver4"}),
        (Record(triple=TRIPLE, name=b"generic"), {"platform": "Another"}),
        (Record(), {}),
    ],
)
def test_records_that_look_otherwise_are_left_alone(record, options):
    before = bytes(record)
    assert pocl.name_processor(pocl_device(record, **options)) is None
    assert bytes(record) == before


@pytest.mark.parametrize(("level", "expected"), [(0, 32), (1, 32), (2, 16)])
def test_vectors_of_a_processor_without_a_name(monkeypatch, level, expected):
    """Vectors have 32 bytes with AVX and 16 bytes without it."""
    monkeypatch.setattr(pocl, "_level", lambda: level)
    assert pocl.register_bytes(pocl_device(Record())) == expected
    assert pocl.register_bytes(pocl_device(Record(), "znver3")) == 32
    assert pocl.register_bytes(pocl_device(Record(), platform="Another")) is None


def test_real_devices_build_after_naming(every_queue):
    program.build(every_queue.context, FloorSpec("float", 1))
    name = pocl.name_processor(every_queue.device)
    assert (name is not None) == pocl.is_unnamed(every_queue.device)


ON_PARTS = """
import json
import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from clhines.solver.device import devices, program
from clhines.solver.device.timing import FloorSpec

SUMS = "__kernel void sums(__global const int *a, __global int *x) {"
SUMS += " const int i = get_global_id(0); const int8 row = vload8(i % 3, a);"
SUMS += " x[i] = row.s0 + 10 * row.s7; }"
found = {}
for _, device in devices.all_devices():
    if not devices.is_cpu(device) or devices.is_simulator(device) or device.max_compute_units < 2:
        continue
    parts = device.create_sub_devices([cl.device_partition_property.EQUALLY, 1])
    context = cl.Context(parts[:1])
    own = cl.CommandQueue(context, parts[0])
    for queue in (devices.make_queue(devices.part_of(device, 0, device.max_compute_units)),
                  devices.given_queue(own, None, np.float32), devices.make_queue(device)):
        built = program.build(queue.context, FloorSpec("float", 1), SUMS)
        a = cla.to_device(queue, np.arange(24, dtype=np.int32))
        x = cla.zeros(queue, 64, np.int32)
        built.sums(queue, (64,), (16,), a.data, x.data)
        found.setdefault(str(device), []).append(x.get().tolist())
print(json.dumps(found))
"""


def test_parts_of_a_cpu_compile_right_kernels(tmp_path):
    """PoCL builds a program for the whole CPU, and compiles its kernels for the queue's part.

    Without a common processor name, the two pass vectors in different registers. The first kernel
    to compile goes to PoCL's cache.
    """
    environment = {"POCL_CACHE_DIR": str(tmp_path), "POCL_EXTRA_BUILD_FLAGS": ""}
    data = json.loads(output_of("-c", ON_PARTS, **environment))
    rows = [8 * (i % 3) for i in range(64)]
    for sums in data.values():
        assert sums == [[first + 10 * (first + 7) for first in rows]] * 3

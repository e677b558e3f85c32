"""Choose a device and a queue, and state the limits of a device for planning."""

from __future__ import annotations

import logging
import os
import re
import threading

import numpy as np
import pyopencl as cl
from numpy.typing import DTypeLike

from clhines.core.errors import DeviceError, InputError, install, meant, shown
from clhines.solver.device.caches import pocl_problem
from clhines.solver.device.guard import check_process
from clhines.solver.device.pocl import is_unnamed, name_processor, register_bytes
from clhines.solver.plan.plan import WIDEST_VECTOR, Limits

INSTALL_HINT = f"install a driver for your GPU, or a runtime for the CPU: {install('cpu')}"


# Platforms whose compilers support Clang's builtin functions. Mesa's rusticl has Clang, too, but
# its translator ends the process at `__builtin_prefetch`.
_INTEL = "Intel(R) OpenCL"
_CLANG = ("Portable Computing Language", _INTEL)
_BULK = 9, 525  # least compute capability and driver (PTX 8.0) for NVIDIA's bulk copies
SMALL_GROUP = 64  # work-group size if work-items share nothing
WIDE_GROUP = 1024  # work-group size if work-items share values through a cache
_CONTEXTS: dict[cl.Device, cl.Context] = {}  # one per device, for as long as the process lives
_PARTS: dict[tuple[cl.Device, int, int], cl.Device] = {}  # see `part_of`
_LOCK = threading.Lock()
_log = logging.getLogger(__name__)


def _hint() -> str:
    return pocl_problem() or INSTALL_HINT


def all_devices() -> list[tuple[str, cl.Device]]:
    """Return each OpenCL device with its index pair ``platform:device``; DeviceError if none."""
    check_process()
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:  # PLATFORM_NOT_FOUND_KHR
        raise DeviceError(f"no OpenCL platform was found; {_hint()}") from error
    indexed = []
    for p, platform in enumerate(platforms):
        try:
            indexed += [(f"{p}:{k}", dev) for k, dev in enumerate(platform.get_devices())]
        except cl.Error:  # a platform without devices
            continue
    if not indexed:
        raise DeviceError(f"no OpenCL device was found; {_hint()}")
    return indexed


def has_fp64(device: cl.Device) -> bool:
    """Whether a device computes in float64."""
    return "cl_khr_fp64" in device.extensions.split() or bool(device.double_fp_config)


def is_simulator(device: cl.Device) -> bool:
    """Whether a device is Oclgrind, which claims to be every type of device, and is very slow."""
    return "oclgrind" in device.platform.name.lower()


def is_cpu(device: cl.Device) -> bool:
    return bool(device.type & cl.device_type.CPU) and not device.type & cl.device_type.GPU


def whole_device(device: cl.Device) -> cl.Device:
    try:
        return device.parent_device or device
    except cl.Error:  # before OpenCL 1.2
        return device


def part_of(device: cl.Device, number: int, count: int) -> cl.Device:
    """Return sub-device `number` of `count` equal ones, or the device if it cannot be divided."""
    key = device, number, count
    if key not in _PARTS:  # every OpenCL call makes new devices, which need new contexts
        cores = max(1, device.max_compute_units // count)
        try:
            parts = device.create_sub_devices([cl.device_partition_property.EQUALLY, cores])
        except cl.Error:
            parts = [device]
        _PARTS[key] = parts[number % len(parts)]
    return _PARTS[key]


def alike(device: cl.Device, dtype: DTypeLike) -> list[cl.Device]:
    double = np.dtype(dtype) == np.float64
    matching = [
        d
        for _, d in all_devices()
        if d.platform == device.platform
        and (d.type, d.name) == (device.type, device.name)
        and (has_fp64(d) or not double)
    ]
    return matching if device in matching else [device]


def _copies_in_bulk(device: cl.Device) -> bool:
    if "cl_nv_device_attribute_query" not in device.extensions:
        return False
    driver = device.driver_version.split(".")[0]
    versions = device.compute_capability_major_nv, int(driver) if driver.isdigit() else 0
    return all(have >= least for have, least in zip(versions, _BULK, strict=True))


def limits(device: cl.Device) -> Limits:
    vectors, trusted = _vector_bytes(device)
    platform = device.platform.name.strip()
    return Limits(
        compute_units=device.max_compute_units,
        max_work_group=device.max_work_group_size,
        is_cpu=is_cpu(device),
        vector_bytes=vectors,
        trusted_bytes=trusted,
        local_bytes=device.local_mem_size,
        ptx="cl_nv_compiler_options" in device.extensions,
        clang=platform in _CLANG,
        vectorises=is_cpu(device) and platform == _INTEL,
        bulk=_copies_in_bulk(device),
    )


def wide_groups(device: cl.Device, count: int) -> tuple[tuple[int], tuple[int]]:
    """Return global and local size for `count` work-items that read the same cache lines."""
    return small_groups(device, count, SMALL_GROUP if is_cpu(device) else WIDE_GROUP)


def small_groups(
    device: cl.Device, count: int, most: int = SMALL_GROUP
) -> tuple[tuple[int], tuple[int]]:
    """Return global and local size for `count` work-items that share no values."""
    group = min(most, device.max_work_group_size)
    return (-(-count // group) * group,), (group,)


def _vector_bytes(device: cl.Device) -> tuple[int, int]:
    """Return the vector width to use, and the widest that compiles correctly, both in bytes."""
    if not is_cpu(device):
        return 16, WIDEST_VECTOR
    reported = min(64, max(16, 4 * device.native_vector_width_float))
    compiled = register_bytes(device)
    if compiled is None or (reported <= compiled and not is_unnamed(device)):
        return reported, WIDEST_VECTOR
    return min(reported, compiled), compiled


def label(device: cl.Device) -> str:
    """Return the name of a device and its platform, and the driver version."""
    return f"{device.name.strip()} ({device.platform.name.strip()}, {device.driver_version})"


def choose(spec: cl.Device | str | None = None, dtype: DTypeLike = np.float64) -> cl.Device:
    """Choose a device.

    Parameters
    ----------
    spec : pyopencl.Device, str or None
        A device; an index pair like ``0:1``; part of a device's or platform's name. None: the first
        of ``CLHINES_DEVICE``, ``PYOPENCL_CTX``, the first GPU with the precision of `dtype`, and a
        CPU, by PoCL or else by Intel's runtime. A simulator is only chosen by name.
    dtype : float64 or float32

    Raises
    ------
    DeviceError
        No platform, no match, or a device without the precision of `dtype`.
    """
    check_process()
    double = np.dtype(dtype) == np.float64
    if isinstance(spec, cl.Device):
        return _with_precision(spec, double)
    if spec is not None and not isinstance(spec, str):
        raise DeviceError.no_match(
            f"device={shown(spec)} is not valid; expected a pyopencl device, an index pair like "
            "'0:1' or part of a name"
        )
    for name, text in (("device", spec), ("CLHINES_DEVICE", os.environ.get("CLHINES_DEVICE"))):
        if text:
            return _chosen(_with_precision(_named(text, name), double), f"{name}={text}")
    if os.environ.get("PYOPENCL_CTX"):
        return _chosen(_with_precision(_of_pyopencl(), double), "PYOPENCL_CTX")
    real = [d for _, d in all_devices() if not is_simulator(d)]
    able = [d for d in real if has_fp64(d)] if double else real
    if not able:
        listed = ", ".join(d.name.strip() for _, d in all_devices())
        raise DeviceError(
            f"no device for {np.dtype(dtype).name} was found among: {listed}; {_hint()}"
        )
    gpu = next((d for d in able if d.type & cl.device_type.GPU), None)
    name = np.dtype(dtype).name
    if gpu is None:
        first = min(able, key=_rank)
        return _chosen(first, f"no GPU has {name}; this is the first other device that does")
    return _chosen(gpu, f"the first GPU with {name}")


def _rank(device: cl.Device) -> int:
    """Return a CPU runtime's rank in the order of preference: PoCL's kernels are the fastest."""
    name = device.platform.name.strip()
    return _CLANG.index(name) if name in _CLANG else len(_CLANG)


def _chosen(device: cl.Device, why: str) -> cl.Device:
    if _log.isEnabledFor(logging.INFO):
        _log.info("device %s (%s)", label(device), why)
    return device


def _named(text: str, origin: str) -> cl.Device:
    devices = all_devices()
    pair = text if ":" in text else (f"{text}:0" if text.isdigit() else text)
    matches = [d for index, d in devices if index == pair] or [
        d for _, d in devices if text.lower() in _words(d)
    ]
    if not matches:
        listed = "; ".join(
            f"{index} {d.name.strip()} ({d.platform.name.strip()})" for index, d in devices
        )
        near = meant(text, [word for _, d in devices for word in re.findall(r"\w+", _words(d))])
        message = f"{origin}={shown(text)} matches no device; found: {listed}{near}"
        raise DeviceError.no_match(message)
    return matches[0]


def _words(device: cl.Device) -> str:
    words = [device.name, device.platform.name]
    if "Portable Computing" in device.platform.name:
        words.append("pocl")
    if not is_simulator(device):
        words += ["cpu"] * is_cpu(device) + ["gpu"] * bool(device.type & cl.device_type.GPU)
    return " ".join(words).lower()


def _of_pyopencl() -> cl.Device:
    text = os.environ["PYOPENCL_CTX"]
    try:
        return _named(text, "PYOPENCL_CTX")
    except DeviceError:
        pass  # only pyopencl reads forms like "Portable:0" or "1:0,0"
    try:
        return cl.create_some_context(interactive=False).devices[0]
    except (cl.Error, RuntimeError, ValueError, IndexError) as error:
        listed = "; ".join(f"{index} {d.name.strip()}" for index, d in all_devices())
        raise DeviceError(
            f"PYOPENCL_CTX={shown(text)} matches no device; found: {listed}"
        ) from error


def _with_precision(device: cl.Device, double: bool) -> cl.Device:
    if double and not has_fp64(device):
        raise DeviceError(
            f"device {device.name.strip()!r} has no float64; use dtype float32 or another device"
        )
    return device


def given_queue(
    queue: cl.CommandQueue | None,
    device: cl.Device | str | None,
    dtype: DTypeLike,
    timestamps: bool = True,
) -> cl.CommandQueue:
    if queue is None:
        return make_queue(choose(device, dtype), timestamps)
    if device is not None:
        raise InputError("got device together with queue; expected one of them")
    check_process()
    if not isinstance(queue, cl.CommandQueue):
        raise InputError(f"queue is {type(queue).__name__}; expected pyopencl.CommandQueue")
    if queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        raise InputError(
            "queue is out of order; expected an in-order queue: pyopencl.CommandQueue("
            "queue.context, queue.device) makes one, and events join both"
        )
    try:
        queue.kept = queue.context  # Intel's runtime frees a context that only a queue refers to
    except cl.Error as error:
        raise InputError(
            "queue has lost its context, which this OpenCL runtime does not keep for it; expected "
            "a queue whose context is kept: hold a reference to the pyopencl.Context"
        ) from error
    choose(queue.device, dtype)  # raises without float64
    name_processor(queue.device)  # it may be a sub-device that is not in the context
    return queue


def context_of(device: cl.Device) -> cl.Context:
    """Return the one context that clhines makes per device: each takes several MiB."""
    check_process()
    if whole_device(device) != device and device not in _PARTS.values():
        return cl.Context([device])
    with _LOCK:
        if device not in _CONTEXTS:
            _CONTEXTS[device] = cl.Context([device])
        return _CONTEXTS[device]


def keeps(context: cl.Context) -> bool:
    return any(context == kept for kept in tuple(_CONTEXTS.values()))


def make_queue(device: cl.Device, timestamps: bool = True) -> cl.CommandQueue:
    """Return an in-order queue on the device's context (`context_of`).

    With timestamps, events can be timed, but each launch takes longer on the host: 14 instead of 9
    microseconds with NVIDIA's driver.
    """
    try:
        context = context_of(device)
        properties = cl.command_queue_properties.PROFILING_ENABLE if timestamps else 0
        queue = cl.CommandQueue(context, device, properties=properties)
    except cl.Error as error:
        raise DeviceError(f"device {device.name.strip()!r} could not be opened: {error}") from error
    queue.kept = context  # Intel's runtime frees a context that only a queue refers to
    name_processor(device)  # it may be a sub-device that is not in the context
    return queue


def has_atomics(device: cl.Device) -> bool:
    return "cl_khr_int64_base_atomics" in device.extensions.split()

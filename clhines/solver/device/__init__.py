"""OpenCL: devices, queues, programs, copies between host and device, and times.

Words: a *queue* is in-order and belongs to one device; all queues that clhines makes for a device
share one context. A *spec* renders to OpenCL source and is the key of the cached program. *Pinned*
memory is host memory that a GPU reads directly. A *lent* array is host memory that a CPU device
uses in place (zero-copy). The *floor* is the time of a kernel that reads three arrays and writes
one.

Who owns what
    `devices`: lists and chooses devices, makes queues, and states a device's `Limits`. `program`:
    builds and caches kernels, sets arguments by name, reports build errors, writes
    ``CLHINES_DUMP``. `copies`: pinned and lent memory. `arrays`: checks of arrays and events on
    devices. `timing`: medians, candidates that take turns, the floor. `guard`: one thread at a
    time, and no use of OpenCL after a fork. `pocl`: the processor that PoCL names to its compiler.
    `declarations`: the OpenCL functions that PoCL declares to a program. `trust`: self-tests of a
    device before a family of kernels is used, and the `Limits` that follow. `caches`: caches on
    disk that are damaged, full or read-only. `runtimes`: finds Intel's runtime from pip, which
    registers nothing by itself.

An index pair or a part of a name chooses a device, otherwise ``CLHINES_DEVICE``, ``PYOPENCL_CTX``,
the first GPU, a CPU. `Limits` has the properties that kernels use:

>>> from clhines.solver.device import devices
>>> device = devices.choose(dtype="float64")
>>> devices.has_fp64(device), devices.limits(device).compute_units >= 1
(True, True)

A spec is rendered to source, and built once per context:

>>> from clhines.solver.device.program import build
>>> from clhines.solver.plan.templates import render
>>> from clhines.solver.device.timing import FloorSpec
>>> spec = FloorSpec("float", vector_width=1)
>>> "__kernel void floor_copy" in render(spec)
True
>>> queue = devices.make_queue(device)
>>> build(queue.context, spec) is build(queue.context, spec)
True

To add a vendor path: add a switch to `Limits`, set it in `devices.limits`, copy it into the spec,
and render both values in the tests. A device's name never reaches a template.
"""

"""OpenCL and nothing else: devices, queues, programs, copies and times.

Words: a *queue* is in-order and belongs to one device; all queues that clhines makes for a device
share one context. A *spec* renders to OpenCL source and is the key of the cached program.
*Pinned* memory is host memory that a GPU reads directly; a *mapped* array is host memory that a CPU
device uses in place (zero-copy). The *floor* is the time of a kernel that reads three arrays and
writes one.

Who owns what
    `devices`: lists and chooses devices, makes queues, and states a device's `Limits`. `program`:
    builds and caches kernels, `bind` for arguments by name, readable build errors,
    ``CLHINES_DUMP``. `copies`: `PinnedCopies` and mapped copies. `arrays`: checks
    of arrays and events on devices. `timing`: medians, candidates that take turns, the floor.
    `guard`: one thread at a time, and no use of OpenCL after a fork. `pocl`: the processor that
    PoCL should name to its compiler; `declarations`: functions that PoCL is told of. `trust`: known
    answers before a family of kernels is used, and the `Limits` that follow from them. `watch`:
    reports compilations that take long. `caches`: caches on disk that are spoiled, full or
    read-only. `runtimes`: Intel's runtime from pip, which registers nothing by itself.

An index pair or a part of a name chooses a device, otherwise ``CLHINES_DEVICE``, ``PYOPENCL_CTX``,
the first GPU, a CPU. `Limits` has the properties that kernels use:

>>> from clhines.solver.device import devices
>>> device = devices.choose(dtype="float64")
>>> devices.has_fp64(device), devices.limits(device).compute_units >= 1
(True, True)

A spec is rendered to source, built once per context:

>>> from clhines.solver.device.program import build
>>> from clhines.solver.plan.templates import render
>>> from clhines.solver.device.timing import FloorSpec
>>> spec = FloorSpec("float", vector_width=1)
>>> "__kernel void floor_copy" in render(spec)
True
>>> queue = devices.make_queue(device)
>>> build(queue.context, spec) is build(queue.context, spec)
True

To add a vendor path: a switch in `Limits`, set in `devices.limits`, taken over by the spec, and
both values rendered in the tests. A device's name never reaches a template.
"""

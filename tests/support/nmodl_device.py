"""Functions of NMODL mechanisms on a device, each work-item one instance with values of its own."""

import numpy as np
import pyopencl as cl
from nmodl_host import Cell, Instance

from clhines.mechanisms.nmodl.model import vectors_of
from clhines.mechanisms.nmodl.source import name_of

COUNT = 64


_DTYPES = {"stream": np.uint32, "drawn": np.int64}


def _type(a):
    return {"stream": "uint4", "drawn": "ulong"}.get(a.role, "real")


def values_of(m, a, rng, tables):
    """(COUNT,) values of an argument that goes in; of a table all of it."""
    if a.role == "table":
        return tables[a.name]
    if a.role == "stream":
        return rng.integers(0, 2**32, (COUNT, 4)).astype(np.uint32)
    if a.role == "drawn":
        return rng.integers(0, 2**34, COUNT)
    defaults = {q.name: q.default for q in m.program.parameters}
    if a.role == "parameter":
        return defaults[a.name] * rng.uniform(0.9, 1.1, COUNT)
    low, high = {
        "v": (-90, 40), "t": (0, 10), "dt": (0.02, 0.1), "pointer": (-80, 0), "x": (-60, 20),
    }.get(a.role, (0.1, 0.9))  # fmt: skip
    if a.role == "flag":
        return rng.integers(0, 9, COUNT).astype(float)
    return rng.uniform(low, high, COUNT)


def on_device(queue, m, block, outputs=(), seed=5, real="double", width=1):
    """Return what the NumPy twin gives, what the device gives, and how large the numbers are.

    Of several instances at once where `width` is more than 1, some of which have odd voltages.
    """
    rng = np.random.default_rng(seed)
    arguments = m.calls(block, outputs)
    host = Cell([Instance(m)], 0.025)
    tables = {t.name: host.table(host.instances[0], t.name) for t in m.program.tables}
    given = [values_of(m, a, rng, tables) for a in arguments if a.direction != "out"]
    into = [a for a in arguments if a.direction != "out"]
    if width > 1:
        for a, values in zip(into, given):
            if a.role in ("t", "dt"):
                values[:] = values[0]  # one for all
            elif a.role == "v":
                values[[3, 14, 17]] = np.nan, 150, -150
    number = np.float64 if real == "double" else np.float32
    given = [a.astype(number).astype(float) if a.dtype == float else a for a in given]
    with np.errstate(all="ignore"):
        twin = m.twin(block, outputs)(*given)
    expected = np.array([np.broadcast_to(x, COUNT) for x in twin], float).reshape(-1, COUNT)
    body, inputs = [], iter(range(len(given)))
    for k, a in enumerate(arguments):
        if a.direction != "out":
            where = next(inputs)
            at = f"in{where}" if a.role == "table" else f"in{where}[k]"
            if width > 1 and a.role != "table":
                single = a.role in ("t", "dt")
                at = f"in{where}[0]" if single else f"vload{width}(k, in{where})"
        body.append((a, k, at if a.direction != "out" else None))

    def sort_of(a):
        return _type(a) if width == 1 else f"real{width}"

    lines = [
        f"    {sort_of(a)} x{k}{f' = {at}' if at else ''};"
        for a, k, at in body
        if a.direction != "in"
    ]
    shown = [at if a.direction == "in" else f"&x{k}" for a, k, at in body]
    out = [k for a, k, _ in body if a.direction != "in"]
    declared = [f"__global const {_type(a)} *in{j}" for j, a in enumerate(into)]
    name = m.name if width == 1 else f"{m.name}__v{width}"
    call = f"{name}_{block}({', '.join(shown)});"
    stores = [
        f"    out[{j} * {COUNT} + k] = x{k};"
        if width == 1
        else f"    vstore{width}(x{k}, k, out + {j * COUNT});"
        for j, k in enumerate(out)
    ]
    functions = (
        m.functions(real, outputs)
        if width == 1
        else vectors_of(m.text, m.nmodl, (block,), real, tuple(outputs), width, ())
    )
    source = "\n".join(
        [
            "#pragma OPENCL EXTENSION cl_khr_fp64 : enable",
            f"typedef {real} real;\ntypedef {real}{width if width > 1 else 2} real{max(width, 2)};",
            functions,
            f"__kernel void run({', '.join([*declared, '__global real *out'])})",
            "{\n    const int k = get_global_id(0);",
            *lines,
            "    " + call,
            *stores,
            "}",
        ]
    )
    context = queue.context
    program = cl.Program(context, source).build()
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    buffers = [
        cl.Buffer(context, flags, hostbuf=np.ascontiguousarray(x, _DTYPES.get(a.role, number)))
        for a, x in zip(into, given, strict=True)
    ]
    found = np.empty_like(expected, number)
    target = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, max(found.nbytes, 8))
    cl.Kernel(program, "run")(queue, (COUNT // width,), None, *buffers, target)
    if found.size:
        cl.enqueue_copy(queue, found, target).wait()
    finite = np.where(np.isfinite(expected), np.abs(expected), 0)
    size = np.maximum(finite.max(axis=1, initial=0), 1.0)[:, None]
    assert all(name_of(a) for a in arguments)
    infinite = np.isinf(expected)
    assert np.array_equal(infinite, np.isinf(found))
    return np.where(infinite, 0, expected), np.where(infinite, 0, found), size

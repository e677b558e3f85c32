"""Functions of NMODL mechanisms on a device, one instance with its own values per work-item."""

import numpy as np
import pyopencl as cl

from clhines.simulator.mechanisms.emit.functions import name_of

COUNT = 64


_DTYPES = {"stream": np.uint32, "drawn": np.int64}


def filled(m, table):
    """Fill a table as NEURON does, by adding steps to x."""
    values = {q.name: q.default for q in (*m.program.parameters, *m.program.states)}
    values |= {"area": 100.0, "diam": 500.0, "celsius": 6.3, "dt": 0.025, "t": 0.0, "v": -65.0}

    def call(block, x=None):
        arguments = m.calls(block)
        given = [x if a.role == "x" else values[a.name] for a in arguments if a.direction != "out"]
        with np.errstate(all="ignore"):
            results = m.twin(block)(*map(np.float64, given))
        return dict(zip([a.name for a in arguments if a.direction != "in"], results, strict=True))

    grid, rows = call(f"grid_{table.name}"), []
    x, step = grid["low"], (grid["high"] - grid["low"]) / table.n
    for _ in range(table.n + 1):
        row = call(f"table_{table.name}", x)
        rows.append([row[str(k)] for k in range(len(table.columns))])
        x = x + step
    return np.array(rows)


def _type(a):
    return {"stream": "uint4", "drawn": "ulong"}.get(a.role, "real")


def values_of(m, a, rng, tables):
    """Return (COUNT,) values of an input argument, or a whole table."""
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


def on_device(queue, cases, real="double", width=1):
    """Yield the results of NumPy twins, of the device, and the size of the numbers.

    `cases` are pairs of a mechanism and a block. One program holds a kernel for each, because a
    program for each takes far longer. If `width` exceeds 1, each work-item computes `width`
    instances, some with odd voltages.
    """
    made = [Case(m, block, real, width) for m, block in cases]
    head = [
        "#pragma OPENCL EXTENSION cl_khr_fp64 : enable",
        f"typedef {real} real;\ntypedef {real}{width if width > 1 else 2} real{max(width, 2)};",
    ]
    functions = [_functions(m, [b for n, b in cases if n is m], real, width) for m in dict(cases)]
    source = "\n".join([*head, *functions, *(c.kernel(f"k{k}") for k, c in enumerate(made))])
    program = cl.Program(queue.context, source).build()
    for k, case in enumerate(made):
        yield case.compared(queue, cl.Kernel(program, f"k{k}"))


def _functions(m, blocks, real, width):
    outputs = outputs_of(m)
    if width == 1:
        return m.functions(real, outputs)
    return m.functions(real, outputs, blocks, width)


def outputs_of(m):
    return tuple(q.name for q in m.program.outputs)


class Case:
    """A block of a mechanism with separate values for each instance."""

    def __init__(self, m, block, real, width, seed=5):
        rng = np.random.default_rng(seed)
        self.m, self.block, self.real, self.width = m, block, real, width
        self.arguments = m.calls(block, outputs_of(m))
        tables = {table.name: filled(m, table) for table in m.program.tables}
        self.into = [a for a in self.arguments if a.direction != "out"]
        given = [values_of(m, a, rng, tables) for a in self.into]
        if width > 1:
            for a, values in zip(self.into, given):
                if a.role in ("t", "dt"):
                    values[:] = values[0]  # one table for all instances
                elif a.role == "v":
                    values[[3, 14, 17]] = np.nan, 150, -150
        self.number = np.float64 if real == "double" else np.float32
        self.given = [a.astype(self.number).astype(float) if a.dtype == float else a for a in given]

    def kernel(self, name):
        """Return the source of a kernel that calls the block for each instance."""
        width, body, inputs = self.width, [], iter(range(len(self.given)))
        for k, a in enumerate(self.arguments):
            at = None
            if a.direction != "out":
                where = next(inputs)
                at = f"in{where}" if a.role == "table" else f"in{where}[k]"
                if width > 1 and a.role != "table":
                    single = a.role in ("t", "dt")
                    at = f"in{where}[0]" if single else f"vload{width}(k, in{where})"
            body.append((a, k, at))
        lines = [
            f"    {_type(a) if width == 1 else f'real{width}'} x{k}{f' = {at}' if at else ''};"
            for a, k, at in body
            if a.direction != "in"
        ]
        shown = [at if a.direction == "in" else f"&x{k}" for a, k, at in body]
        declared = [f"__global const {_type(a)} *in{j}" for j, a in enumerate(self.into)]
        called = self.m.name if width == 1 else f"{self.m.name}__v{width}"
        stores = [
            f"    out[{j} * {COUNT} + k] = x{k};"
            if width == 1
            else f"    vstore{width}(x{k}, k, out + {j * COUNT});"
            for j, k in enumerate(k for a, k, _ in body if a.direction != "in")
        ]
        return "\n".join(
            [
                f"__kernel void {name}({', '.join([*declared, '__global real *out'])})",
                "{\n    const int k = get_global_id(0);",
                *lines,
                f"    {called}_{self.block}({', '.join(shown)});",
                *stores,
                "}",
            ]
        )

    def compared(self, queue, kernel):
        with np.errstate(all="ignore"):
            twin = self.m.twin(self.block, outputs_of(self.m))(*self.given)
        expected = np.array([np.broadcast_to(x, COUNT) for x in twin], float).reshape(-1, COUNT)
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        kinds = [_DTYPES.get(a.role, self.number) for a in self.into]
        buffers = [
            cl.Buffer(queue.context, flags, hostbuf=np.ascontiguousarray(x, kind))
            for kind, x in zip(kinds, self.given, strict=True)
        ]
        result = np.empty_like(expected, self.number)
        target = cl.Buffer(queue.context, cl.mem_flags.WRITE_ONLY, max(result.nbytes, 8))
        kernel(queue, (COUNT // self.width,), None, *buffers, target)
        if result.size:
            cl.enqueue_copy(queue, result, target).wait()
        finite = np.where(np.isfinite(expected), np.abs(expected), 0)
        size = np.maximum(finite.max(axis=1, initial=0), 1.0)[:, None]
        assert all(name_of(a) for a in self.arguments)
        infinite = np.isinf(expected)
        assert np.array_equal(infinite, np.isinf(result))
        return np.where(infinite, 0, expected), np.where(infinite, 0, result), size

"""Time what it takes to share arrays of other libraries with OpenCL, or to copy them.

    python -m bench share [--device SPEC] [--numbers 10000 1000000 10000000] [--out FOLDER]

An array of float64 that comes through DLPack, as one of PyTorch or JAX on a CPU does (here NumPy's
own ``__dlpack__``), is taken as a NumPy array (``dlpack``) and as an OpenCL buffer in its memory
(``buffer``: made, mapped and released). The copies are those of pyopencl: ``to`` and ``from`` the
device, and both, as an array of CUDA takes at least (``both``). That nothing is copied is checked
by where the memory lies, and on CPUs by what the device writes. All take turns; times are the least
of the rounds' wall time in microseconds, medians are in the JSON file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from tqdm import tqdm

from bench import record, table
from bench.measures.calls import in_turns

NAMES = ("dlpack", "buffer", "to", "from", "both")
PAGE = 4096  # bytes: an alignment at which all runtimes use memory of the host in place


class Foreign:
    """An array of another library: all that is known of it is DLPack."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __dlpack__(self, **given: Any) -> Any:
        """Return its capsule."""
        return self._values.__dlpack__(**given)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return where it is."""
        return self._values.__dlpack_device__()


def aligned(count: int) -> np.ndarray:
    """(count,) float64 at the start of a page, all different."""
    room = np.empty(count * 8 + PAGE, np.uint8)
    begin = -room.ctypes.data % PAGE
    values = room[begin : begin + count * 8].view(np.float64)
    values[:] = np.arange(count)
    return values


def in_place(queue: cl.CommandQueue, values: np.ndarray) -> cl.Buffer:
    """Return a buffer in the memory of an array."""
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    return cl.Buffer(queue.context, flags, hostbuf=values)


def mapped(queue: cl.CommandQueue, buffer: cl.Buffer, count: int) -> np.ndarray:
    """Return a buffer's values where the host sees them."""
    flags = cl.map_flags.READ | cl.map_flags.WRITE
    found, _ = cl.enqueue_map_buffer(queue, buffer, flags, 0, (count,), np.float64)
    return found


def is_shared(queue: cl.CommandQueue, count: int) -> bool:
    """Whether what the device writes into such a buffer is in the array, without a copy back."""
    values = aligned(count)
    buffer = in_place(queue, values)
    cl.enqueue_fill_buffer(queue, buffer, np.float64(7.0), 0, values.nbytes).wait()
    return bool((values == 7.0).all())


def measure(queue: cl.CommandQueue, count: int) -> dict[str, Any]:
    """Return the row of an array of `count` numbers."""
    values = aligned(count)
    foreign, there, out = Foreign(values), cla.to_device(queue, values), np.empty_like(values)
    if not np.shares_memory(np.from_dlpack(foreign), values):
        sys.exit("DLPack: the array was copied, so not timed")

    def buffer() -> None:
        made = in_place(queue, np.from_dlpack(foreign))
        mapped(queue, made, count).base.release(queue)
        queue.finish()
        made.release()

    def to() -> None:
        there.set(values)
        queue.finish()

    def back() -> None:
        there.get(ary=out)

    def both() -> None:
        to()
        back()

    def dlpack() -> None:
        np.from_dlpack(foreign)

    taken = in_turns(dict(zip(NAMES, (dlpack, buffer, to, back, both), strict=True)))
    if not np.array_equal(out, values):
        sys.exit("a copy is wrong, so not timed")
    return {
        "numbers": count,
        "shared": is_shared(queue, count),
        "seconds": {name: min(some) for name, some in taken.items()},
        "median_seconds": {name: float(np.median(some)) for name, some in taken.items()},
    }


def text(result: dict[str, Any]) -> str:
    """Return the rows as text: microseconds, and GB/s of the copy both ways."""
    head = f"{'numbers':>10}" + "".join(f" {name:>9}" for name in NAMES) + "   GB/s  in place"
    lines = []
    for r in result["rows"]:
        line = f"{r['numbers']:>10}"
        line += "".join(" " + table.narrow(r["seconds"][n] * 1e6, 9, 1) for n in NAMES)
        rate = 16 * r["numbers"] / r["seconds"]["both"] * 1e-9
        lines.append(f"{line} {rate:>6.2f}  {'yes' if r['shared'] else 'no'}")
    return table.ruled(head, lines)


def main(arguments: Sequence[str]) -> None:
    """Run the cases and write ``share-<device>.json`` and ``.txt``."""
    parser = record.parser("share", __doc__)
    parser.add_argument("--numbers", type=int, nargs="+", default=[10_000, 1_000_000, 10_000_000])
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, ["float64"], False)
    rows = [measure(queue, count) for count in tqdm(args.numbers, disable=None)]
    result = {"record": record.record(queue, "share", arguments), "rows": rows}
    record.write("share", queue, result, text(result), args.out)

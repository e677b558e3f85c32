"""Faults planted in kernels, and Oclgrind's report for each."""

from unittest import mock

import numpy as np
import pyopencl.array as cla
from oclgrind_cases import (
    CONFIGS,
    OWN_LEVELS,
    deliver_spikes,
    equal_forest,
    mixed_forest,
    open_queue,
    solver_of,
)
from systems import make_system

from clhines.solver.device import program

# The change to a kernel's source, and the expected report.
BACKWARD = "        barrier(CLK_GLOBAL_MEM_FENCE);\n    } while (level > 0);"
FORWARD = "        barrier(CLK_GLOBAL_MEM_FENCE);\n    } while (++level < levels);"
CLEAR = "] = 0;\n    barrier(CLK_GLOBAL_MEM_FENCE);"
FAULTS = {
    "no barrier in the backward sweep": (
        "fine", BACKWARD, BACKWARD.replace("barrier(CLK_GLOBAL_MEM_FENCE);", ""), "race"),
    "no barrier in the forward sweep": (
        "fine", FORWARD, FORWARD.replace("barrier(CLK_GLOBAL_MEM_FENCE);", ""), "race"),
    "no barrier after the status is cleared": ("fine", CLEAR, "] = 0;", "race"),
    "factor is not stored": ("fine", "FACTOR(place) = f;", "", "uninitialised"),
    "x is read before it is written": ("fine", "SOLUTION(place, r) = g;", "", "uninitialised"),
    "one row too far": ("fine", "SOLUTION(place, r) = g;", "x[place + num_values] = g;", "write"),
    "coupling of another array": ("fine", "= u[place]", "= u[place + num_values]", "read"),
    "a barrier that some pass by": ("fine", "    // backward sweep",
        "    if (lane) return;\n    // backward sweep", "divergence"),
    "local: solution is not kept": ("fine, shaped", "SOLUTION(place, r) = g;", "", "uninitialised"),
    "local: no barrier between levels": (
        "fine, shaped", "barrier(CLK_LOCAL_MEM_FENCE);", "", "race"),
    "local: one value too far": ("fine, shaped", "x[place + (long)r * num_values] = above;",
        "x[place + num_values] = above;", "write"),
    "vectors: blocks overlap": ("fine, vectors", "x += start;", "", "race"),
    "vectors: blocks overlap in natural order": ("fine, vectors", "gather += start;", "", "race"),
    "vectors: a branch leaves nothing": (
        "fine, vectors", "*(__local value *)own = sum_d;", "", "uninitialised"),
    "vectors: factor is not kept": (
        "fine, vectors", "kept[(uint)place / W * 2] = f;", "", "uninitialised"),
    "vectors: one row too far": ("fine, vectors", "put(x, place", "put(x, num_values", "write"),
    "block_local: cells overlap": ("block_local", "(i) * 3", "(i) * 2", "race"),
    "block_local: x is not kept": ("block_local", "KEPT(at) = g;", "", "uninitialised"),
    "fine: a barrier that some pass by": ("fine", "    // backward sweep",
        "    if (lane) return;\n    // backward sweep", "divergence"),
    "flat: factor is not stored": ("flat", "store(factor, place, f);", "", "uninitialised"),
    "levels: factor is not stored": ("levels", "factor[place] = f;", "", "uninitialised"),
    "levels: branches overlap": ("levels", "level_offset[level] + k;", "k / 2;", "race"),
    "levels: one row too far": (
        "levels, padded", "x[place + shift] = g;", "x[place + num_values] = g;", "write"),
    "flat: cells overlap": ("flat", "start = cell_start[cell]", "start = 0", "race"),
}  # fmt: skip
LEVEL = "    barrier(CLK_GLOBAL_MEM_FENCE);\n    {   // level "
FAULTS |= {  # level 0 has a barrier before it in the backward sweep alone
    "own levels: no barrier before the roots": (OWN_LEVELS, f"{LEVEL}0", "    {", "race"),
    "own levels: no barrier before level 1": (OWN_LEVELS, f"{LEVEL}1", "    {", "race"),
    "own levels: one that a block lacks": (OWN_LEVELS, "levels > ", "1 || levels > ", "read"),
}
FAULTS["spikes: sums that are not atomic"] = (
    "spikes",
    "atom_add(incoming + (place < size ? place : place - size), weight[i])",
    "incoming[place < size ? place : place - size] += weight[i]",
    "race",
)
FAULTS["spikes: one connection too many"] = (
    "spikes",
    "first[from + 1]",
    "first[from + 1] + 1",
    "read",
)
FAULTS |= {
    "cr: no barrier in the substitution": (
        "cr",
        "        barrier(CLK_LOCAL_MEM_FENCE);\n    } while (s > 1);",
        "    } while (s > 1);",
        "race",
    ),
    "cr_pcr: steps of PCR in place": ("cr_pcr", "to = OTHER", "to = 0", "race"),
    "pcr: one node too far": ("pcr", "x[j] = solution", "x[num_values] = solution", "write"),
    "cr: one coupling too many": ("cr", "j + 1 < n ? u[j + 1]", "j < n ? u[j + 1000]", "read"),
}
# Without any barrier every kernel that has some must race.
for _config in CONFIGS:
    FAULTS[f"{_config}: no barriers at all"] = (_config, "barrier(", "(void)(", "race")


def fault_case(config, old, new):
    """Solve with a changed kernel in a context of its own; ignore the result."""
    queue, real_render, there = open_queue(), program.render, []

    def changed(spec):
        source = real_render(spec)
        if spec.template != "solver/around/permute":
            there.append(old in source)
        return source.replace(old, new)

    with mock.patch.object(program, "render", changed):
        if config == "spikes":
            deliver_spikes(queue, "vpo", None, (1, 3))
            assert any(there), f"{old!r} is not in the source"
            return
        forest = mixed_forest(CONFIGS[config][0])
        system = make_system(forest, np.float32)
        system.d[:17] = -1  # all of the first cell, so that several work-items report a pivot
        solver = solver_of(queue, config, forest, np.float32)
        solver.solve(**system.arrays, check=False)
        if solver.engine.loaded.takes_natural:  # the other kernel
            arrays = system.d, system.u, system.b
            packed = [solver.to_device_order(v) for v in arrays]
            solver.enqueue(*packed, out=cla.empty_like(packed[2]))
        assert any(there), f"{old!r} is not in the source"  # in any kernel
        queue.finish()


def planted_faults():
    has_barriers = {}
    for config, (method, _) in CONFIGS.items():
        source = solver_of(open_queue(), config, equal_forest(method), np.float32).source
        has_barriers[config] = "barrier(" in source
    return {
        name: fault
        for name, fault in FAULTS.items()
        if not name.endswith("no barriers at all") or has_barriers[fault[0]]
    }

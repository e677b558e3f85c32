"""Bandwidth and occupancy of a solve, as far as OpenCL tells."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import pyopencl as cl

import clhines
from bench.table import ruled, wrapped
from clhines.solver.engines.loaded import Launch

VERBOSE = "-cl-nv-verbose"  # makes NVIDIA's compiler tell a kernel's registers
PLAIN = 4  # arrays that every method moves: d, u, b read, x written
MEANING = (
    "GB/s: of the values that the kernels read and write at least, over the time: d, u, b and x, "
    "and where factors lie in memory, these and x (without block-shared) written and read once more"
)
OCCUPANCY = (
    "occupancy: warps of the longest launch that a multiprocessor holds over its places for them, "
    "by registers (as the compiler says), local memory, work-group and number of work-items; it is "
    "not measured, and - where OpenCL does not tell"
)
# Of a multiprocessor, by compute capability, as CUDA's documentation gives them; OpenCL tells
# none of them.
WARPS = {(7, 5): 32, (8, 6): 48, (8, 7): 48, (8, 9): 48, (12, 0): 48, (12, 1): 48}  # else 64
SHARED = {(7, 0): 96, (7, 5): 64, (8, 0): 164, (8, 6): 100, (8, 9): 100, (9, 0): 228}  # KiB
REGISTERS, GROUPS, WARP = 1 << 16, 32, 32
STEP = 256  # registers that a warp gets at once
OWN = 1024  # local memory that the system takes from each group, bytes


def arrays(plan: clhines.Plan) -> int | None:
    """Return how many times n values a solve reads and writes at least; None if not known."""
    spec, templates = plan.parts[0].spec, {part.spec.template for part in plan.parts}
    if plan.scratch or len(templates) > 1:
        return None
    if not plan.needs_factor:
        return PLAIN
    if templates == {"solver/by_cell/cell"}:  # writes and reads factors, and x if it lies in memory
        return PLAIN + (2 if spec.rhs_local else 4)
    return PLAIN + 4 if templates == {"solver/by_branch/levels"} else None


def facts(solver: clhines.Solver) -> dict[str, Any]:
    moved = arrays(solver.plan)
    row: dict[str, Any] = {} if moved is None else {"arrays": moved}
    resident = getattr(solver.engine, "loaded", None)
    if resident is None or not nvidia(solver.queue.device):
        return row
    launches = [(x, groups) for x in resident.launches for _, groups in x.part.launches]
    each = [e.profile.end - e.profile.start for e in solver.kernel_events]
    launch, groups = launches[int(np.argmax(each))]
    return row | _filled(solver.queue.device, launch, groups)


def nvidia(device: cl.Device) -> bool:
    return "cl_nv_device_attribute_query" in device.extensions


def ask_for_registers(device: cl.Device) -> None:
    """Have the compiler report registers for all later builds, if it can."""
    if nvidia(device):
        options = os.environ.get("PYOPENCL_BUILD_OPTIONS", "")
        os.environ["PYOPENCL_BUILD_OPTIONS"] = f"{options} {VERBOSE}".strip()


def _filled(device: cl.Device, launch: Launch, groups: int) -> dict[str, Any]:
    """Return a launch's registers, if reported, and the occupancy that they allow."""
    kernel, group = launch.kernel(True, 1), launch.part.spec.work_group
    registers = registers_of(kernel, device)
    capability = device.compute_capability_major_nv, device.compute_capability_minor_nv
    local = kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device)
    row: dict[str, Any] = {"local_bytes": int(local), "work_group": group}
    if registers is None or capability not in SHARED:
        return row
    share = occupancy(
        group,
        registers,
        int(local),
        groups / device.max_compute_units,
        WARPS.get(capability, 64),
        SHARED[capability] << 10,
    )
    return row | {"registers": registers, "occupancy": 100 * share}


def occupancy(
    group: int, registers: int, local: int, groups: float, warps: int = 64, shared: int = 228 << 10
) -> float:
    """Return the share of a multiprocessor's places for warps that are in use.

    Parameters
    ----------
    group : int
        Work-items per work-group.
    registers : int
        Registers per work-item.
    local : int
        Bytes of local memory per group.
    groups : float
        Groups of the launch per multiprocessor.
    warps : int
        Places for warps.
    shared : int
        Bytes of local memory per multiprocessor.
    """
    wide = -(-group // WARP)
    of_warp = -(-registers * WARP // STEP) * STEP
    most = [warps // wide, GROUPS, REGISTERS // of_warp // wide, shared // (local + OWN)]
    return min(min(most), groups) * wide / warps


def registers_of(kernel: cl.Kernel, device: cl.Device) -> int | None:
    """Return the registers that the build log tells, if it does; see `VERBOSE`."""
    log = kernel.program.get_build_info(device, cl.program_build_info.LOG)
    return registers_in(log, kernel.function_name)


def registers_in(log: str, name: str) -> int | None:
    after = re.split(rf"entry function '{re.escape(name)}'", log)
    match = re.search(r"Used (\d+) registers", after[1]) if len(after) > 1 else None
    return int(match[1]) if match else None


def gb_per_s(row: dict[str, Any]) -> float | None:
    if "arrays" not in row:
        return None
    moved = row["arrays"] * row["num_nodes"] * np.dtype(row["dtype"]).itemsize
    return float(moved / row["seconds"] / 1e9)


def text(rows: list[dict[str, Any]]) -> str:
    most: dict[str, int] = {}
    for r in rows:
        most[r["panel"]] = max(most.get(r["panel"], 0), r["cells"])
    some = [
        r for r in rows if {"arrays", "work_group"} & r.keys() and r["cells"] == most[r["panel"]]
    ]
    if not some:
        return ""
    has_groups = any("work_group" in r for r in some)
    head = f"{'panel':<26} {'cells':>7} {'solver':<28} {'GB/s':>6}"
    head += f" {'group':>5} {'registers':>9} {'occupancy':>9}" if has_groups else ""
    lines = []
    for r in some:
        rate = gb_per_s(r)
        said = "-" if rate is None else f"{rate:.0f}"
        line = f"{r['panel']:<26} {r['cells']:>7} {r['name']:<28} {said:>6}"
        share = f"{r['occupancy']:.0f} %" if "occupancy" in r else "-"
        more = f" {r.get('work_group', '-'):>5} {r.get('registers', '-'):>9} {share:>9}"
        lines.append(line + more if has_groups else line)
    table = ruled(head, lines, [(r["panel"], r["cells"]) for r in some])
    return "\n".join([table, "", *wrapped([MEANING, OCCUPANCY] if has_groups else [MEANING])])

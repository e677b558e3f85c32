"""`clhines doctor`, `clhines devices` and `clhines engines`: look at an installation."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import clhines
from clhines.cli.report import doing, folded
from clhines.core.errors import ClhinesError, DeviceError, install
from clhines.simulator.choose import described
from clhines.solver.device import caches as kept
from clhines.solver.device import devices, pocl, trust

_SECONDS = 30  # time to wait for MPI's programs
_OTHER_NAMES = {"neuron": ("neuron-nightly",)}  # distributions with the same package
_ANOTHER = "install another version of its driver or runtime, or name another device"
_KINDS = (
    ("MPICH", "mpich", "hydra"),
    ("Open MPI", "open mpi", "openrte", "open-mpi"),
    ("Intel MPI", "intel(r) mpi"),
)


@dataclass(frozen=True)
class Finding:
    """The result of a check in one line, and advice, empty if there is nothing to do."""

    good: bool
    what: str
    advice: str = ""
    there: bool = True  # False: an optional package is not installed


def run_doctor(_: argparse.Namespace) -> int:
    faults = 0
    for check, what in (
        (versions, "reading versions"),
        (opencl, "looking for OpenCL devices"),
        (answers, "asking each device for known answers"),
        (solves, "solving on each device"),
        (mpi, "looking for MPI"),
        (extras, "looking for optional packages"),
    ):
        with doing(what):
            for finding in check():  # print each one as soon as it is there
                faults += not finding.good
                good = "ok" if finding.there else "--"
                _print(good if finding.good else "FAULT", finding.what)
                if finding.advice:
                    _print("" if finding.good else "do", finding.advice)
    print("no fault found" if not faults else f"{faults} fault{'s' if faults > 1 else ''} found")
    return 1 if faults else 0


def _print(label: str, text: str) -> None:
    print(folded(f"{label:<6} {' '.join(text.split())}", 7), flush=True)  # also into a pipe


def versions() -> list[Finding]:
    names = ("numpy", "pyopencl", "mako", "pocl-binary-distribution")
    packages = [f"{name} {v}" for name in names if (v := _version(name))]
    text = (
        f"clhines {clhines.__version__}, Python {platform.python_version()}, {', '.join(packages)}"
    )
    return [Finding(True, f"{text}, {platform.system()} {platform.machine()}")]


def _version(name: str) -> str | None:
    for distribution in (name, *_OTHER_NAMES.get(name, ())):
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(distribution)
    return None


def opencl() -> list[Finding]:
    checks: tuple[Callable[[], list[Finding]], ...]
    checks = (platforms, caches, processors, precisions, choice)
    return [finding for check in checks for finding in check()]


def platforms() -> list[Finding]:
    vendors = os.environ.get("OCL_ICD_VENDORS")
    if vendors and not Path(vendors).exists():
        what = f"OCL_ICD_VENDORS={vendors} does not exist, so that no runtime is found"
        advice = "unset OCL_ICD_VENDORS, or let it name a folder with .icd files"
        return [Finding(False, what, advice)]
    try:
        indexed = devices.all_devices()
    except DeviceError as error:
        what, _, advice = str(error).partition("; ")
        return [Finding(False, what, advice)]
    names = Counter(
        platform.name.strip() for platform in dict.fromkeys(d.platform for _, d in indexed)
    )
    advice = (
        "uninstall one (PoCL: the package of the system, or pip's pocl-binary-distribution), "
        "or set OCL_ICD_VENDORS to the .icd file of the other"
    )
    twice = "platforms are called {}: two installations of the same runtime conflict"
    return [Finding(True, f"platform {name}") for name in names] + [
        Finding(False, f"{count} {twice.format(name)}", advice)
        for name, count in names.items()
        if count > 1
    ]


def precisions() -> list[Finding]:
    real = [d for _, d in _real_devices()]
    if not real:
        what = "there is no device but a simulator, which is slow"
        return [Finding(False, what, devices.INSTALL_HINT)] if _all() else []
    able = [d for d in real if devices.has_fp64(d)]
    if able:
        return [Finding(True, f"float64 on {len(able)} of {len(real)} devices")]
    what = f"no device has float64 ({', '.join(d.name.strip() for d in real)})"
    advice = f"use dtype='float32' (--dtype float32), or PoCL for the CPU: {install('pocl')}"
    return [Finding(False, what, advice)]


def processors() -> list[Finding]:
    results = []
    for _, device in _all():
        if "Portable Computing" not in device.platform.name:
            continue
        if not re.search(r"-generic$", device.version.strip()):
            continue
        name = pocl.name_processor(device)
        what = f"PoCL ({device.driver_version}) does not know this processor"
        if name is not None:
            results.append(Finding(True, f"{what}; clhines lets it build for {name}"))
        else:
            switch = f"unset {pocl.SWITCH}, or " if pocl.switched_off() else ""
            results.append(Finding(False, what, switch + "install a newer PoCL, with a newer LLVM"))
    return results


def caches() -> list[Finding]:
    platform_names = [d.platform.name for _, d in _all()]
    pocls = not platform_names or any("Portable Computing" in name for name in platform_names)
    problems = [kept.pocl_problem() if pocls else "", kept.pyopencl_problem()]
    parted = [text.rpartition(": ") for text in problems if text]
    return [Finding(False, what, advice) for what, _, advice in parted]


def choice() -> list[Finding]:
    if not _all():
        return []  # which `platforms` reports
    try:
        device = devices.choose(dtype="float32")
    except DeviceError as error:
        what, _, advice = str(error).partition("; ")
        named = next((n for n in ("CLHINES_DEVICE", "PYOPENCL_CTX") if os.environ.get(n)), None)
        return [Finding(False, what, f"change or unset {named}; {advice}" if named else advice)]
    return [Finding(True, f"used when no other is named: {devices.label(device)}")]


def _all() -> list[tuple[str, Any]]:
    try:
        return devices.all_devices()
    except DeviceError:  # `platforms` reports it
        return []


def answers() -> Iterator[Finding]:
    """Run and store all self-tests of each device, except simulators; yield each result."""
    if trust.switched_off():
        yield Finding(True, f"known answers are left out: {trust.SWITCH} is set")
        return
    for index, device in _real_devices():
        for family in trust.families(device):
            yield _answered(index, device, family)


def _real_devices() -> list[tuple[str, Any]]:
    return [(k, d) for k, d in _all() if not devices.is_simulator(d)]


def _answered(index: str, device: Any, family: str) -> Finding:
    dtype = "float64" if devices.has_fp64(device) else "float32"
    outcome, case = trust.examine(device, family, dtype), f"{trust.title(family)}, {dtype}"
    if outcome is None:
        return Finding(True, f"device {index} could not be asked for known answers ({case})")
    took = f"{outcome.seconds:.1f} s with compiling"
    if outcome.widest and not outcome.said:
        return Finding(True, f"device {index} gives known answers ({case}; {took})")
    advice = f"{_ANOTHER} (--device, CLHINES_DEVICE)"
    if outcome.widest:
        advice = (
            f"nothing: vectors have {outcome.widest} bytes there, which is right; another version "
            "of its driver or runtime may be faster"
        )
    said = "; ".join(outcome.said)
    fails = f"device {index} fails in known answers ({case}; {took}): {said}"
    return Finding(False, fails, advice)


def solves() -> Iterator[Finding]:
    for index, device in _real_devices():
        kind = np.float64 if devices.has_fp64(device) else np.float32
        dtype = np.dtype(kind)
        try:
            error = _difference(index, dtype)
        except ClhinesError as problem:
            said = f"device {index} does not solve: {' '.join(str(problem).split())[:200]}"
            advice = f"{_ANOTHER} (--device, CLHINES_DEVICE); -v shows how far it gets"
            yield Finding(False, said, advice)
            continue
        limit = 64 * float(np.finfo(kind).eps)
        what = f"device {index} solves in {dtype.name}, differs by {error:.1e} from the reference"
        advice = "" if error <= limit else "do not use this driver or runtime: report this output"
        yield Finding(error <= limit, what, advice)


def _difference(index: str, dtype: np.dtype) -> float:
    """Solve a system of condition 3 or less on device `index`; return the relative error."""
    parent = np.array([-1, *(k // 2 for k in range(39))])
    forest = clhines.Forest.from_parents([parent, np.arange(-1, 30)])
    n = forest.num_nodes
    children = np.bincount(forest.parent[forest.parent >= 0], minlength=n)
    d, u, b = 3.0 + children, np.full(n, -1.0), np.cos(np.arange(n))
    expected = clhines.solver.reference.solve_serial(forest, d, u, b)
    x = clhines.Solver(forest, dtype=dtype, device=index).solve(d, u, b)
    return float(np.abs(x - expected).max() / np.abs(expected).max())


def mpi() -> list[Finding]:
    if _version("mpi4py") is None:
        what = f"MPI is not installed; several processes need {install('mpi')}"
        return [Finding(True, what, there=False)]
    program = "from mpi4py import MPI; print(MPI.Get_library_version())"
    library = _output([sys.executable, "-c", program])
    reinstall = "pip install --force-reinstall mpi4py mpich"
    if library is None:
        return [Finding(False, "mpi4py cannot be imported, or finds no MPI library", reinstall)]
    launcher = shutil.which("mpiexec") or shutil.which("mpiexec", path=_beside_python())
    if launcher is None:
        what = f"mpi4py has {_kind(library)}, but there is no mpiexec in PATH"
        advice = "install an MPI, or add the folder of its mpiexec to PATH (pip's mpich has it in "
        return [Finding(False, what, f"{advice}{_beside_python()})")]
    started = _output([launcher, "--version"]) or ""
    if _kind(started) != _kind(library):
        what = f"mpiexec ({launcher}) is of {_kind(started)}, but mpi4py has {_kind(library)}"
        advice = f"use the mpiexec of {_kind(library)}: change PATH, or build mpi4py for the other"
        return [Finding(False, f"{what}: each process would run alone", advice)]
    return [Finding(True, f"mpi4py and mpiexec are of {_kind(library)}")]


def _beside_python() -> str:
    return os.path.dirname(sys.executable)


def _kind(text: str) -> str:
    lower = text.lower()
    for name, *words in _KINDS[::-1]:
        if any(word in lower for word in words):
            return name
    return re.sub(r"\s+", " ", text).strip()[:40] or "an unknown MPI"


def _output(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout + done.stderr


def extras() -> list[Finding]:
    names = {"matplotlib": f"pictures need {install('plot')}", "neuron": "NEURON is not installed"}
    return [
        Finding(True, f"{name} {v}" if (v := _version(name)) else why, there=v is not None)
        for name, why in names.items()
    ]


def run_devices(_: argparse.Namespace) -> int:
    try:
        default, note = devices.choose(), "* is used by default"
    except ClhinesError as error:
        default, note = None, f"no device would be used: {error}"
    rows = [("", "index", "type", "fp64", "units", "memory", "local", "name")]
    for index, device in devices.all_devices():
        kind = "CPU" if devices.is_cpu(device) else "GPU"
        row = (
            "*" if device == default else "",
            index,
            "simulator" if devices.is_simulator(device) else kind,
            "yes" if devices.has_fp64(device) else "no",
            str(device.max_compute_units),
            f"{device.global_mem_size / 2**30:.1f} GiB",
            f"{device.local_mem_size // 1024} KiB",
            devices.label(device),
        )
        rows.append(row)
    widths = [max(len(r[k]) for r in rows) for k in range(len(rows[0]))]
    for row in rows:
        line = "  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip()
        print(folded(line, sum(widths[:-1]) + 2 * len(widths) - 2))
    print(note)
    for finding in processors():
        print(folded(finding.what, 0))
    return 0


def run_engines(_: argparse.Namespace) -> int:
    for name, on, about, lacks, limits in described():
        text = f"{name:<10}  {on:<4}  {about}" + f"; {limits}" * bool(limits)
        text += f"; not supported: {lacks}" * bool(lacks)
        print(folded(text, 18))
    return 0

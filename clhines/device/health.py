"""What can be wrong with the OpenCL of a machine, and what to do about it."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyopencl as cl

from clhines.device import caches as kept
from clhines.device import devices, pocl
from clhines.errors import DeviceError, install


@dataclass(frozen=True)
class Finding:
    """Result of a check in one line, and advice, empty where there is nothing to do."""

    good: bool
    what: str
    advice: str = ""


def platforms() -> list[Finding]:
    vendors = os.environ.get("OCL_ICD_VENDORS")
    if vendors and not Path(vendors).exists():
        what = f"OCL_ICD_VENDORS={vendors} does not exist, so that no runtime is found"
        advice = "unset OCL_ICD_VENDORS, or let it name a folder with .icd files"
        return [Finding(False, what, advice)]
    try:
        found = devices.all_devices()
    except DeviceError as error:
        what, _, advice = str(error).partition("; ")
        return [Finding(False, what, advice)]
    names = Counter(
        platform.name.strip() for platform in dict.fromkeys(d.platform for _, d in found)
    )
    advice = (
        "uninstall one (PoCL: the package of the system, or pip's pocl-binary-distribution), "
        "or set OCL_ICD_VENDORS to the .icd file of the other"
    )
    twice = "platforms are called {}: two installations of one runtime disturb each other"
    return [Finding(True, f"platform {name}") for name in names] + [
        Finding(False, f"{count} {twice.format(name)}", advice)
        for name, count in names.items()
        if count > 1
    ]


def precisions() -> list[Finding]:
    real = [d for _, d in _all() if not devices.is_simulator(d)]
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
    found = [d.platform.name for _, d in _all()]
    pocls = not found or any("Portable Computing" in name for name in found)
    problems = [kept.pocl_problem() if pocls else "", kept.pyopencl_problem()]
    parted = [text.rpartition(": ") for text in problems if text]
    return [Finding(False, what, advice) for what, _, advice in parted]


def choice() -> list[Finding]:
    try:
        device = devices.choose(dtype="float32")
    except DeviceError as error:
        what, _, advice = str(error).partition("; ")
        named = next((n for n in ("CLHINES_DEVICE", "PYOPENCL_CTX") if os.environ.get(n)), None)
        return [Finding(False, what, f"change or unset {named}; {advice}" if named else advice)]
    return [Finding(True, f"used when no other is named: {devices.label(device)}")]


def _all() -> list[tuple[str, cl.Device]]:
    try:
        return devices.all_devices()
    except DeviceError:  # which `platforms` reports
        return []

"""`clhines devices`."""

from __future__ import annotations

import argparse
import textwrap

from clhines.device import devices, health
from clhines.errors import ClhinesError
from clhines.simulate.engines.choose import described


def run_devices(_: argparse.Namespace) -> int:
    try:
        default, note = devices.choose(), "* is what is used when --device names no other"
    except ClhinesError as error:
        default, note = None, f"no device would be used: {error}"
    rows = [("", "index", "type", "fp64", "units", "memory", "local", "name")]
    for index, found in devices.all_devices():
        kind = "CPU" if devices.is_cpu(found) else "GPU"
        row = (
            "*" if found == default else "",
            index,
            "simulator" if devices.is_simulator(found) else kind,
            "yes" if devices.has_fp64(found) else "no",
            str(found.max_compute_units),
            f"{found.global_mem_size / 2**30:.1f} GiB",
            f"{found.local_mem_size // 1024} KiB",
            devices.label(found),
        )
        rows.append(row)
    widths = [max(len(r[k]) for r in rows) for k in range(len(rows[0]))]
    for row in rows:
        line = "  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip()
        print(line if len(line) <= 100 else line[:97] + "...")
    print(note)
    for finding in health.processors():
        print(finding.what[:100])
    print("\nengines, of which auto takes the first that takes the network:")
    for name, on, about, lacks, limits in described():
        text = f"{name:<16}  {on:<4}  {about}" + f"; {limits}" * bool(limits)
        text += f"; not {lacks}" * bool(lacks)
        print(textwrap.fill(text, 100, subsequent_indent=" " * 24))
    return 0

"""`clhines plan`."""

from __future__ import annotations

import argparse

import clhines
from clhines.cli.cells import read_cells
from clhines.cli.report import check_writable, named_option, print_report
from clhines.plan import plan


def run_plan(arguments: argparse.Namespace) -> int:
    """Show how a batch would be solved."""
    from clhines import draw
    from clhines.plan import examples

    if arguments.layouts:
        print(examples.page())
        return 0
    if arguments.plot is not None:
        check_writable(arguments.plot, "--plot", draw.FORMATS)
        draw.check_matplotlib()
    cables = read_cells(arguments)
    parents = [c.parent for c in cables]
    forest = clhines.Forest.repeated(parents, arguments.cells or len(cables))
    dtype = "float32" if arguments.dtype == "mixed" else arguments.dtype  # of the factors
    limits, name = plan.Limits(), "a GPU of middle size (--device names a real one)"
    if arguments.device is not None:
        from clhines.device import devices

        found = devices.choose(arguments.device, dtype)
        limits, name = devices.limits(found), devices.label(found)
    made = clhines.make_plan(forest, arguments.method, dtype, limits)
    if arguments.plot is not None:
        with named_option("--plot"):
            made.plot(arguments.plot)
    text = f"device            {name}"[:100] + f"\n{made.describe()}"
    print_report(text, arguments.plot)
    return 0

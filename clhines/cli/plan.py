"""`clhines plan`."""

from __future__ import annotations

import argparse

import clhines
from clhines.cli.arguments import Commands, add_cells, add_command, read_cells
from clhines.cli.report import check_picture, doing, folded, named_option
from clhines.solver.plan import plan as planning

PLAN = """\
Show how a batch of cells would be solved: method, layout and padding.
Nothing is solved, and no device is needed; --device plans for one."""
PLANS = """\
  clhines plan *.swc --cells 10000
  clhines plan *.swc --method fine --plot plan.png"""


def add_plan(commands: Commands) -> None:
    plan = add_command(commands, "plan", "show how a batch would be solved", PLAN, PLANS)
    add_cells(plan)
    pictures = plan.add_mutually_exclusive_group()
    # an option in two lines or three
    # fmt: off
    pictures.add_argument("--plot", metavar="FILE",
                          help="draw the first block, of methods with one work-item per cell or "
                          "branch (fine and others): .png, .svg or .pdf")
    pictures.add_argument("--layouts", action="store_true",
                          help="only show worked examples of the layouts")
    # fmt: on
    plan.set_defaults(run=run_plan)


def run_plan(arguments: argparse.Namespace) -> int:
    from clhines.solver.plan import examples

    if arguments.layouts:
        print(examples.page())
        return 0
    check_picture(arguments.plot)
    cables = read_cells(arguments, arguments.files)
    parents = [c.parent for c in cables]
    forest = clhines.Forest.repeat(parents, arguments.cells or len(cables))
    limits = planning.Limits()
    name = "none: limits of an average GPU (see --device)"
    if arguments.device is not None:
        from clhines.solver.device import devices

        device = devices.choose(arguments.device, arguments.dtype)
        limits, name = devices.limits(device), devices.label(device)
    with doing("planning"):
        made = clhines.make_plan(forest, arguments.method, arguments.dtype, limits)
    if arguments.plot is not None:
        with named_option("--plot"), doing("drawing"):
            made.plot(arguments.plot)
    print(folded(f"device            {name}", 18) + f"\n{made.describe()}")
    return 0

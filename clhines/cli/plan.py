"""`clhines plan` and `clhines methods`: show how batches are solved."""

from __future__ import annotations

import argparse
from typing import Any

import clhines
from clhines.cli.arguments import Commands, add_cells, add_command, read_cells
from clhines.cli.report import doing, folded
from clhines.core.errors import InputError, meant, shown
from clhines.solver.plan import plan as planning
from clhines.solver.plan.methods import CHOICES, OPTION_TEXTS
from clhines.solver.plan.plan import Option

PLAN = """\
Show how a batch of cells would be solved: method, layout and padding.
Nothing is solved, and no device is needed; --device plans for one."""
PLANS = """\
  clhines plan *.swc --cells 10000
  clhines plan *.swc --method fine --option split=mean"""
METHODS = """\
List the methods of solvers, with their options, values and defaults.
`auto` chooses one by a model of their cost."""
LISTS = """\
  clhines methods
  clhines plan *.swc --method fine --option split=mean    use one of them"""


def add_plan(commands: Commands) -> None:
    plan = add_command(commands, "plan", "show how a batch would be solved", PLAN, PLANS)
    add_cells(plan)
    # fmt: off
    plan.add_argument("--option", action="append", default=[], metavar="NAME=VALUE",
                      help="an option of the method, see `clhines methods`; several times")
    # fmt: on
    plan.set_defaults(run=run_plan)


def add_methods(commands: Commands) -> None:
    summary = "list the methods of solvers and their options"
    add_command(commands, "methods", summary, METHODS, LISTS).set_defaults(run=run_methods)


def run_methods(arguments: argparse.Namespace) -> int:
    for name, method in clhines.METHODS.items():
        print(f"{name}: {method.summary}")
        print(folded(f"  from {method.source}", 2))
        for option, default in method.options.items():
            usual = "" if default is None else f" (default: {default})"
            text = f"{OPTION_TEXTS[option]}: {option_values(option)}{usual}"
            print(folded(f"  {option:<14}{text}", 16))
    return 0


def option_values(name: str) -> str:
    choices = CHOICES.get(name)
    return "1 or more" if choices is None else ", ".join(str(choice) for choice in choices)


def option_of(text: str) -> tuple[str, Option]:
    name, equals, value = text.partition("=")
    if not equals or name not in OPTION_TEXTS:
        raise InputError(
            f"option {shown(text)} is not valid; expected NAME=VALUE, with a name of "
            f"{', '.join(OPTION_TEXTS)}{meant(name, OPTION_TEXTS)}"
        )
    for choice in CHOICES.get(name, ()):
        if str(choice).lower() == value.lower():
            return name, choice
    return name, int(value) if value.isascii() and value.isdigit() else value


def run_plan(arguments: argparse.Namespace) -> int:
    cables = read_cells(arguments)
    parents = [c.parent for c in cables]
    forest = clhines.Forest.repeat(parents, arguments.cells or len(cables))
    limits = planning.Limits()
    name = "none: limits of an average GPU (see --device)"
    if arguments.device is not None:
        from clhines.solver.device import devices

        device = devices.choose(arguments.device, arguments.dtype)
        limits, name = devices.limits(device), devices.label(device)
    options: dict[str, Any] = dict(map(option_of, arguments.option))
    with doing("planning"):
        made = clhines.make_plan(forest, arguments.method, arguments.dtype, limits, **options)
    print(folded(f"device            {name}", 18) + f"\n{made.describe()}")
    return 0

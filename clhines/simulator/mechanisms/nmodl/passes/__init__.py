"""Passes over the `FileBlocks` of a file, in the order of `PASSES`: each returns blocks.

Before variables are sorted: `check_pointers`, `drop_columns` of tables, `begin_globals` with their
defaults, `drop_loops`. Then `sort_variables` into states, outputs and parameters. After that:
`mark_outside` for elements outside of an array, `make_tables`, `find_turns` in which instances set
a variable, `guard_draws` of NEURON's one generator, `note_sets` of events.
"""

from clhines.simulator.mechanisms.nmodl.passes.begin_globals import begin_globals
from clhines.simulator.mechanisms.nmodl.passes.check_pointers import check_pointers
from clhines.simulator.mechanisms.nmodl.passes.drop_columns import drop_columns
from clhines.simulator.mechanisms.nmodl.passes.drop_loops import drop_loops
from clhines.simulator.mechanisms.nmodl.passes.find_turns import find_turns
from clhines.simulator.mechanisms.nmodl.passes.guard_draws import guard_draws
from clhines.simulator.mechanisms.nmodl.passes.make_tables import make_tables
from clhines.simulator.mechanisms.nmodl.passes.mark_outside import mark_outside
from clhines.simulator.mechanisms.nmodl.passes.note_sets import note_sets
from clhines.simulator.mechanisms.nmodl.passes.sort_variables import sort_variables

PASSES = (
    check_pointers,
    drop_columns,
    begin_globals,
    drop_loops,
    sort_variables,
    mark_outside,
    make_tables,
    find_turns,
    guard_draws,
    note_sets,
)

__all__ = ["PASSES"]

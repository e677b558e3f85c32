"""Passes: functions from `FileBlocks` to `FileBlocks`, in the order of `PASSES`.

`check_pointers` refuses some POINTERs, `drop_columns` drops columns of tables and `drop_loops`
loops that nothing needs, `begin_globals` gives GLOBALs their defaults. Then `sort_variables` finds
states, outputs and parameters. Then `make_tables` describes tables, `find_turns` finds variables
that instances set in turn, `guard_draws` checks draws from NEURON's one generator, `note_sets` adds
outputs to events that set v.
"""

from clhines.simulator.mechanisms.nmodl.passes.begin_globals import begin_globals
from clhines.simulator.mechanisms.nmodl.passes.check_pointers import check_pointers
from clhines.simulator.mechanisms.nmodl.passes.drop_columns import drop_columns
from clhines.simulator.mechanisms.nmodl.passes.drop_loops import drop_loops
from clhines.simulator.mechanisms.nmodl.passes.find_turns import find_turns
from clhines.simulator.mechanisms.nmodl.passes.guard_draws import guard_draws
from clhines.simulator.mechanisms.nmodl.passes.make_tables import make_tables
from clhines.simulator.mechanisms.nmodl.passes.note_sets import note_sets
from clhines.simulator.mechanisms.nmodl.passes.sort_variables import sort_variables

PASSES = (
    check_pointers,
    drop_columns,
    begin_globals,
    drop_loops,
    sort_variables,
    make_tables,
    find_turns,
    guard_draws,
    note_sets,
)

__all__ = ["PASSES"]

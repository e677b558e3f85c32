"""Passes: functions from expressions to expressions in the same graph, in order of use.

- when a mechanism is read: `remove_singularities`, of ``x / (exp(x) - 1)`` and its like
- for gradients: `pull_back`
- for functions for lanes of a GPU: `relax` removes quotients, `few_terms` shortens series,
  `name_places` names the interpolation indices of look-up tables
- for all functions: `hoist` moves constants out, then `SIMPLIFY`: `share_bernoullis`,
  `share_exponentials`, `share_arguments` (common factors and terms), `split_long`
"""

from functools import partial

from clhines.simulator.mechanisms.ir.passes.share_arguments import share_arguments
from clhines.simulator.mechanisms.ir.passes.share_bernoullis import share_bernoullis
from clhines.simulator.mechanisms.ir.passes.share_exponentials import share_exponentials
from clhines.simulator.mechanisms.ir.passes.split_long import split_long

SIMPLIFY = (
    share_bernoullis,
    share_exponentials,
    partial(share_arguments, op="mul"),
    partial(share_arguments, op="add"),
    split_long,
)

__all__ = ["SIMPLIFY"]

"""Passes: functions from expressions to expressions of the same graph, in the order of their use.

When a mechanism is read: `remove_singularities` writes ``x / (exp(x) - 1)`` without 0/0.

When a function is printed for lanes of a GPU, see `emit.lanes`: `relax` writes steps of states
without a quotient, `few_terms` shortens the series of exponentials, `name_places` gives places in
tables names.

For gradients: `pull_back` gives derivatives.

When any function is printed: `hoist` moves constants out of it. Then `SIMPLIFY`:
`share_bernoullis`, `share_exponentials`, factors and terms in common (`share_arguments`), and
`split_long`.
"""

from clhines.simulator.mechanisms.ir.passes.share_arguments import share_factors, share_terms
from clhines.simulator.mechanisms.ir.passes.share_bernoullis import share_bernoullis
from clhines.simulator.mechanisms.ir.passes.share_exponentials import share_exponentials
from clhines.simulator.mechanisms.ir.passes.split_long import split_long

SIMPLIFY = (share_bernoullis, share_exponentials, share_factors, share_terms, split_long)

__all__ = ["SIMPLIFY"]

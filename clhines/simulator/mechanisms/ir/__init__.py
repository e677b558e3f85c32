"""Intermediate representation of mechanisms: expressions, and programs of both languages.

- `expressions` has a `Graph` of immutable nodes, each distinct expression once; `exact` has numbers
  as fractions of bounded size; `forms` writes expressions as linear forms or sums of multiples.
- `passes` rewrite expressions, one module each. `singular` finds quotients that are still 0/0,
  `blocks` chooses local variables, `elimination` solves linear systems of expressions.
- `program` describes a mechanism and its functions' arguments to engines. `compiled` adds each
  block's `Body`: results, variables that it writes, loops. `adjoints` makes blocks that compute
  derivatives backwards.
"""

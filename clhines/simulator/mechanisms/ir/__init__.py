"""Expressions and programs: all that leaves the front ends, as `compiled.Compiled`.

`expressions`: a `Graph` of immutable nodes, each distinct expression once; derivatives and
substitutions are kept by node. `exact`: numbers as fractions of bounded size. `forms` sees
expressions as linear forms or sums of multiples; `passes` rewrite them, one module each; `singular`
finds quotients that are still 0/0; `blocks` chooses local variables. `elimination` solves systems
of equations of expressions, for the methods of both languages. `program` describes a mechanism and
the arguments of its functions to engines; `compiled` adds the `Body` of each block: results,
variables that it writes, loops. `adjoints` makes the block that pulls derivatives back through one.
"""

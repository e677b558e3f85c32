"""From the text of a .mod file to its tree.

`lexer` makes tokens and follows INCLUDE; `statements` reads expressions and statements, `parse` the
declarations, and numbers of UNITS blocks; `keywords` are no names, `checks` refuses what NEURON's
translator refuses. `tree`: the parts of a file, and what is refused of it;
`names`: its variables; `verbatim`: C without an effect, or with one that NMODL can
express; `c`: what NMODL says of the C in VERBATIM, of which `macros` leaves what
NEURON's preprocessor does.
"""

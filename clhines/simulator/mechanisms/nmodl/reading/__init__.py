"""From the text of a .mod file to its tree.

- `lexer` makes tokens and follows INCLUDE. `statements` reads expressions and statements, `parse`
  declarations and numbers of UNITS blocks. `keywords` cannot be names.
- `checks` has the refusals of NEURON's translator; `changes` applies an importer's changes.
- `tree`: the parts of a file, and refusals; `names`: its variables.
- `c` translates the C of VERBATIM into NMODL, after the preprocessor, `macros`. `verbatim`: blocks
  without an effect, or known ones.
"""

"""Parse a .mod file.

- `lexer` makes tokens and follows INCLUDE. `cursor` has the place in the tokens; `statements` reads
  statements and expressions there, `parse` blocks, declarations and UNITS. `keywords` has the words
  that names must not be.
- `checks` refuses files that NEURON's translator refuses; `changes` applies an importer's changes.
- `tree` has the nodes of the tree, and refusals; `names` the names of a file's variables.
- `c` translates the C of VERBATIM into NMODL, after the preprocessor, `macros`. `verbatim` knows
  blocks without an effect, and the blocks of NEURON's apcount.mod.
"""

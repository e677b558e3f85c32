"""Parse a .mod file.

- `lexer` makes tokens and follows INCLUDE. `cursor` is a place in them; `statements` reads
  statements and expressions there, `parse` blocks, declarations and UNITS. `keywords` are no names.
- `checks` refuses files that NEURON's translator refuses; `changes` applies an importer's changes.
- `tree`: the nodes of the tree, and refusals; `names`: variables of a file.
- `c` translates the C of VERBATIM into NMODL, after the preprocessor, `macros`. `verbatim` knows
  blocks without an effect, and two of NEURON's own.
"""

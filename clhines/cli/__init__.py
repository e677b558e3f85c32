"""The command line: one module per command; arguments in, tables out.

Words: a *command* is a word after ``clhines``; its module has the function that runs it and the
function that adds its options to the parser.

Who owns what
    `main`: the parser, exit codes (0 success, 1 failed check, 2 bad input) and one line per error.
    `arguments`: options that several commands share, and cells from files. `report`: long lines
    and progress. `doctor` (and `devices`, `engines`), `plan`, `solve`, `simulate`: the
    commands.

>>> from clhines.cli.main import main
>>> main(["plan", "missing.swc"])
2

The last line on stderr says why. To add a command: a module with ``run_NAME(arguments)``, and a
parser in `main`. The module prints by `report` and raises `clhines.ClhinesError` for bad input.
"""

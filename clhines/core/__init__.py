"""Errors, arrays, checks, files and progress. NumPy only.

Words: a *check* is a function that returns a valid argument or raises `InputError`; a *quantity* is
a number with a unit, which `quantities` converts to the unit that a parameter has.

Who owns what
    `errors`: all exceptions and warnings, and how a message shows a value. `arrays`: operations on
    flat arrays. `quantities`: numbers with units. `checks`: checks of arguments. `files`: reading
    and writing without a half-written file. `progress`: bars, and lines for phases. `summary`:
    words for summaries. `trees`: parents of nodes from parents of branches, and seeds.

>>> from clhines.core.errors import meant
>>> meant("colums", ["columns", "rows"])
"; did you mean 'columns'?"
"""

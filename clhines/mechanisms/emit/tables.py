"""Functions that read look-up tables, in each language."""

from __future__ import annotations

from clhines.mechanisms.emit.printer import vector, wrapped

_HELPERS = {
    "place": (
        "place in a table, 0 to n; NaN stays",
        "const {type} xi, const int n",
        "    return xi <= 0 ? 0 : (xi >= n ? (real)n : xi);",
        "xi, n",
        "    return np.where(xi <= 0, 0.0, np.where(xi >= n, float(n), xi))",
    ),
    "lookup": (
        "a column of a table between two rows",
        "const {type} place, __global const real *table, const int column, const int columns,"
        "\n    const int n",
        "    const int row = max(0, min((int)place, n - 1));\n"
        "    const real low = table[row * columns + column];\n"
        "    return low + (place - row) * (table[(row + 1) * columns + column] - low);",
        "place, table, column, columns, n",
        "    row = np.clip(np.nan_to_num(place), 0, n - 1).astype(int)\n"
        "    low = table[row, column]\n"
        "    return low + (place - row) * (table[row + 1, column] - low)",
    ),
}
_OF_VECTORS = {
    "place": "    return xi <= 0 ? ({type})0 : (xi >= (real)n ? ({type})n : xi);",
    "lookup": """\
    const {int} row = max(min(convert_{int}(place), ({int})(n - 1)), ({int})0);
    const {int} at = row * columns + column;
    const {type} low = ({type})({low});
    const {type} high = ({type})({high});
    return low + (place - convert_{plain}(row)) * (high - low);""",
}


def table_helpers(text: str, prefix: str, real: str, width: int = 1) -> str:
    """Return the functions for tables that `text` calls."""
    result, sort = "", vector(width)
    rows = [f"table[at.s{k:x}]" for k in range(width)]
    next_rows = [f"table[at.s{k:x} + columns]" for k in range(width)]
    low, high = (wrapped(some, len(sort) + 26) for some in (rows, next_rows))
    given = {"type": sort, "int": f"int{width}", "plain": f"{real}{width}", "low": low}
    for name, (comment, typed, c, plain, python) in _HELPERS.items():
        if f"{prefix}_{name}_(" not in text:
            continue
        if real == "numpy":
            result += f"def {prefix}_{name}_({plain}):\n{python}\n\n\n"
            continue
        if width > 1:
            c = _OF_VECTORS[name].format(**given, high=high)
        head = f"static {sort} {prefix}_{name}_({typed.format(**given)})"
        result += f"// {comment}\n{head}\n{{\n{c}\n}}\n\n"
    return result

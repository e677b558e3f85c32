"""`Names`: names in generated source for an NMODL file's variables, and their defaults."""

from __future__ import annotations

from clhines.simulator.mechanisms.nmodl.reading.tree import Declaration, File, refuse

# variables whose values a model sets; NEURON's values before a script changes them
BUILT_IN = {"celsius": 6.3, "diam": 500.0, "area": 100.0}


class Names:
    """The names that a file's variables have in the file, in generated source, and for users.

    `printed` maps a name in the file to the name in source. `public` and `elements` map a name in
    source, also of an array's element, to the name for users and to the name in the file.
    """

    def __init__(self, file: File) -> None:
        self.file = file
        self.printed: dict[str, str] = {}
        self.public: dict[str, str] = {}
        self.elements: dict[str, str] = {}
        used: set[str] = set()
        for name, unit in zip(BUILT_IN, ("degC", "um", "um2"), strict=True):
            # NEURON has these, whether the file declares them or not
            file.variables.setdefault(name, Declaration(name, "assigned", 0, unit=unit))
        for name in file.variables:
            printed = plain(name)
            while printed in used:
                printed += "u"
            used.add(printed)
            self.printed[name] = printed

    def variable(self, name: str) -> Declaration | None:
        return self.file.variables.get(name)

    def element(self, name: str, index: int | None, line: int = 0) -> str:
        """Return the name that a variable, or an array's element, has in generated source."""
        variable = self.file.variables[name]
        if variable.length:
            if index is None:
                index = 0  # as C has it
            if not 0 <= index < variable.length:
                raise refuse(
                    "mod.index-outside", line, name=name, index=index, length=variable.length
                )
            key, public = f"{self.printed[name]}__{index}", f"{name}[{index}]"
        elif index is None or index == 0:
            key, public = self.printed[name], name
        else:
            raise refuse("mod.no-array", line, name=name)
        self.public[key], self.elements[key] = public, name
        return key

    def all_elements(self, name: str) -> list[str]:
        length = self.file.variables[name].length
        return [self.element(name, k if length else None) for k in range(length or 1)]

    def default(self, key: str) -> float:
        """Return a variable's value before INITIAL; `key` is its name in generated source."""
        name = self.elements[key]
        if name in BUILT_IN:
            return BUILT_IN[name]
        variable = self.file.variables[name]
        value = variable.value if variable.sort in ("parameter", "state") else None
        return float(value or 0)

    def is_global(self, key: str) -> bool:
        name = self.elements[key]
        variable = self.file.variables[name]
        if name in BUILT_IN:
            return name == "celsius"
        if name in self.file.range:
            return False
        return name in self.file.globals or variable.sort in ("local", "parameter")

    def start_name(self, name: str) -> str:
        """Return the parameter NAME0, the start value of STATE `name`; "" if there is none."""
        other = self.file.variables.get(name + "0")
        return name + "0" if other is not None and other.sort == "parameter" else ""


def plain(name: str) -> str:
    """Return a generated name in a form that a text may use: no ``__``, no leading ``_``."""
    short = name.rstrip("_") if name.startswith("_") else name
    while "__" in short:
        short = short.replace("__", "_u_")
    return "u" + short if short.startswith("_") or not short else short

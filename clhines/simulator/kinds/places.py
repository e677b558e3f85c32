"""Expressions for an instance's values in the arenas, arrays on the device."""

from __future__ import annotations

from dataclasses import dataclass

from clhines.simulator.mechanisms.ir.program import Argument


@dataclass(frozen=True)
class ArenaPlaces:
    number: int  # the kind's
    singles: tuple[str, ...]
    several: tuple[str, ...]
    states: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[str, ...]

    def in_line(self, line: int, lines: int) -> str:
        return f"{line} * count_{self.number} + j"

    def _of(self, role: str, name: str, names: tuple[str, ...]) -> str:
        return f"mem[{role}s_{self.number} + {self.in_line(names.index(name), len(names))}]"

    def state(self, name: str) -> str:
        return self._of("state", name, self.states)

    def output(self, name: str) -> str:
        return self._of("output", name, self.outputs)

    def parameter(self, name: str) -> str:
        if name in self.singles:
            return f"mem[parameters_{self.number} + {self.singles.index(name)}]"
        line = self.in_line(self.several.index(name), len(self.several))
        return f"mem[parameters_{self.number} + {len(self.singles)} + {line}]"

    def turn(self, name: str, turn: str) -> str:
        """Return the expression for the value that a GLOBAL variable has in the step `turn`."""
        return f"mem[turns_{self.number}_{name} + {turn}]"

    def diffusing(self, line: int, lines: int) -> str:
        return f"mem[diffusing_{self.number} + {self.in_line(line, lines)}]"

    def weight(self, a: Argument) -> str:
        """Return the expression for the weight `a`: the event's connection's or another one's.

        The other connection is one that FOR_NETCONS visits, or whose weight a POINTER sets.
        """
        if a.role in ("steered", "steer"):
            return f"mem[weight + ints[steered_{self.number}_{a.name} + j]]"
        begin = "other_at" if a.role == "other_weight" else "weight_at"
        return f"mem[{begin} + {self.weights.index(a.name)}]"

    def pointer(self, name: str) -> str:
        """Return the OpenCL expression for the index of a POINTER's target in its array."""
        return f"ints[pointer_{self.number}_{name} + j]"

    def stream(self, name: str) -> str:
        words = ", ".join(f"ints[stream_{self.number}_{name} + 4*j + {w}]" for w in range(4))
        return f"as_uint4((int4)({words}))"

    def drawn(self, name: str) -> tuple[str, str]:
        """Return expressions for the low and the high half of a stream's count of numbers drawn."""
        first = f"ints[drawn_{self.number}_{name} + 2*j"
        return f"{first}]", f"{first} + 1]"

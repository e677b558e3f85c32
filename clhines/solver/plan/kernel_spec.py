"""The contract between Python and a kernel: its parameters and its bit fields.

A spec declares the parameters of its kernels as short texts. `signature` prints them in the
template, and launchers set arguments by the same names. A `Word` declares several numbers that
share 32 bits: Python packs them, and the template prints expressions that read them.

>>> lane = Word(length=5, parent=10)
>>> lane.pack(length=3, parent=7)
array(227, dtype=int32)
>>> lane.read("parent", "me")
'me >> 5 & 0x3ff'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

_BITS = 31  # in a word that is not negative
_WIDTH = 100  # columns in generated source
_INDENT = " " * 4


class Word:
    """Several numbers in one 32-bit int; `widths` has the bits of each, from the lowest bits up."""

    def __init__(self, **widths: int) -> None:
        self._widths = widths
        if sum(widths.values()) > _BITS:
            raise ValueError(f"{widths}: {sum(widths.values())} bits; expected at most {_BITS}")

    def most(self, name: str) -> int:
        return (1 << self._widths[name]) - 1

    @property
    def shifts(self) -> dict[str, int]:
        ends = np.cumsum(list(self._widths.values())).tolist()
        return dict(zip(self._widths, [0, *ends[:-1]], strict=True))

    def pack(self, **values: ArrayLike) -> np.ndarray:
        """Return int32 words of the numbers; raise `OverflowError` if one needs more bits."""
        if set(values) != set(self._widths):
            raise TypeError(f"got {sorted(values)}; expected {sorted(self._widths)}")
        word = np.zeros((), np.int64)
        for name, numbers in values.items():
            value = np.asarray(numbers, np.int64)
            least = -self.most(name) - 1 if self._has_highest_bits(name) else 0
            if value.size and not least <= value.min() <= value.max() <= self.most(name):
                raise OverflowError(
                    f"{name} is {value.min()} to {value.max()}; expected {least} to "
                    f"{self.most(name)}, which {self._widths[name]} bits hold"
                )
            word = word | value << self.shifts[name]
        return word.astype(np.int32)

    def unpack(self, name: str, word: np.ndarray) -> np.ndarray:
        value = word >> self.shifts[name]
        return value if self._has_highest_bits(name) else value & self.most(name)

    def read(self, name: str, word: str, mask: str = "") -> str:
        """Return an OpenCL expression that extracts the bit field `name` from the int `word`.

        `mask`, if there is one, is the expression for the field's mask.
        """
        shift, most = self.shifts[name], self.most(name)
        if most == 1:
            return f"{word} & {1 << shift}"
        text = f"{word} >> {shift}" if shift else word
        if self._has_highest_bits(name):
            return text
        return f"{text} & {mask or (hex(most) if most > 99 else most)}"

    def write(self, **values: str) -> str:
        """Return an OpenCL expression for a word of these numbers; the other numbers are 0."""
        shifts = self.shifts
        return " | ".join(f"{v} << {shifts[k]}" if shifts[k] else v for k, v in values.items())

    def __str__(self) -> str:
        return self.write(**{name: name.replace("_", " ") for name in self._widths})

    def _has_highest_bits(self, name: str) -> bool:
        return self.shifts[name] + self._widths[name] == _BITS


# Status of a cell: 0, or a word whose `key` is 1 + the number of a node in the elimination order.
# With `bad` this node has the first bad pivot; with `clean` no other bad pivot has caused it.
# Without `bad` the elimination added more than `GROWTH` times the diagonal to this node's diagonal:
# digits may be lost. Of two words the larger one is kept: bad pivots before lost digits.
STATUS = Word(key=29, bad=1, clean=1)
GROWTH = 32
NOT_FINITE = -(1 << _BITS)  # sign bit: a value of x is not finite, in this cell or one beside it


@dataclass(frozen=True)
class Parameter:
    name: str
    type: str  # in OpenCL C without address space: ``int``, ``const real *restrict``
    role: str = ""  # for a table, see `KernelSpec`

    def __str__(self) -> str:
        kind, qualifier = self.type, ""
        if "*" not in kind:
            return f"const {kind} {self.name}"
        if kind.startswith("volatile "):
            qualifier, kind = "volatile ", kind.removeprefix("volatile ")
        return f"{qualifier}__global {kind}{'' if kind.endswith('*') else ' '}{self.name}"


def parameter(text: str, usual: str = "") -> Parameter:
    """Parse ``TYPE NAME`` or ``NAME:ROLE``; a parameter without a type has the type `usual`."""
    declared, _, role = text.strip().partition(":")
    match = re.fullmatch(r"(.*?)(\w+)", declared)
    if not match or not (match[1] or usual):
        raise ValueError(f"parameter {text!r}; expected a type and a name")
    return Parameter(match[2], match[1].strip() or usual, role)


class TemplateSpec:
    """Base class for the specs of templates.

    `kernels` has the parameters of each kernel of the template, in order: ``TYPE NAME``, or ``TYPE
    NAME if CONDITION and not CONDITION ...``. Conditions are attributes of the spec; types are as
    in `Parameter`.
    """

    template: ClassVar[str] = ""
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {}

    def parameters(self, kernel: str) -> list[Parameter]:
        return self._active_parameters(self.kernels[kernel])

    def _active_parameters(self, texts: tuple[str, ...], usual: str = "") -> list[Parameter]:
        """Return the parameters whose conditions hold; `usual` is the type if a text has none."""
        parameters = []
        for text in (one.strip() for several in texts for one in several.split(",")):
            declared, _, conditions = text.partition(" if ")
            terms = [c.partition("not ")[::2] for c in conditions.split(" and ") if c]
            if all(not getattr(self, b) if b else getattr(self, a) for a, b in terms):
                parameters.append(parameter(declared, usual))
        return parameters


@dataclass(frozen=True, kw_only=True)
class KernelSpec(TemplateSpec):
    """The contract of a kernel ``solve``, which planner, template and launcher share.

    A spec has the numbers and switches that reach its template, and is the key of the build. The
    kernel's parameters are `first_argument`, an int that each launch passes; ``num_values``, the
    length of an array; ``first_row``, the first right-hand side; then its tables and arrays.

    A table is a text such as ``"branch_parent:place if branched"``: a type if it is not ``const int
    *restrict``, the name, a role, and conditions as in `TemplateSpec`. The role says how
    `Part.moved` shifts the entries when plans are combined:

    - ``place``: they are indices in device order;  ``place/8``: entries 0, 8, 16, ... are
    - ``in_order``: there is one for each value in device order
    - ``cell``: they are cells
    - no role: they stay as they are

    `takes` are the arrays, ``TYPE NAME``. A spec of a kernel that needs several launches has a
    field `phase`, see `Part.phase`.
    """

    first_argument: ClassVar[str] = "num_blocks"
    tables: ClassVar[tuple[str, ...]] = ()
    takes: ClassVar[tuple[str, ...]] = (
        "const real *d",
        "const real *restrict u",
        "const real *restrict l if unsymmetric",
        "const real *b",
        "real *factor",
        "real *x",
        "int *status",
    )
    needs_factor: ClassVar[bool] = True  # the kernel needs scratch for factors, in device order
    factor_may_be_d: ClassVar[bool] = True  # factors may overwrite `d`, which is not read again
    keeps_factors: ClassVar[bool] = False  # inverse pivots can be computed once and used later
    takes_natural: ClassVar[bool] = False  # the kernel can read and write natural order
    finds_infinite: ClassVar[bool] = False  # in natural order the status may have `NOT_FINITE`
    not_finite: ClassVar[int] = NOT_FINITE
    status: ClassVar[Word] = STATUS
    growth: ClassVar[int] = GROWTH
    phase = "solve"
    real: str  # ``double`` or ``float``
    symmetric: bool = True  # ``l`` equals ``u`` and is not passed
    rhs: int = 1  # right-hand sides solved together
    work_group: int  # work-items per work-group

    @property
    def variant(self) -> str:
        return ""

    @property
    def unsymmetric(self) -> bool:
        return not self.symmetric

    def parameters(self, kernel: str = "solve") -> list[Parameter]:
        numbers = [Parameter(n, "int") for n in (self.first_argument, "num_values", "first_row")]
        return [*numbers, *self._tables(), *self._active_parameters(self.takes)]

    def roles(self) -> dict[str, str]:
        """Return, by table, the role that says how `Part.moved` shifts its entries; "" for none."""
        return {table.name: table.role for table in self._tables()}

    def arrays(self) -> list[str]:
        return [array.name for array in self._active_parameters(self.takes)]

    def _tables(self) -> list[Parameter]:
        return self._active_parameters(self.tables, "const int *restrict")


def signature(spec: TemplateSpec, kernel: str = "solve") -> str:
    """Return the parameter list of a kernel in OpenCL C, without parentheses, in several lines."""
    lines = [""]
    parameters = [str(p) for p in spec.parameters(kernel)]
    for k, text in enumerate(parameters):
        text += "," if k + 1 < len(parameters) else ""
        if k and len(f"{lines[-1]} {text}") <= _WIDTH - 1:  # 1 for the closing parenthesis
            lines[-1] += f" {text}"
        else:
            lines.append(_INDENT + text)
    return "\n".join(lines)

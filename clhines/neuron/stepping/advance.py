"""A model's own `advance()`, `step()` and `Plot()`, which ``continuerun()`` calls in each step.

`advance()` is supported if its code equals that of ``fadvance()`` alone, or of BMTK's `advance()`.
Calls of Graph methods are left out in a run. A model with any other code is stepped by NEURON.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from math import prod

from clhines.core.errors import InputError
from clhines.neuron.convert import Rejected, reject
from clhines.neuron.frameworks import bmtk
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import words_at
from clhines.neuron.memory.session import Hoc
from clhines.neuron.memory.symbols import HocSymbols, is_standard
from clhines.neuron.model import NeuronModel, StepCode
from clhines.neuron.read.hooks import STEPPING

_EXAMPLES = "{ fadvance() }", "{ fadvance() return }"
_GRAPHS = {"Graph", "PlotShape", "Shape"}
_DRAWING = {"plot", "flush", "fastflush", "begin", "line", "beginline", "mark", "label", "color",
            "brush", "erase", "view_count", "size"}  # fmt: skip
_PURE = "doNotify", "doEvents", "Plot"  # Plot is checked separately
_SETS = 2  # bit in a component's last word
_OBJECT, _COMPONENT, _CALL = "hoc_objectvar", "hoc_object_component", "hoc_call"
_WORDS = {  # call instructions, with numbers and texts: word count after each
    _CALL: 2, _OBJECT: 1, _COMPONENT: 6, "hoc_object_eval": 0, "hoc_cmp_otype": 1, "hoc_nopop": 0,
    "hoc_procret": 0, "hoc_varpush": 1, "hoc_eval": 0, "hoc_constpush": 1, "hoc_pushzero": 0,
    "hoc_push_string": 1, "hoc_chk_sym_has_ndim1": 1, "sec_access_push": 1, "rangevareval": 1,
    "rangepoint": 1, "hoc_add": 0, "hoc_sub": 0, "hoc_mul": 0, "hoc_div": 0, "hoc_negate": 0,
}  # fmt: skip


def read_step_code(model: NeuronModel) -> tuple[StepCode | None, bool, list[Rejected]]:
    """Return BMTK's code for each step or None, whether hoc code draws Graphs, and rejections."""
    h, memory = model.h, model.memory
    names = STEPPING if h.name_declared("continuerun") else ("advance",)
    replaced = [name for name in names if not is_standard(h, memory.symbols, name)]
    code, draws = None, False
    is_bmtk = "advance" in replaced and bmtk.is_loaded(h)
    if is_bmtk and _is_as("advance", bmtk.ADVANCE, h, memory.symbols):
        replaced.remove("advance")
        try:
            code = bmtk.step_code(model)
        except InputError as error:
            return None, False, [reject("", "neuron.bmtk-advance", error=error)]
    for name in replaced:
        if name == "advance" and any(_is_as(name, text, h, memory.symbols) for text in _EXAMPLES):
            continue
        several = name == "step" and getattr(h, "nstep_steprun", 1) != 1
        if several or not _only_draws(h, memory, name):
            step = {"advance": "fadvance() and ", "step": "advance() and ", "Plot": ""}[name]
            words = {"name": name, "expected": f"{step}methods of Graphs"}
            return None, False, [reject("", "neuron.custom-step", **words)]
        draws = True
    return code, draws, []


def step_code_of(model: NeuronModel) -> Callable[[], list[object]]:
    """Return a function whose result changes if the model's own step functions change."""
    h, memory = model.h, model.memory

    def read() -> list[object]:
        at = [memory.symbols.procedure(name) for name in STEPPING if h.name_declared(name) == 1]
        code, draws, rejected = read_step_code(model)
        return [at, [words_at(*one) for one in at], code and code.reads, draws, rejected]

    return read


def _is_as(name: str, text: str, h: Hoc, symbols: HocSymbols) -> bool:
    """Whether the hoc procedure `name` has the same code as a procedure with the body `text`."""
    example = f"clhines_example_of_{name}"
    with symbols.example(example, f"proc {example}() {text}"):
        return symbols.is_same(name, example)


def _only_draws(h: Hoc, memory: NeuronMemory, name: str) -> bool:
    """Whether a hoc procedure only calls Graph methods and takes exactly one step.

    The procedure ``Plot()`` must take no step instead. A step is a call of ``fadvance()`` or
    ``advance()``.
    """
    taking, steps = {"fadvance", "advance"} - {name}, int(name != "Plot")
    operations = {
        ctypes.cast(memory.symbol(f"_Z{len(n)}{n}v"), ctypes.c_void_p).value: n for n in _WORDS
    }
    words = words_at(*memory.symbols.procedure(name))
    at = 0
    while at < len(words):
        instruction = operations.get(words[at], "")
        if not instruction:
            return False  # e.g. a zero, which ends a conditional part
        more = words[at + 1 : at + 1 + _WORDS[instruction]]
        at += 1 + len(more)
        if instruction == _CALL:
            called = _name_of(more[0])
            steps -= called in taking
            if called not in taking and called not in _PURE:
                return False
        elif instruction == _OBJECT:
            objects = _objects_in(memory, more[0])
            classes = {_name_of(words_at(words_at(one, 3)[2], 1)[0]) for one in objects}
            if not classes or not classes <= _GRAPHS:
                return False
        elif instruction == _COMPONENT:
            if more[5] & _SETS or _name_of(more[0]) not in _DRAWING:
                return False
    return not steps


def _name_of(symbol: int) -> str:
    return ctypes.string_at(words_at(symbol, 1)[0]).decode("utf-8", "replace")


def _objects_in(memory: NeuronMemory, symbol: int) -> Iterator[int]:
    """Yield the addresses of the objects in the objref, or objref array, of a top-level symbol."""
    words = words_at(symbol, 5)
    if memory.symbols.symbol_in(_name_of(symbol)) != symbol:
        return  # a class member
    space, array = memory.variable("hoc_top_level_data"), words[4]
    first = words_at(space + 8 * (words[2] & 0xFFFFFFFF), 1)[0]
    half = ctypes.c_uint32.from_address
    sizes = [half(array + 16 + 4 * k).value for k in range(half(array + 8).value)] if array else []
    yield from (one for one in words_at(first, prod(sizes)) if one)

"""Find symbols of NEURON's library, and hoc's functions, procedures and templates."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from clhines.neuron.memory.raw import WORD, word_behind, words_at
from clhines.neuron.memory.session import Hoc, library_path

# hoc's Symbol: the word that holds its procedure or value, and its size in words
_PROC, _SYMBOL_WORDS = 2, 7


class Library:
    """NEURON's library, by ctypes; raises an OSError if a symbol is missing."""

    def __init__(self, h: Hoc) -> None:
        path = library_path()
        if path is None:
            raise OSError("no library")
        self.h, self._library = h, ctypes.CDLL(path)
        self._functions: dict[str, Any] = {}

    def symbol(self, name: str) -> Any:
        try:
            return getattr(self._library, name)
        except AttributeError as error:
            raise OSError(str(error)) from None

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        """Return a C function of the library; `result` and `arguments` are its ctypes."""
        if name not in self._functions:
            function = self._functions[name] = self.symbol(name)
            function.argtypes, function.restype = arguments, result
        return self._functions[name]

    def address(self, name: str) -> int:
        try:
            return ctypes.addressof(ctypes.c_char.in_dll(self._library, name))
        except ValueError as error:
            raise OSError(str(error)) from None

    def variable(self, name: str) -> int:
        return WORD.from_address(self.address(name)).value

    def table_of_class(self, name: str) -> int:
        """Return the address of a C++ class's virtual table, the first word of its objects."""
        return self.address(f"_ZTV{len(name)}{name}") + 16

    @contextmanager
    def printed(self) -> Iterator[list[str]]:
        """Context manager: collect the pieces of text that NEURON would print, in a list."""
        lines = list[str]()

        def take(_: int, text: bytes) -> int:
            lines.append(text.decode("utf-8", "replace"))
            return 0

        function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p)(take)
        variable = WORD.from_address(self.address("nrnpy_pr_stdoe_callback"))
        kept, variable.value = variable.value, ctypes.cast(function, ctypes.c_void_p).value or 0
        try:
            yield lines
        finally:
            variable.value = kept


class HocSymbols(Library):
    """Find hoc's symbols; OSError if one is missing."""

    def template(self, name: str) -> int:
        return words_at(self.known_symbol(name), 3)[_PROC]

    def method(self, template: str, name: str) -> ctypes.c_uint64:
        """Return the word in which hoc finds the address of a class's method."""
        self.built_in("fadvance")
        symbol = self.symbol_in(name, words_at(self.template(template), 2)[1])
        return WORD.from_address(words_at(symbol, 3)[_PROC])

    def built_in(self, name: str) -> ctypes.c_uint64:
        """Return hoc's word with the address of a built-in function, and check the address."""
        word = self.function_of_hoc(name)
        if word.value != ctypes.cast(self.symbol(f"_Z{len(name)}{name}v"), ctypes.c_void_p).value:
            raise OSError("hoc's functions are not as expected")
        return word

    def function_of_hoc(self, name: str) -> ctypes.c_uint64:
        """Return hoc's word with the address of a function, which is not checked."""
        return WORD.from_address(words_at(self.known_symbol(name), 3)[_PROC])

    def is_same(self, name: str, example: str) -> bool:
        """Whether two hoc procedures have equal code; 0s in code of `example` match any word."""
        kinds = [words_at(self.symbol_in(n), 2)[1] & 0xFFFF for n in (name, example)]
        codes = self._code(name), self._code(example)
        same = kinds[0] == kinds[1] and len(codes[0]) == len(codes[1])
        return same and all(b in (0, a) for a, b in zip(*codes, strict=True))

    def procedure(self, name: str) -> list[int]:
        return words_at(words_at(self.symbol_in(name), 4)[_PROC], 2)

    def _code(self, name: str) -> list[object]:
        """Return a hoc procedure's code; procedures with equal texts have equal codes."""
        proc = words_at(self.symbol_in(name), 4)[_PROC]
        begin, size = words_at(proc, 2)
        meaning = dict[int, object]()
        names = words_at(proc, 3)[2]
        at = WORD.from_address(names).value if names else 0
        while at:  # private symbols: numbers, strings and LOCAL variables
            _, kind, value, *_, following = words_at(at, _SYMBOL_WORDS)
            meaning[at] = kind & 0xFFFF, word_behind(value)
            at = following
        return [meaning.get(word, word) for word in words_at(begin, size)]

    @contextmanager
    def example(self, name: str, text: str) -> Iterator[None]:
        """Define a top-level hoc procedure by `text` until the end of the block."""
        here = WORD.from_address(self.address("hoc_symlist"))
        top = self.variable("hoc_top_level_symlist")
        kept, here.value = here.value, top
        try:
            self.h(text)
            symbol = self.symbol_in(name)
            yield
            unlink = "_Z17hoc_unlink_symbolP6SymbolP7Symlist"
            self.function(unlink, None, ctypes.c_void_p, ctypes.c_void_p)(symbol, top)
            self.function("_Z17hoc_free_symspaceP6Symbol", None, ctypes.c_void_p)(symbol)
        finally:
            here.value = kept

    def symbol_in(self, name: str, symbols: int = 0) -> int:
        """Return the address of a symbol in a hoc list of symbols (default: top level)."""
        symbols = symbols or self.variable("hoc_top_level_symlist")
        name_and_list = ctypes.c_char_p, ctypes.c_void_p
        find = self.function("_Z16hoc_table_lookupPKcP7Symlist", ctypes.c_void_p, *name_and_list)
        return self._there(name, find(name.encode(), symbols))

    def known_symbol(self, name: str) -> int:
        """Return the address of a symbol that hoc knows, built in or defined by a script."""
        look = self.function("_Z10hoc_lookupPKc", ctypes.c_void_p, ctypes.c_char_p)
        return self._there(name, look(name.encode()))

    @staticmethod
    def _there(name: str, symbol: int | None) -> int:
        if not symbol:
            raise OSError(f"hoc knows no {name}")
        return int(symbol)


# -- stdrun.hoc's procedures -------------------------------------------------------------------


def standard(h: Hoc, name: str) -> str:
    """Return a stdrun.hoc procedure's text; empty if it is not there."""
    text = _stdrun(os.path.join(h.neuronhome(), "lib", "hoc", "stdrun.hoc"))
    procedure = re.search(rf"^proc {name}\(\) *\{{.*?^\}}", text, re.DOTALL | re.MULTILINE)
    return procedure[0] if procedure else ""


@cache
def _stdrun(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return "proc advance() {\n\tfadvance()\n}\n"


def is_standard(h: Hoc, symbols: HocSymbols, name: str) -> bool:
    """Whether a stdrun.hoc procedure is unchanged, or not loaded."""
    text = standard(h, name)
    if not text or h.name_declared(name) != 1:
        return True
    example = f"{name}_as_in_stdrun_hoc"
    with symbols.example(example, text.replace(f"proc {name}", f"proc {example}", 1)):
        return symbols.is_same(name, example)

"""NMODL as a language of `Mechanism`: what there is to a file, and how it is read."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from clhines.errors import InputError, shown
from clhines.mechanisms.ir.compiled import Compiled
from clhines.mechanisms.nmodl.build import build
from clhines.mechanisms.nmodl.reading.lexer import Includes, tokens
from clhines.mechanisms.nmodl.reading.tree import Refused


@dataclass(frozen=True)
class Nmodl:
    """What there is to an NMODL mechanism beside its text.

    Attributes
    ----------
    path : what messages call the file
    includes : names and texts of the files that it includes
    use_tables : value of usetable: whether TABLE statements count
    secondorder : whether NEURON's secondorder is not 0
    """

    path: str = ""
    includes: tuple[tuple[str, str], ...] = ()
    use_tables: bool = True
    secondorder: bool = False

    def cleaned(self, text: str) -> str:
        """Return a text as it is kept: as it is."""
        return text

    def compiled(self, text: str) -> Compiled:
        """Return the mechanism of a text; an NmodlError has everything that cannot be simulated."""
        includes = Includes(None, dict(self.includes))
        return build(text, self.path, includes, self.use_tables, self.secondorder)


def read(
    text_or_path: str | Path, path: str = "", use_tables: bool = True, secondorder: bool = False
) -> tuple[str, Nmodl]:
    """Return an NMODL text and what there is to it, of a text or the path of a file."""
    folder = None
    if not isinstance(text_or_path, (str, Path)):
        raise InputError(f"text_or_path is {shown(text_or_path)}; expected a text or a path")
    if isinstance(text_or_path, Path) or "\n" not in text_or_path.strip():
        file = Path(text_or_path)
        if "{" in str(text_or_path) and not file.is_file():
            return str(text_or_path), Nmodl(path, (), use_tables, secondorder)
        try:
            text = file.read_text("utf-8", "replace")
        except OSError as error:
            raise InputError(f"cannot read {str(file)!r}: {error.strerror}") from error
        path, folder = path or str(file), file.parent
    else:
        text = text_or_path
        folder = Path(path).parent if path else None
    includes = Includes(folder)
    with suppress(Refused):  # said where the text is read
        tokens(text, includes)
    return text, Nmodl(path, tuple(includes.texts.items()), use_tables, secondorder)

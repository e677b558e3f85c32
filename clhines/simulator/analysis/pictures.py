"""Pictures by matplotlib: their style, and the files that they are written to.

Only modules that draw need matplotlib, which is imported when they do. All pictures have the style
of ``clhines.mplstyle``; `style` applies it to other pictures.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from clhines.core import files
from clhines.core.errors import InputError, install
from clhines.core.files import PathLike

FORMATS = (".png", ".svg", ".pdf")
_STYLE = Path(__file__).with_name("clhines.mplstyle")


@contextmanager
def style() -> Iterator[None]:
    """Context manager: draw matplotlib pictures in clhines' style."""
    check_matplotlib()
    import matplotlib

    with matplotlib.rc_context(fname=_STYLE):
        yield


def check_format(path: PathLike | None) -> None:
    """Refuse a path that does not end in one of `FORMATS`, or cannot be written to."""
    if path is None:
        return
    files.check_target(path)
    name = os.fsdecode(path)
    if Path(name).suffix.lower() not in FORMATS:
        raise InputError(
            f"{files.path_text(path)} cannot be drawn; expected a name in {', '.join(FORMATS)}"
        )


def save(figure: Any, path: PathLike | None) -> None:
    if path is not None:
        with files.whole(path) as file:
            figure.savefig(file, format=Path(os.fsdecode(path)).suffix.lower()[1:])


def check_matplotlib() -> None:
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise InputError(f"a plot needs matplotlib: {install('plot')}") from error


def new_figure(**options: Any) -> Any:
    from matplotlib.figure import Figure

    figure: Any = Figure(layout="constrained", **options)
    # notebooks show objects that have this method, whatever matplotlib's backend is
    figure._repr_png_ = partial(_as_png, figure)
    return figure


def _as_png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=100)
    return file.getvalue()

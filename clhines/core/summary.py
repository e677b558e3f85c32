"""Words for summaries: counts, and ranges of values."""

from __future__ import annotations

import numpy as np


def counted(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def range_text(value: float | np.ndarray) -> str:
    if not np.size(value):
        return "none"
    least, most = np.min(value), np.max(value)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"

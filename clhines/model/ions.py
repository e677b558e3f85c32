"""Ions of a network: where they are, their values at the start, and NEURON's styles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# what NEURON gives ions: charge, mV, mM inside and outside
KNOWN_IONS = {
    "na": (1.0, 50.0, 10.0, 140.0),
    "k": (1.0, -77.0, 54.4, 2.5),
    "ca": (2.0, 12.5 * np.log(2.0 / 5e-5), 5e-5, 2.0),
}
OTHER_ION = (0.0, 0.0, 1.0, 1.0)
# bits of an ion's style, NEURON's
CONCENTRATION, REVERSAL = 0o3, 0o30
INITIAL_CONCENTRATION, INITIAL_REVERSAL, ADVANCE_REVERSAL = 0o4, 0o40, 0o100


@dataclass(frozen=True, eq=False)
class IonNodes:
    """An ion, where it is, and its initial values; `style` has NEURON's bits."""

    name: str
    valence: float
    node: np.ndarray  # int64, ascending
    e: np.ndarray  # mV, which is replaced where the style says so
    ci: np.ndarray  # mM
    co: np.ndarray  # mM
    style: np.ndarray

    @property
    def variables(self) -> tuple[str, str, str, str]:
        """Names of the reversal potential, inside and outside concentration, and current."""
        return f"e{self.name}", f"{self.name}i", f"{self.name}o", f"i{self.name}"


def promoted(style: np.ndarray, concentration: int, reversal: int) -> np.ndarray:
    """Styles of an ion where a mechanism reads (1), writes (3) or ignores (0) its values."""
    conc = np.maximum(style & CONCENTRATION, concentration)
    rev = np.maximum((style & REVERSAL) >> 3, reversal)
    rev = np.where((conc > 0) & (rev < 2), 2, rev)
    found = conc + 8 * rev
    found += np.where(conc == 3, INITIAL_CONCENTRATION, 0)
    found += np.where((conc == 3) & (rev == 2), ADVANCE_REVERSAL, 0)
    return found + np.where((conc > 0) & (rev == 2), INITIAL_REVERSAL, 0)

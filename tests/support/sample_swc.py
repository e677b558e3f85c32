"""The two cells that `clhines.sample_swc` names: `python tests/support/sample_swc.py` writes them.

They are grown at random, in the proportions of a small pyramidal cell and of a basket cell of rat
cortex; no reconstruction is behind them.
"""

from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[2] / "clhines/simulator/cells"
SOMA, AXON, BASAL, APICAL = 1, 2, 3, 4
STEP = 8.0  # µm between samples


class Cell:
    """Samples of an SWC file; (type, x, y, z, radius, parent) each."""

    def __init__(self, name, seed, radius):
        self.name, self.rng, self.rows = name, np.random.default_rng(seed), []
        for k, y in enumerate((0.0, -1.0, 1.0)):
            self.rows.append((SOMA, 0.0, y * radius, 0.0, radius, 1 if k else -1))

    def grow(self, kind, parent, towards, length, radii, wander=0.25, pull=0.15):
        """Add a neurite that wanders towards a direction; returns its samples."""
        _, *at, _, _ = self.rows[parent - 1]
        towards = np.array(towards) / np.linalg.norm(towards)
        at, heading, found = np.array(at), towards, []
        count = max(2, round(length / STEP))
        begin = parent != 1 and parent
        for radius in np.linspace(*radii, count):
            heading = heading + self.rng.normal(0.0, wander, 3) + pull * towards
            heading /= np.linalg.norm(heading)
            at = at + STEP * heading if begin else towards * self.rows[0][4]
            self.rows.append((kind, *at, radius, parent))
            parent = begin = len(self.rows)
            found.append(parent)
        return found

    def branch(self, kind, parent, towards, length, radii, splits):
        """Add a neurite that divides in two `splits` times; daughters keep 3/2 powers (Rall)."""
        end = self.grow(kind, parent, towards, length, radii)[-1]
        if not splits:
            return
        thin = max(0.3, radii[1] * 0.63)
        aside = np.cross(towards, self.rng.normal(size=3))
        aside *= 0.6 / np.linalg.norm(aside)
        for side in (1.0, -1.0):
            more = length * self.rng.uniform(0.8, 1.5)
            ends = thin, max(0.25, 0.8 * thin)
            self.branch(kind, end, np.array(towards) + side * aside, more, ends, splits - 1)

    def text(self):
        """The file."""
        lines = [f"# {self.name}: synthetic, made by tests/support/sample_swc.py of clhines"]
        for k, (kind, x, y, z, radius, parent) in enumerate(self.rows):
            lines.append(f"{k + 1} {kind} {x:.2f} {y:.2f} {z:.2f} {radius:.2f} {parent}")
        return "\n".join([*lines, ""])


def unit(rng, y, flat):
    """A random direction of which the y is given."""
    x, z = rng.normal(size=2) * (1.0, flat)
    return np.array([x, y * np.hypot(x, z), z])


def pyramidal():
    """A soma, six basal dendrites, an apical one with obliques and a tuft, an axon."""
    cell = Cell("pyramidal cell", 5, 9.0)
    for turn in np.arange(5) * 2 * np.pi / 5:
        towards = np.cos(turn), -0.55, 0.5 * np.sin(turn)
        cell.branch(BASAL, 1, towards, 45.0, (0.9, 0.7), 2)
    trunk = cell.grow(APICAL, 1, (0.0, 1.0, 0.0), 260.0, (1.7, 1.0), 0.06, 0.2)
    for k, side in zip((6, 11, 15, 21), (1.0, -1.0, -1.0, 1.0)):
        cell.branch(APICAL, trunk[k], (side, 0.5, cell.rng.normal(0, 0.4)), 50.0, (0.5, 0.4), 1)
    for side in (1.0, -1.0):
        cell.branch(APICAL, trunk[-1], (0.7 * side, 1.0, 0.2 * side), 60.0, (0.7, 0.5), 2)
    cell.grow(AXON, 1, (0.1, -1.0, 0.0), 180.0, (0.6, 0.3), 0.1)
    return cell


def basket():
    """A soma and six dendrites that go all ways."""
    cell = Cell("basket cell", 11, 7.0)
    for turn in np.arange(6) * 2 * np.pi / 6 + 0.3:
        towards = np.cos(turn), np.sin(turn), cell.rng.normal(0, 0.3)
        cell.branch(BASAL, 1, towards, 60.0, (0.7, 0.5), 1)
    cell.grow(AXON, 1, (0.3, -1.0, 0.0), 120.0, (0.5, 0.3), 0.2)
    return cell


FILES = {"pyramidal.swc": pyramidal, "basket.swc": basket}


if __name__ == "__main__":
    for name, make in FILES.items():
        (FOLDER / name).write_text(make().text(), "utf-8")

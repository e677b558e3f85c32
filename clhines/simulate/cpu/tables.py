"""Tables of blocks of cells: what arenas have besides those of steps, block after block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clhines.arrays import offsets, stretch_of
from clhines.model.ions import ADVANCE_REVERSAL, INITIAL_REVERSAL
from clhines.model.model import Model
from clhines.simulate.cpu.plan import Blocks
from clhines.simulate.cpu.tiles import BlockLayout
from clhines.simulate.engines.variables import Variables
from clhines.simulate.events.bins import SENDING
from clhines.simulate.kinds.layouts import add_cells, is_artificial, loose_targets
from clhines.simulate.records.records import Record
from clhines.simulate.state.arena import Arena


@dataclass(frozen=True, eq=False)
class BlockTables:
    """What blocks of cells look up, of a network with some variables, or of a part of one."""

    blocks: Blocks
    layout: BlockLayout
    variables: Variables
    network: Model

    def add(self, arenas: dict[str, Arena]) -> None:
        """Add all to arenas that have what steps need."""
        model, wires, blocks = self.variables.model, self.variables.wires, self.blocks
        clock, ints = arenas["clock"], arenas["ints"]
        ints.add("event_shown", self.variables.exact.count)
        netcons, crossing = model.netcons, blocks.crossing
        longest = np.full(model.sources.count, -np.inf)
        np.maximum.at(longest, netcons.source[crossing], netcons.delay[crossing])
        clock.add("longest", longest)
        clock.add("launch_begin", np.zeros(1))
        self._add_tiles(ints)
        self._add_groups(arenas["mem"], ints)
        for name, value in level_ions(self.variables, self.network).items():
            arenas["mem"].add(f"level_{name}", np.array([value]))
        add_cells(model, self.layout, ints, numbers=True)
        targets = self._targets()
        self._add_lists(ints, "target", targets, blocks.target[targets])
        emitters = [np.zeros((2, 0), np.int64)]
        for k, sources in model.sources.emitted.items():
            some = np.flatnonzero(sources >= 0)
            of = blocks.target[wires.first_target[k] + some]
            emitters.append(np.stack((sources[some], of)))
        self._add_lists(ints, "emitter", *np.concatenate(emitters, axis=1))
        crosses = crossing[wires.order]  # connections that come from other blocks
        word = ints.get("connection_short")
        apart = word | SENDING.pack(short=0, crossed=0, apart=1) if model.bins else 2
        ints.set("connection_short", np.where(crosses, apart, word))
        loose = [p for p in model.played if is_artificial(model.kinds[p.kind])]
        where = [blocks.target[wires.first_target[p.kind] + p.instance] for p in loose]
        number = len(model.played) - len(loose) + np.arange(len(loose))  # they are the last
        self._add_lists(ints, "loose_play", number, np.array(where, np.int64))

    def _add_tiles(self, ints: Arena) -> None:
        tiles = self.layout.tiles
        ints.add("block_place", tiles.block_place)
        ints.add("parents", tiles.parent)
        columns = np.stack((tiles.place, tiles.slots, tiles.roots, tiles.parents), axis=1)
        for width in tiles.widths:
            some = tiles.width == width
            ints.add(f"tiles_{width}", columns[some])
            self._add_first(ints, f"tile_{width}", tiles.block[some])

    def _add_groups(self, mem: Arena, ints: Arena) -> None:
        """Add where the groups of kinds are, and what they multiply densities by."""
        model = self.variables.model
        for k, groups in self.layout.groups.items():
            kept = groups.member >= 0
            ints.add(f"group_{k}", groups.first)
            ints.add(f"lane_{k}", groups.place)
            run = np.where(groups.side_by_side, groups.place[:, 0], -kept.sum(axis=1))
            ints.add(f"run_{k}", run)
            ints.add(f"position_{k}", groups.position)
            ints.add(f"member_{k}", np.where(kept, groups.member, -1))
            area = model.area[model.kinds[k].node][groups.source].astype(mem.dtype)
            mem.add(f"share_{k}", area * mem.dtype.type(0.01))

    def _targets(self) -> np.ndarray:
        """(t,) int64: targets that blocks look after one by one."""
        layers = self.variables.wires.layers
        if len(layers) < 2:
            return loose_targets(self.variables.model, self.variables.wires)
        return np.concatenate(layers)

    def _add_lists(self, ints: Arena, name: str, values: np.ndarray, block: np.ndarray) -> None:
        """Add values block by block, in the order given, and where those of each block begin."""
        ints.add(f"block_{name}s", values[np.argsort(block, kind="stable")])
        self._add_first(ints, f"block_{name}", block)

    def _add_first(self, ints: Arena, name: str, block: np.ndarray) -> None:
        """Add where those of each block begin, of things that are block after block."""
        ints.add(name, self._first(block))

    def _first(self, block: np.ndarray) -> np.ndarray:
        return offsets(np.bincount(block, minlength=self.blocks.count))

    def of_records(self, place: np.ndarray, records: Sequence[Record]) -> dict[str, np.ndarray]:
        """Return int32 lists of what is recorded, by block: of voltages at places, and the rest."""
        block = stretch_of(self.layout.tiles.block_place, place)
        given = {
            "v_first": self._first(block),
            "v_column": np.argsort(block, kind="stable"),
            "mem_block": self._blocks_of_loose(records),
        }
        return {name: np.append(values, 0).astype(np.int32) for name, values in given.items()}

    def _blocks_of_loose(self, records: Sequence[Record]) -> np.ndarray:
        """Block of each variable that is recorded and at no node, in the order of records."""
        found, kinds = [np.zeros(0, np.int64)], self.variables.model.kinds
        for record in records:
            if record.kind >= 0 and is_artificial(kinds[record.kind]):
                first = self.variables.wires.first_target.get(record.kind)
                of = np.zeros(len(record.index), np.int64)
                found.append(of if first is None else self.blocks.target[first + record.index])
        return np.concatenate(found)


def level_ions(variables: Variables, network: Model) -> dict[str, float]:
    """Variables of ions that are one number wherever the network has the ion, all the time."""
    written = set[str]()  # or not the same everywhere
    for kind in network.kinds:
        blocks = kind.mechanism.program.blocks.values()
        written |= {
            a.name for given in blocks for a in given if a.role == "ion" and a.direction != "in"
        }
    for ion in network.ions:
        e, *concentrations, current = ion.variables
        written.add(current)
        if ((ion.style & ADVANCE_REVERSAL) > 0).any():
            written.add(e)
        uneven = {n for n, x in zip(concentrations, (ion.ci, ion.co), strict=True) if _differ(x)}
        starts = ion.style & INITIAL_REVERSAL
        if _differ(ion.e) or _differ(starts) or (uneven and starts.any()):
            uneven.add(e)
        written |= uneven
    values = {
        name: variables.ions[name][ion.node]
        for ion in variables.model.ions
        for name in ion.variables
        if name not in written
    }
    return {n: v[0] if len(v) else 0.0 for n, v in values.items() if not _differ(v)}


def _differ(values: np.ndarray) -> bool:
    return bool((values[1:] != values[:-1]).any())

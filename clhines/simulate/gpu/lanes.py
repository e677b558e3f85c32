"""Lanes, registers and memory of epochs where a lane takes a node; see `lists`."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from clhines.plan.plan import Limits
from clhines.simulate.gpu.arena_spec import ArenaEpochSpec
from clhines.simulate.gpu.lists import NodeLists
from clhines.simulate.gpu.spec import MAX_UNITS, WARP, EpochSpec

# measured, see bench/notes/epochs.md
LISTS_FULL = 1  # cells a compute unit, above which those in flight count
_LISTS_GROUP = 128  # lanes of a work-group of several cells
_LISTS_REGISTERS = 72  # of a work-item then
_MOST_WARPS = 16  # of a cell
_REGISTERS = 1 << 16  # of a multiprocessor


def choose_lanes(
    lists: NodeLists, spec: EpochSpec, limits: Limits, units: int | None, busy: bool
) -> EpochSpec | None:
    """Return the spec with lanes, cells and registers of a work-group; None where nothing fits.

    Values of cells too large for local memory are in global memory, with exact times. `spec` has
    the least lanes, `lists` get places of states; `busy`: many cells are in flight.
    """
    in_arenas = isinstance(spec, ArenaEpochSpec)
    choices = lists.lanes.choose_warps(spec.lanes // WARP, _MOST_WARPS, busy)
    for far, warps in product((False, True) if in_arenas else (False,), choices):
        lanes = warps * WARP
        most = 1 if far else units or max(1, min(_LISTS_GROUP // lanes, MAX_UNITS))
        for count in range(most, 0, -1):
            group = lanes * count
            full = -(-group // (4 * WARP)) * 4 * WARP  # as many warps for each scheduler
            registers = _LISTS_REGISTERS if busy else min(_REGISTERS // full, 255) // 8 * 8
            if busy and in_arenas:
                registers = _more_registers(registers, group)
            registers = registers if spec.ptx else 0
            chosen = replace(spec, lanes=lanes, units=count, registers=registers, far=far)
            if chosen.fits(limits):
                return _place_states(lists, chosen, limits)
    return None


def _more_registers(registers: int, group: int) -> int:
    """Return so many registers that as many groups are on a multiprocessor, or one.

    >>> _more_registers(72, 224), _more_registers(72, 544)
    (72, 96)
    """
    together = max(1, _REGISTERS // (registers * group))
    warps = -(-together * group // (4 * WARP))  # of each scheduler
    return min(_REGISTERS // (warps * 4 * WARP), 255) // 8 * 8


def _place_states(lists: NodeLists, spec: EpochSpec, limits: Limits) -> EpochSpec:
    """Keep states in local memory, of as many kinds as there is room for."""
    local, in_arenas = [False] * len(spec.kinds), isinstance(spec, ArenaEpochSpec)
    for k, kind in enumerate(spec.kinds):
        more = spec.local_lines + lists.lanes.lines_of(k)
        wider = replace(spec, local_lines=more)
        in_lines = not in_arenas or (kind.density and not kind.takes_events)
        if in_lines and lists.lanes.lines_of(k) and wider.fits(limits):
            spec, local[k] = wider, True
    lists.place_states(local)
    kinds = (replace(k, local=here) for k, here in zip(spec.kinds, local, strict=True))
    return replace(spec, kinds=tuple(kinds), local_lines=lists.local_lines)

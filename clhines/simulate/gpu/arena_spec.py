"""The kernel that advances whole cells of a network with exact times, node by node.

The elimination is that of `EpochSpec`; mechanisms are those of `ArenaSpec`, whose functions and
arenas it takes as they are. A lane does everything for its node that `Steps` does in two
kernels: the end of a step, then events and currents of the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from clhines.mechanisms.ir.program import Argument
from clhines.plan.kernel_spec import Parameter
from clhines.simulate.gpu.spec import LIST_HEAD, WARP, EpochSpec
from clhines.simulate.kinds.calls import KindBlocks, Values, fields_of

SPECIAL = 1 << 30  # of the word of a node: it has detectors, or is played with
HAS_SPECIAL = -(1 << 31)  # of the bits of a list, one of whose nodes is special
MECHANISMS = ~HAS_SPECIAL  # the others


@dataclass(frozen=True)
class EpochBlocks(KindBlocks):
    """A kind in the lists of an epoch.

    Between launches, and for what is recorded, `lined` states are in their arena, too.
    """

    given: tuple[tuple[str, str, str], ...] = ()  # role, name, source: not read from their arena
    held: bool = False  # currents come right after the states' step, with states in variables
    num_values: int = 0  # lines of values of an instance in a list
    quick: bool = False  # functions are those of `rates.side_by_side`
    lined: bool = False  # states are in lines of the lists during a launch
    local: bool = False  # these lines are in local memory
    sums: tuple[str, ...] = ()  # ions whose currents are added up
    apart: bool = False  # lanes take instances, not the nodes that these are at
    once: bool = False  # functions read what is worked out once in a launch
    unread: tuple[str, ...] = ()  # states without line, which nothing but outputs reads

    @property
    def in_lines(self) -> list[str]:
        """States that have a line."""
        return [name for name in self.states if name not in self.unread]

    @property
    def alone(self) -> bool:
        """Whether a step sets the kind's own states and nothing else."""
        given = self.arguments("advance") if self.has("advance") else ()
        return all(a.role == "state" for a in given if a.direction != "in")

    @property
    def leading(self) -> tuple[str, ...]:
        """Arguments of functions before those of the block."""
        return ("series__",) * self.quick + ("once__",) * self.once

    def in_memory(self, name: str) -> str:
        """Return the expression of a state of instance j in its arena."""
        return super().kept("state", name)

    def changed(self, block: str) -> list[str]:
        """Names of the states that a block sets."""
        if not self.has(block):
            return []
        return [a.name for a in self.arguments(block) if a.role == "state" and a.direction != "in"]

    def kept(self, role: str, name: str) -> str:
        """Return the expression of a state or an output of instance j."""
        if role != "state" or not (self.held or self.lined):
            return super().kept(role, name)
        if name in self.unread and not self.held:
            return self.in_memory(name)
        return f"s_{name}" if self.held else self.line(name)

    def line(self, name: str) -> str:
        """Return the expression of a state where the lists have it."""
        if not self.lined:
            return self.in_memory(name)
        return f"{'local_state' if self.local else 'state'}[{self.in_lines.index(name) * WARP}]"

    def value(self, a: Argument, values: Values) -> str:
        """Return the expression of an argument."""
        if values.get("sums") and a.role == "ion" and a.name in [f"i{ion}" for ion in self.ions]:
            return f"sum_{a.name}"  # of the kinds before
        found = [x for role, name, x in self.given if (role, name) == (a.role, a.name)]
        return found[0] if found else super().value(a, values)

    def stores(self, a: Argument, block: str, local: str) -> list[str]:
        """Return statements that put a result where it belongs."""
        current = a.role == "ion" and a.name in [f"i{ion}" for ion in self.ions]
        if block == "current" and (current or a.role == "ion_current"):
            share = " * (100 / mem[area + a])" if self.kind == "point" else ""
            if a.name.removeprefix("i") not in self.sums:
                return []
            return [f"{'sum' if current else 'slope'}_{a.name} += {local}{share};"]
        if a.role == "state" and a.name in self.unread:  # the template's `seldom` puts it there
            return [f"s_{a.name} = {local};"] if self.held else []
        return super().stores(a, block, local)


@dataclass(frozen=True)
class ArenaEpochSpec(EpochSpec):
    """Numbers and switches of ``epoch_by_node.mako`` for a network with exact times."""

    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "advance": (
            "int first_step, int num_steps, int num_units, const int *restrict units",
            "const int *restrict rows, const int *restrict links, const int *restrict children",
            "const real *restrict all_tie, const real *restrict all_up, real *restrict all_v",
            "const int *restrict homes, const int *restrict instances",
            "const int *restrict node_lists, const int *restrict node_places",
            "const int *restrict node_members, const int *restrict node_active",
            "const int *restrict node_bits if mixed",
            "const real *restrict node_scalars, const real *restrict node_values",
            "real *restrict node_states",
            "int first_time, int looks, const double *restrict step_begin, real dt, double half_dt",
            "ulong seed, int capacity, int *restrict spike_count, int *restrict spike_source",
            "double *restrict spike_time, int slots if grid, int num_targets if grid",
            "real scale_of_events if grid, long *restrict incoming if grid",
            "int *restrict grid_count if grid, int *restrict grid_source if grid",
            "int *restrict grid_step if grid",
            "int *restrict failed, const int *restrict record_start",
            "const int *restrict record_list, real *restrict record_v, int record_row",
            "int num_records, int num_mem, const int *restrict mem_first",
            "const int *restrict mem_column, const int *restrict mem_index",
            "real *restrict mem_rows, real *mem, double *clock, int *ints, regions_ regions",
            "numbers_ numbers, real *far_held if far",
            "real *restrict seen_v if points, int num_places if points",
            "ulong *restrict arrived if meets, real *restrict shared if spreads",
            "int pending if ends_later",
        ),
        "publish": ("int num_sources, int *ints, regions_ regions",),
    }
    special: ClassVar[int] = SPECIAL
    mechanisms: ClassVar[int] = MECHANISMS
    most_once: ClassVar[int] = 64
    blocks: tuple[EpochBlocks, ...] = field(default=(), repr=False)
    num_numbers: int = field(default=0, repr=False)  # reals that are arguments of the kernel
    classes: tuple[int, ...] = field(default=(), repr=False)  # of nodes, with own statements
    mixed: bool = False  # nodes of a list have different mechanisms
    joins: int = 0  # work-groups that wait for each other after each step; 0: they do not
    layers: int = 0  # of targets that send each other events within a step; 0: no one does
    ends_later: bool = False  # the next launch ends the last step, if one is `pending`
    selects: bool = field(default=False, repr=False)  # the first step computes states for nothing
    terms: tuple[int, ...] = field(default=(), repr=False)  # of exponentials, see `arena_lists`
    nernst: tuple[str, ...] = field(default=(), repr=False)  # ions with Nernst's potential
    currents_read: tuple[str, ...] = field(default=(), repr=False)  # ions whose current is read

    def parameters(self, kernel: str) -> list[Parameter]:
        """Parameters of the kernel."""
        names = self.series_numbers.arguments if kernel == "advance" else ()
        return [*self._given(self.kernels[kernel]), *(Parameter(name, "real") for name in names)]

    @staticmethod
    def num_once(once: Iterable[str]) -> int:
        """Numbers that statements work out."""
        return sum(text.count("once__[") for text in once)

    @property
    def grid(self) -> bool:
        """Whether some events come in whole steps, as sums."""
        return self.arena is not None and self.arena.grid

    @property
    def points(self) -> bool:
        """Whether a kind has pointers to voltages."""
        given = (a for kind in self.blocks for _, _, arguments in kind.blocks for a in arguments)
        return any(a.role == "pointer" for a in given)

    @property
    def meets(self) -> bool:
        """Whether several work-groups wait for each other."""
        return self.joins > 1 or self.spreads

    @property
    def spreads(self) -> bool:
        """Whether several work-groups have a cell."""
        return self.parts > 1

    @property
    def loop(self) -> ListLoop:
        """Source of the loop over the lists."""
        return ListLoop(self)

    @property
    def num_scalars(self) -> int:
        """Parameters that are one number in each list of nodes."""
        return sum(len(names) for names in self.uniform)

    @property
    def sums_apart(self) -> tuple[str, ...]:
        """Ions whose currents are added up where they are looked for, not in each step."""
        if self.arena is None:
            return ()
        ours = [ion for ion in self.arena.ions if ion not in self.currents_read]
        return tuple(ion for ion in ours if all(k.held for k in self.with_ions((ion,))))

    def with_ions(self, ions: tuple[str, ...]) -> list[EpochBlocks]:
        """Kinds with currents of ions."""
        names = {f"i{ion}" for ion in ions}
        return [
            kind for kind in self.blocks if kind.has("current") and any(
                a.direction != "in" and a.role in ("ion", "ion_current") and a.name in names
                for a in kind.arguments("current")
            )
        ]  # fmt: skip

    def adding(self, ions: tuple[str, ...]) -> dict[int, EpochBlocks]:
        """Kinds by number, which add up currents of these ions alone."""
        return {k.number: replace(k, sums=ions) for k in self.blocks}


@dataclass(frozen=True)
class ListLoop:
    """Source of a lane's loop over its lists: pointers, times, and an instance `j` of a kind."""

    spec: ArenaEpochSpec

    @property
    def opens(self) -> str:
        """Step that has no step before it to end."""
        return "first_step - pending" if self.spec.ends_later else "first_step"

    @property
    def seen(self) -> str:
        """Voltages of all cells at the begin of a step, as pointers have them; others write it."""
        return "(volatile __global const real *)seen_v + (step % 2) * num_places"

    @property
    def in_lists(self) -> tuple[EpochBlocks, ...]:
        """Kinds that lanes take node by node."""
        return tuple(k for k in self.spec.blocks if not k.apart and k.kind != "artificial")

    @property
    def apart(self) -> tuple[EpochBlocks, ...]:
        """Kinds that lanes take instance by instance."""
        return tuple(k for k in self.spec.blocks if k.apart)

    @property
    def waiting(self) -> list[EpochBlocks]:
        """Kinds of these whose instances with events are taken together."""
        return [k for k in self.apart if k.has_net and not k.watches and self.spec.ptx]

    def slot(self, k: int) -> str:
        """Offset of the slots of a step; other work-groups may still read those of the last one."""
        return f"(step % 2) * count_{k} + " if self.spec.spreads else ""

    def opening(self, kind: EpochBlocks, text: str, known: int = 0) -> str:
        """Begin of `text` for an instance; `known`: bits of the list, where it has statements."""
        space = " " * 12
        number = self.instance(kind)
        own = f"{space}    const int j = {number};\n" if re.search(r"\bj\b", text) else ""
        if kind.kind == "density":
            present = self.present(kind)
            lane = (
                f"{space}    if ({present.replace('bits', 'own')}) {{\n" if self.spec.mixed else ""
            )
            return f"{space}{'' if known else f'if ({present}) '}{{\n{lane}{own}"
        count = self.present(kind)
        return f"{space}for (int n = {count}; n > 0; --n) {{\n{space}    if (*m >= 0) {{\n{own}"

    def instance(self, kind: EpochBlocks) -> str:
        """Return the expression of the number of an instance of a kind."""
        return f"instances[number * {len(self.spec.blocks)} + {kind.number}] + *m"

    def present(self, kind: EpochBlocks) -> str:
        """Return the expression that is not 0 where a list has a kind; of points how many."""
        if kind.kind == "density":
            return f"bits & {hex(1 << self._rank(kind))}"
        return f"list[{LIST_HEAD + self._rank(kind)}]"

    def is_in(self, known: int, kind: EpochBlocks) -> bool:
        """Whether a density mechanism is in a class."""
        return bool(known >> self._rank(kind) & 1)

    def times(self, *texts: str) -> str:
        """Return statements that set the times that are in texts; most lists need none."""
        known = {
            "t_begin": "step_begin[min(step, first_step + num_steps - 1) - first_time]",
            "t_mid": "t_begin + half_dt",
            "t_end": "t_mid + half_dt",
            "old_begin": f"step_begin[max(step - 1, {self.opens}) - first_time]",
            "old_end": "old_begin + half_dt + half_dt",
        }
        found, asked = list[str](), " ".join(texts)
        for name, value in reversed(known.items()):
            if re.search(rf"\b{name}\b", asked):
                found.append(f"const double {name} = {value};")
                asked += f" {value}"
        return " ".join(reversed(found))

    def closing(self, kind: EpochBlocks) -> str:
        """End of what `opening` begins."""
        space = " " * 12
        step = "".join(f"{space}    {n} += {k * WARP};\n" for n, k in self._steps(kind))
        inner = kind.kind != "density" or self.spec.mixed
        return (f"{space}    }}\n" if inner else "") + step + f"{space}}}\n"

    def skipping(self, kind: EpochBlocks) -> str:
        """Statement that passes the instances of a kind."""
        count = f"list[{LIST_HEAD + self._rank(kind)}]"
        if kind.kind == "density":
            count = f"(bits >> {self._rank(kind)} & 1)"
        steps = self._steps(kind)
        return " ".join(f"{name} += {count} * {lines * WARP};" for name, lines in steps)

    def _steps(self, kind: EpochBlocks) -> list[tuple[str, int]]:
        """Pointers that an instance of a kind moves, and the lines by which it does."""
        state = "local_state" if kind.local else "state"
        lines = [("m", 1), ("p", kind.num_values), (state, len(kind.in_lines))]
        return [(name, number) for name, number in lines if number]

    @property
    def begin(self) -> str:
        """Statements that set the pointers to the first instance of a node."""
        lines = 4 if self.spec.inflow else 2
        first = f"m = member; p = value + {lines * WARP}; state = first_state;"
        return first + (" local_state = first_local;" if self.spec.local_lines else "")

    def _rank(self, kind: EpochBlocks) -> int:
        """Return the number of a kind among those of its sort."""
        density = kind.kind == "density"
        alike = [k.number for k in self.spec.blocks if (k.kind == "density") == density]
        return alike.index(kind.number)


def epoch_blocks(
    kind: KindBlocks,
    given: tuple[tuple[str, str, str], ...],
    held: bool,
    num_values: int,
    local: bool,
    apart: bool,
    unread: tuple[str, ...],
) -> EpochBlocks:
    """Return a kind as the lists of an epoch take it."""
    quick = is_quick(kind)
    return EpochBlocks(
        **fields_of(kind), given=given, held=held, num_values=num_values, quick=quick, local=local,
        apart=apart, lined=quick and bool(kind.states), unread=unread,
    )  # fmt: skip


def is_quick(kind: KindBlocks) -> bool:
    """Whether the functions of a kind are called in lists of nodes alone."""
    return kind.kind == "density" and not kind.has_net and bool(kind.functions)

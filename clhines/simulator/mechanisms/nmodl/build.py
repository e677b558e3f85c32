"""From an NMODL text to a `Program`: what is a parameter, what a state, what an output."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import as_switch, real_numbers
from clhines.core.errors import InputError, shown
from clhines.core.files import read_bytes
from clhines.simulator.mechanisms.ir.compiled import Body, Compiled, arguments_of
from clhines.simulator.mechanisms.ir.expressions import (
    ExpressionError,
    Graph,
    Node,
    postorder,
)
from clhines.simulator.mechanisms.ir.forms import adds_multiples
from clhines.simulator.mechanisms.ir.program import (
    GENERATOR,
    SET,
    SET_AT,
    UNLESS,
    IonUse,
    Net,
    Program,
    Quantity,
    Send,
    Table,
)
from clhines.simulator.mechanisms.nmodl.bodies import Bodies, executed
from clhines.simulator.mechanisms.nmodl.meaning.outside import noticed
from clhines.simulator.mechanisms.nmodl.reading.lexer import MAX_TEXT, Includes, tokens
from clhines.simulator.mechanisms.nmodl.reading.names import BUILT_IN, plain
from clhines.simulator.mechanisms.nmodl.reading.parse import parse
from clhines.simulator.mechanisms.nmodl.reading.tree import (
    Declaration,
    FunctionTable,
    NmodlError,
    Refused,
    Rejection,
    error_of,
    set_by,
)
from clhines.simulator.mechanisms.nmodl.values import FAILED, MADE, STEERING, TableUse
from clhines.simulator.refusals import id_of, refusal

MAX_QUEUE = 16
MAX_ROWS = 8000  # of a FUNCTION_TABLE
MAX_MADE = 1_000_000  # values of a TABLE that NEURON has made


def build(
    text: str,
    path: str = "",
    includes: Includes | None = None,
    use_tables: bool = True,
    secondorder: bool = False,
    given: Mapping[str, FunctionTable] | None = None,
    constructed: bool = False,
    kept: Collection[str] = (),
    draws: bool = False,
) -> Compiled:
    """Read an NMODL text; an NmodlError has everything that cannot be simulated.

    NEURON's one generator is that of the only instance in a model where nothing rules out its use;
    `draws`: also where values of parameters do.
    """
    shown = path or "NMODL text"

    def built(draws: bool, fails: bool = False) -> tuple[Compiled | None, list[Refused]]:
        try:
            file = parse(text, shown, includes)
            if constructed:
                file.main.pop("CONSTRUCTOR", None)
            if draws:
                file.random[GENERATOR] = 0
            if fails:
                file.variables[FAILED] = Declaration(FAILED, "assigned", 0)
            bodies = executed(file, use_tables, secondorder, given, draws, fails)
            refused = [*file.refused, *bodies.refused]
            return (None, refused) if refused else (_Builder(bodies, kept).model(path), [])
        except Refused as one:
            return None, [one]
        except ExpressionError as error:
            return None, [Refused(refusal("mod.expression", error=error))]
        except RecursionError:
            return None, [Refused(refusal("mod.too-deep", what="too many expressions"))]

    model, refused = built(draws)
    if not draws and any(id_of(r.construct) == "mod.one-generator" for r in refused):
        draws = True
        model, second = built(True)
        refused = second or refused
    if any(
        id_of(r.construct) == "mod.hoc-execerror" for r in refused
    ):  # a state may say where: then the run fails
        model, second = built(draws, fails=True)
        refused = second or refused
    if model is None:
        raise error_of(refused, shown)
    return model


def rejections(text: str, path: str = "", includes: Includes | None = None) -> list[Rejection]:
    """Return the constructs of an NMODL text that cannot be simulated."""
    try:
        build(text, path, includes)
    except NmodlError as error:
        return error.rejections
    return []


class _Builder:
    def __init__(self, bodies: Bodies, kept: Collection[str]) -> None:
        self._kept = kept
        self.bodies, self.names = bodies, bodies.shared.names
        self.file, self.graph = bodies.shared.file, bodies.shared.graph
        self.blocks = bodies.blocks
        self._check()
        self._check_pointed()
        self.written = {key for body in self.blocks.values() for key in body.writes}
        for name in kept:  # parameters, too, are states then
            self.written.update(self.names.all_elements(name))
        self.read_ions = {n for ion in self.file.ions for n in (*ion.reads, *ion.writes)}
        self._leave_out_columns()
        self.needed = self._needed()
        self._begin_globals()
        for body in self.blocks.values():
            nodes = [n for _, _, n in body.results]
            nodes += [n for key, n in body.writes.items() if key in self.needed]
            body.loops = body.needed_loops(nodes)

    def _check(self) -> None:
        file = self.file
        if not file.suffix:
            raise Refused(refusal("mod.no-suffix"))
        for name in file.nonspecific | file.electrode:
            if self.names.variable(name) is None:
                raise Refused(refusal("mod.not-declared", name=name))

    def _check_pointed(self) -> None:
        """Refuse to read what POINTERs write: it depends on the order of all that write it.

        What NET_RECEIVE writes, a weight, it may read, too, and no other block may use.
        """
        bodies = self.blocks.values()
        for name in self._set_by_pointer("steer"):
            others = [b for block, b in self.blocks.items() if block != STEERING]
            set_there = any(n == name for b in others for _, n, _ in b.results)
            if set_there or any(self.names.printed[name] in b.free(b.writes) for b in others):
                what = refusal("mod.pointer-of-net-receive", name=name)
                raise Refused(what, self.file.pointers[name])
        for name in {n for b in bodies for role, n, _ in b.results if role in ("put", "add")}:
            if any(self.names.printed[name] in body.free(body.writes) for body in bodies):
                raise Refused(
                    refusal("mod.pointer-written-read", name=name), self.file.pointers[name]
                )

    def _set_by_pointer(self, role: str) -> set[str]:
        """POINTERs that NET_RECEIVE (``steer``) or BREAKPOINT (``assign``) writes."""
        return {n for b in self.blocks.values() for r, n, _ in b.results if r == role}

    # ----------------------------------------------------------------------------- variables

    def _needed(self) -> set[str]:
        """Variables whose values other blocks, results or users need."""
        needed = {
            key
            for key in self.written
            if self.names.elements[key] in (*self.file.range, *self._kept)
            or self.file.variables[self.names.elements[key]].sort == "state"
        }
        while True:
            more = set(needed)
            for body in self.blocks.values():
                more |= body.free(needed) & self.names.elements.keys()
            if more == needed:
                return needed
            needed = more

    def _leave_out_columns(self) -> None:
        """Let columns of tables that nothing needs be 0, whatever they depend on."""
        tables = self.bodies.shared.tables.items()
        names = [n for n, use in tables if not (use.rows or use.made) and use.again is None]
        whole = {f"table_{name}": self.blocks[f"table_{name}"] for name in names}
        used = set[tuple[str, str]]()
        while True:
            for block, body in whole.items():
                results = [
                    (role, name, node if (block, name) in used else self.graph.zero)
                    for role, name, node in body.results
                ]
                self.blocks[block] = replace(body, results=results)
            needed = self._needed()
            roots = [node for body in self.blocks.values() for node in body.nodes(needed)]
            looked = (node.args for node in postorder(roots) if node.op == "lookup")
            more = {(f"table_{a[1].name.removesuffix('__table')}", str(a[2].value)) for a in looked}
            if more <= used:
                return
            used |= more

    def _live(self) -> set[str]:
        """Variables that some block reads before it writes them, or that decide what is refused."""
        found = {k for _, guard, _ in self.bodies.shared.unless for k in guard.free - self.written}
        for body in self.blocks.values():
            found |= body.free(self.needed)
        if "receive" in self.blocks:  # nothing but an event brings these values back
            found |= self.blocks["receive"].writes.keys() & self.needed
        found |= {k for k in self.needed & self.written if self.names.elements[k] in self._kept}
        if "diffuse" in self.blocks:
            found |= {name for _, name, _ in self.blocks["diffuse"].results}
        return found & self.names.elements.keys()

    def _begin_globals(self) -> None:
        """Give INITIAL the defaults of what is one for all instances and only set by later blocks.

        So has NEURON, in the first INITIAL of a model. No other block may need the value.
        """
        initial = self.blocks.get("initial")
        if initial is None or initial.loops or self.file.kind == "artificial":
            return
        elsewhere: set[str] = set()
        for name, body in self.blocks.items():
            if name != "initial":
                elsewhere |= body.free(self.needed)
            if name in ("before_initial", "after_initial", "receive", "net_initial"):
                elsewhere |= body.writes.keys()
        symbols = {
            self.graph.symbol(key): self.graph.number(Fraction(self.names.default(key)))
            for key in self.written - elsewhere - initial.writes.keys()
            if self.names.is_global(key) and self.names.elements[key] not in self.read_ions
        }
        if symbols:
            replaced = self.graph.replaced
            self.blocks["initial"] = initial.mapped(lambda e: replaced([e], symbols)[0])
            self.needed = self._needed()

    def model(self, path: str) -> Compiled:
        """Return the mechanism."""
        live = self._live()
        not_kept = {k for k in live if self.names.elements[k] in self._given()}
        kept = self._ordered((self.needed & self.written) - not_kept)
        states = [k for k in kept if k in live]
        outputs = [k for k in kept if k not in live]
        parameters = self._ordered(live - self.written - not_kept)
        self.states, self.outputs, self.parameters = states, outputs, parameters
        if self.bodies.shared.outside is not None:
            self.blocks |= noticed(self.blocks, *self.bodies.shared.outside)
        tables, (suspects, begun) = self._tables(), self._suspects()
        last = [key for key in suspects if self._is_of_last(key)]
        unless = self._unless()
        pointers = tuple(p for p in self.file.pointers if p in self.names.printed)
        set_, steered = self._set_by_pointer("assign"), self._set_by_pointer("steer")
        used_pointers = tuple(p for p in pointers if self.names.printed[p] in live or p in set_)
        used_pointers = tuple(p for p in used_pointers if p not in steered)
        made = self._note_set()
        program = Program(
            name=self.file.suffix,
            kind=self.file.kind,
            parameters=tuple(self._quantity(k) for k in parameters),
            states=tuple(self._quantity(k) for k in states),
            outputs=(*(self._quantity(k) for k in outputs), *made),
            ions=tuple(IonUse(i.name, i.valence, i.reads, i.writes) for i in self.file.ions),
            pointers=used_pointers,
            tables=tables,
            net=self._net(),
            random=tuple(plain(name) for name in self.file.random),
            picked=tuple(plain(name) for name in self.file.picked),
            built_in=tuple(k for k in parameters if self.names.elements[k] in BUILT_IN),
            unless=unless,
            beside=self._beside(parameters),
            external=tuple(k for k in parameters if self.names.elements[k] in self.file.external),
            alone=tuple(self.names.public.get(k, k) for k in suspects if k not in last),
            last=tuple(last),
            begun=tuple(begun),
            behind=tuple(k for k in outputs if k in self.bodies.shared.behind),
            late=tuple(sorted(self.bodies.late)),
            electrode=bool(self.file.electrode),
            electrode_currents=tuple(plain(name) for name in self.file.electrode),
        )
        bodies = {name: body for name, body in self.blocks.items() if self._is_used(name)}
        for body in bodies.values():
            ordered = [*states, *sorted(body.writes.keys() - {*states})]
            body.writes = {k: body.writes[k] for k in ordered if k in body.writes}
        given = {p: self.names.printed[p] for p in pointers}
        blocks = {
            name: arguments_of(program, given, name, body, set(self.wanted(name)))
            for name, body in bodies.items()
        }
        program = replace(program, blocks=blocks)
        shown = tuple(name for name in blocks if not name.startswith(("grid_", "unless")))
        return Compiled(program, bodies, _about(program, path), shown, pointers=given)

    def _note_set(self) -> list[Quantity]:
        """Let events that set v leave it, what else they set, and their time in outputs."""
        body = self.blocks.get("receive", Body())
        set_v = [node for role, _, node in body.results if role == "set_v"]
        if not set_v:
            return []
        set_ = (k for k in (*self.states, *self.outputs) if k in body.writes)
        left = {k: body.writes[k] for k in set_ if k not in self.bodies.late}
        left["v"] = set_v[0]
        body.writes |= {SET.format(k): node for k, node in left.items()}
        body.writes[SET_AT] = self.graph.symbol("t")
        return [*(Quantity(SET.format(k), "") for k in left), Quantity(SET_AT, "ms")]

    def _given(self) -> set[str]:
        """Variables whose values come from ions or pointers: read, or a concentration."""
        found = set(self.file.pointers)
        for ion in self.file.ions:
            found |= set(ion.reads) | {n for n in ion.writes if n != f"i{ion.name}"}
        return found

    def _ordered(self, keys: set[str]) -> list[str]:
        order = {name: k for k, name in enumerate(self.file.variables)}
        return sorted(keys, key=lambda k: (order[self.names.elements[k]], len(k), k))

    def _quantity(self, key: str) -> Quantity:
        name = self.names.elements[key]
        public = self.names.public[key]
        return Quantity(
            key,
            self.file.variables[name].unit,
            self.names.default(key),
            self.names.is_global(key),
            public if public != key else "",
            key in self.written and self.file.variables[name].sort in ("parameter", "assigned"),
        )

    def _suspects(self) -> tuple[list[str], list[str]]:
        """Variables that are one for all instances, are kept, and may differ between instances.

        NEURON executes a block for one instance after the other: where it reads what it sets, each
        instance sees what the one before has set. The second are those that INITIAL alone sets
        from the instance's own values: then all have the last one's.
        """
        uniform = {k for k in self.states if self.names.is_global(k)}
        shared = {k for k in self.parameters if self.names.is_global(k)} | {"t", "dt"}
        wrong = True
        suspects, turned = set[str](), set[str]()
        while wrong:
            wrong = False
            for key in sorted(uniform - suspects):
                for body in self.blocks.values():
                    if key in body.writes:
                        free = body.writes[key].free
                        in_turn = free & uniform & body.writes.keys()
                        if in_turn and key not in self._settled(body, uniform):
                            turned.add(key)
                        if key in turned or not free <= (uniform - suspects) | shared:
                            suspects.add(key)
                            wrong = True
        found, begun = list[str](), list[str]()
        for key in self._ordered(suspects):
            variable = self.file.variables[self.names.elements[key]]
            setters = {block for block, body in self.blocks.items() if key in body.writes}
            by_initial = setters == {"initial"} and key not in turned
            if variable.sort == "local" and not by_initial:  # NEURON does not show its value
                what = refusal("mod.changed-in-turn", name=variable.name)
                raise Refused(what, variable.line)
            (begun if by_initial else found).append(key)
        return found, begun

    def _is_of_last(self, key: str) -> bool:
        """Whether each block either reads a variable or sets it for all: it is the last one's."""
        reads = {name for name, body in self.blocks.items() if key in body.free(self.needed)}
        sets = {name for name, body in self.blocks.items() if key in body.writes}
        return reads | sets <= {"initial", "current", "advance"} and not reads & sets

    def _settled(self, body: Body, uniform: set[str]) -> set[str]:
        """Variables of all instances that a block does not change where it has just been executed.

        So are those that it sets where a flag is 0, as the flag then is 1. It is evaluated for some
        values of its inputs; an INITIAL that alone sets them begins with defaults.
        """
        turned = [end for loop in body.loops for end in loop.ends]  # these are not evaluated
        keys = [k for k, node in body.writes.items() if k in uniform and not node.uses(*turned)]
        nodes = [body.writes[k] for k in keys]
        later = {k for b in self.blocks.values() if b is not body for k in b.writes}
        at_start = body is self.blocks.get("initial")
        free = sorted({name for node in nodes for name in node.free} | {*keys})
        random, settled = Random(1), {*keys}
        for turn in range(8):
            point = {
                k: Fraction(self.names.default(k))
                if (turn == 0 and k in self.names.elements) or (at_start and k in {*keys} - later)
                else Fraction(random.choice([0, 1, random.randint(2, 99)]))
                for k in free
            }
            at = {self.graph.symbol(k): self.graph.number(x) for k, x in point.items()}
            first = self.graph.replaced(nodes, {**at})
            at |= {self.graph.symbol(k): node for k, node in zip(keys, first, strict=True)}
            again = self.graph.replaced(nodes, at)
            settled -= {k for k, x, y in zip(keys, first, again, strict=True) if x is not y}
        return settled

    def _unless(self) -> tuple[str, ...]:
        """Make the blocks that say where draws of NEURON's one generator would be needed.

        Whether they are must hang on parameters alone, or on what INITIAL alone sets once for all.
        """
        initial = {*self.parameters, *self._settled_by_initial(raw=True)}
        later = {*self.parameters, *self._settled_by_initial(raw=False)}
        found = dict[str, list[Node]]()
        for block, guard, refused in self.bodies.shared.unless:
            of = UNLESS[block != "initial"]
            parts = [e for e in _all(guard) if e.free <= (later if of == "unless" else initial)]
            if not parts:
                raise refused
            what = reduce(self.graph.both, parts)
            said = f"{refused.construct} (line {refused.line}); {refused.way_out}"
            found.setdefault(said, []).append(what)
            body = self.blocks.setdefault(of, Body())
            body.results.append(("unless", str([*found].index(said)), what))
        for block in UNLESS:
            if block in self.blocks:
                self.blocks[block] = _joined(self.graph, self.blocks[block])
        if found and not self._can_be_without([e for nodes in found.values() for e in nodes]):
            raise self.bodies.shared.unless[0][2]
        return tuple(found)

    def _can_be_without(self, conditions: Sequence[Node]) -> bool:
        """Whether there are values of parameters with which none of the conditions holds."""
        random, number = Random(3), self.graph.number
        names = sorted({name for e in conditions for name in e.free})
        for turn in range(200):
            values = [Fraction(self.names.default(k)) for k in names]
            if turn:
                values = [random.choice([x, Fraction(random.randint(-1, 2))]) for x in values]
            point = {self.graph.symbol(k): number(x) for k, x in zip(names, values, strict=True)}
            if all(e is self.graph.zero for e in self.graph.replaced(conditions, point)):
                return True
        return False

    def _settled_by_initial(self, raw: bool) -> set[str]:
        """Return states that INITIAL alone sets, of parameters and themselves.

        Where they are not `raw`, executing it again must not change them.
        """
        initial = self.blocks.get("initial", Body())
        others = {k for name, b in self.blocks.items() if name != "initial" for k in b.writes}
        asked = {name for _, guard, _ in self.bodies.shared.unless for name in guard.free}
        keys = [k for k in self.states if k in asked and k in initial.writes and k not in others]
        keys = [k for k in keys if initial.writes[k].free <= {*self.parameters, k}]
        return {k for k in keys if raw or self._stays(k, initial.writes[k])}

    def _stays(self, key: str, value: Node) -> bool:
        """Whether a variable that has been set, of itself, stays where that is done again."""
        random, symbol = Random(2), self.graph.symbol
        for _ in range(12):
            point = {
                symbol(k): self.graph.number(Fraction(random.randint(-9, 9), 4))
                for k in sorted(value.free)
            }
            try:
                once = self.graph.replaced([value], {**point})[0]
                again = self.graph.replaced([value], {**point, symbol(key): once})[0]
            except ExpressionError:
                return False
            if once is not again:
                return False
        return True

    # ------------------------------------------------------------------------------ arguments

    def _is_used(self, name: str) -> bool:
        if name in ("initial", "current", "receive") or name.startswith(
            ("table_", "grid_", "unless")
        ):
            return True
        body = self.blocks[name]
        kept = {*self.states, *self.outputs}
        return bool(body.results) or any(k in kept for k in body.writes)

    def wanted(self, name: str) -> list[str]:
        """Variables of a block that stay: its states."""
        return [k for k in self.states if k in self.blocks[name].writes]

    # ------------------------------------------------------------------------- tables, events

    def _beside(self, parameters: Sequence[str]) -> tuple[str, ...]:
        """Return parameters that blocks with a TABLE set and that are no columns of it."""
        tables = [use for use in self.bodies.shared.tables.values() if use.again is None]
        found = {name for use in tables for name in set_by(use.block.body, self.file.blocks)}
        return tuple(k for k in parameters if self.names.elements[k] in found)

    def _tables(self) -> tuple[Table, ...]:
        found = []
        for name, use in self.bodies.shared.tables.items():
            if use.made:
                found.append(self._made(name, use))
                continue
            free = self.blocks[f"table_{name}"].free(())
            free |= self.blocks[f"grid_{name}"].free(())
            free |= use.reads - (use.again or frozenset())
            wrong = sorted(free - set(self.parameters) - {"_x", "dt"})
            wrong = [w for w in wrong if not w.endswith("__table")]
            if wrong:
                shown = self.names.public.get(wrong[0], wrong[0])
                raise Refused(
                    refusal("mod.table", name=name, variable=shown),
                    use.block.line,
                    f"set usetable_{self.file.suffix} = 0",
                )
            if self.bodies.halved and "dt" in free:
                construct = refusal("mod.table-secondorder", name=name)
                raise Refused(construct, use.block.line)
            depends = tuple(k for k in self.parameters if k in free)
            columns = tuple(use.columns) if use.again is None else ("x",)
            found.append(Table(name, columns, use.n, depends, use.held))
        return tuple(found)

    def _made(self, name: str, use: TableUse) -> Table:
        """Return a table that NEURON has made; Refused where it would make it again in a run."""
        blocks = (body for block, body in self.blocks.items() if block != "initial")
        written = dict.fromkeys(key for body in blocks for key in body.writes)
        changing = [key for key in written if self.names.elements[key] in use.depends]
        if changing or ("dt" in use.depends and self.bodies.halved):
            what = refusal("mod.table-changes", name=name, value=(*changing, "dt")[0])
            raise Refused(what, use.block.line, f"set usetable_{self.file.suffix} = 0")
        return Table(name, tuple(use.columns), use.n, made=use.made)

    def _net(self) -> Net | None:
        sends = tuple(Send(kind) for kind in self.bodies.sends)
        if self.bodies.weights is None and not sends:
            return None
        return Net(
            weights=self.bodies.weights or (),
            summed=self._is_summed(),
            sends=sends,
            watches=len(self.bodies.watch_flags),
            watch_flags=tuple(self.bodies.watch_flags),
            for_netcons=self.bodies.netcons,
            queue=MAX_QUEUE,
        )

    def _is_summed(self) -> bool:
        """Whether an event only adds multiples of its weight to states."""
        body = self.blocks.get("receive")
        if body is None or self.bodies.weights is None or len(self.bodies.weights) != 1:
            return False
        if body.results or body.loops or "net_initial" in self.blocks:
            return False
        weight = f"_{self.bodies.weights[0]}__weight"
        writes = {key: body.writes[key] for key in self.wanted("receive")}
        return adds_multiples(writes, weight, set(self.parameters))


def _all(guard: Node) -> list[Node]:
    """Return conditions that all hold where a condition holds."""
    plain = guard.definition
    if plain.op == "both":
        return [e for part in plain.args for e in _all(part)]
    if plain.op == "where" and plain.args[2] is plain.graph.zero:
        return [e for part in plain.args[:2] for e in _all(part)]
    return [guard]


def _joined(graph: Graph, body: Body) -> Body:
    """Return a block of conditions with one result of each name: whether any holds."""
    found = dict[str, Node]()
    for _, name, node in body.results:
        other = found.get(name, graph.zero)
        found[name] = graph.where(other, graph.one, node)
    return Body([("unless", name, node) for name, node in found.items()])


def _about(program: Program, path: str) -> tuple[str, ...]:
    """Return lines that describe a mechanism but for what its blocks do."""
    lines = program.heading(path)
    for q in program.states:
        lines.append(f"  state {q.public or q.name} {q.unit}".rstrip())
    lines += program.of_ions
    lines += [f"  pointer {pointer}" for pointer in program.pointers]
    for table in program.tables:
        lines.append(f"  table of {table.name}: {', '.join(table.columns)} at {table.n + 1} places")
    if program.net is not None:
        lines.append(f"  an event has {', '.join(program.net.weights) or 'no weight'}")
    return tuple(lines)


@dataclass(frozen=True)
class Nmodl:
    """An NMODL mechanism, compiled."""

    path: str = ""  # what messages call the file
    includes: tuple[tuple[str, str], ...] = ()  # names and texts of the files that it includes
    use_tables: bool = True  # value of usetable: whether TABLE statements count
    secondorder: bool = False  # whether NEURON's secondorder is not 0
    function_tables: tuple[tuple[str, FunctionTable], ...] = ()  # of FUNCTION_TABLE, by name
    constructed: bool = False  # whether NEURON's memory has what CONSTRUCTOR sets
    queue: int = MAX_QUEUE  # self events of an instance that may be under way at once
    kept: tuple[str, ...] = ()  # variables that are states, as POINTERs of others point to them
    draws: bool = False  # whether NEURON's one generator is drawn from, whatever parameters say

    def cleaned(self, text: str) -> str:
        """Return a text as it is kept: as it is."""
        return text

    def compiled(self, text: str) -> Compiled:
        """Return the mechanism of a text; an NmodlError has everything that cannot be simulated."""
        includes = Includes(None, dict(self.includes))
        given = dict(self.function_tables), self.constructed, self.kept, self.draws
        built = build(text, self.path, includes, self.use_tables, self.secondorder, *given)
        net = built.program.net
        if net is None or net.queue == self.queue:
            return built
        return replace(built, program=replace(built.program, net=replace(net, queue=self.queue)))


FunctionTables = Mapping[str, FunctionTable | Sequence[ArrayLike] | float]


def tables_of(given: FunctionTables | None) -> tuple[tuple[str, FunctionTable], ...]:
    """Return tables of FUNCTION_TABLE from what users give of them."""
    if given is not None and not (
        isinstance(given, Mapping) and all(isinstance(k, str) for k in given)
    ):
        raise InputError(f"function_tables is {shown(given)}; expected a dict of tables by name")
    return tuple((name, _table_of(name, table)) for name, table in (given or {}).items())


def _table_of(name: str, given: FunctionTable | Sequence[ArrayLike] | float) -> FunctionTable:
    most = MAX_MADE if name.startswith(MADE.format("")) else MAX_ROWS
    name = f"function_tables[{name!r}]"
    if isinstance(given, FunctionTable):
        parts: Sequence[ArrayLike] = (*given.axes, given.values)
    else:
        parts = given if isinstance(given, Sequence) else ([0.0], given)
    if not 2 <= len(parts) <= 3:
        raise InputError(f"{name} has {len(parts)} arrays; expected knots of 1 or 2, and values")
    arrays = (real_numbers(name, part).astype(np.float64) for part in parts)
    *axes, values = (np.atleast_1d(array) for array in arrays)
    shape = tuple(axis.size for axis in axes)
    is_flat = isinstance(given, FunctionTable) and values.size == np.prod(shape)
    if any(axis.ndim > 1 for axis in axes) or not (is_flat or values.shape == shape):
        raise InputError(f"{name} has values of shape {values.shape}; expected {shape}")
    if not 1 <= values.size <= most:
        raise InputError(f"{name} has {values.size} values; expected 1 to {most}")
    if not all(np.isfinite(array).all() for array in (*axes, values)):
        raise InputError(f"{name} has a number that is not finite")
    if any((np.diff(axis) < 0).any() for axis in axes):
        raise InputError(f"{name} has knots that do not ascend")
    return FunctionTable(tuple(tuple(a.tolist()) for a in axes), tuple(values.ravel().tolist()))


def read(
    text_or_path: str | Path,
    path: str = "",
    use_tables: bool = True,
    secondorder: bool = False,
    function_tables: FunctionTables | None = None,
) -> tuple[str, Nmodl]:
    """Return an NMODL text and what there is to it, of a text or the path of a file."""
    folder, given = None, tables_of(function_tables)
    if not isinstance(text_or_path, (str, Path)):
        raise InputError(f"text_or_path is {shown(text_or_path)}; expected a text or a path")
    if not isinstance(path, (str, Path)):
        raise InputError(f"path is {shown(path)}; expected a text or a path")
    path = str(path)
    use_tables = as_switch("use_tables", use_tables)
    secondorder = as_switch("secondorder", secondorder)
    if isinstance(text_or_path, Path) or "\n" not in text_or_path.strip():
        file = Path(text_or_path)
        if "{" in str(text_or_path) and not os.path.isfile(file):
            return str(text_or_path), Nmodl(path, (), use_tables, secondorder, given)
        text = read_bytes(file, MAX_TEXT).decode("utf-8", "replace")
        path, folder = path or str(file), file.parent
    else:
        text = text_or_path
        folder = Path(path).parent if path else None
    includes = Includes(folder)
    try:
        tokens(text, includes)
    except Refused as refused:
        raise error_of([refused], path or "NMODL text") from refused
    return text, Nmodl(path, tuple(includes.texts.items()), use_tables, secondorder, given)

"""A model's own `advance()` and `step()`: what their code in hoc reads, and whether it only reads.

What is not known to leave the model alone is rejected, with its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Protocol

from clhines.errors import InputError
from clhines.mechanisms.ir.program import Program
from clhines.mechanisms.mechanism import Mechanism
from clhines.neuron.convert import Rejected
from clhines.neuron.memory.fields import Fields
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.places import ION, MemoryPlaces, Variable
from clhines.neuron.memory.raw import Place, words_at
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.contents import Contents, Instances
from clhines.neuron.read.hooks import STEPPING, is_standard
from clhines.neuron.read.played import Player, PlayReader, steps_at_once
from clhines.neuron.read.trains import held
from clhines.neuron.read.tree import Tree
from clhines.neuron.read.wiring import NeuronWires, on_ranks
from clhines.neuron.read.written import WrittenPointers
from clhines.neuron.stepping import bmtk
from clhines.neuron.stepping.code import HocCode, Symbol, Template
from clhines.neuron.stepping.following import (
    ANY,
    Follower,
    NamedSections,
    OnStack,
    RefusedError,
    code_for,
)
from clhines.refusals import refusal

_STEP = "fadvance"
_PURE = {  # functions that change nothing
    "area", "ri", "secname", "sectionname", "ismembrane", "issection", "name_declared", "strcmp",
    "startsw", "stopsw", "numarg", "n3d", "x3d", "y3d", "z3d", "diam3d", "arc3d", "object_id",
    "section_exists", "section_orientation", "parent_connection", "doNotify", "doEvents",
    "push_section", "pop_section",
}  # fmt: skip
_WRITES = {"printf", "fprint", "sprint", "wopen"}
_DRAWING = ("plot", "flush", "fastflush", "begin", "line", "beginline", "mark", "label", "color",
            "brush", "erase", "view_count", "size")  # fmt: skip
VECTOR_METHODS = (
    "x", "get", "set", "size", "append", "resize", "fill", "sum", "max", "min", "mean", "contains",
    "indwhere", "buffer_size", "fwrite", "printf", "add", "sub", "mul", "div", "remove", "insrt",
    "max_ind", "min_ind", "vwrite",
)  # fmt: skip
_METHODS = {
    **{"Graph": _DRAWING, "PlotShape": _DRAWING, "Shape": _DRAWING},
    "Vector": VECTOR_METHODS,
    "File": ("printf", "flush", "wopen", "aopen", "ropen", "close", "eof", "gets", "scanvar",
             "scanstr", "isopen", "getname", "tell", "seek", "vwrite"),
    "StringFunctions": ("len", "substr", "head", "tail", "left", "right"),
    "List": ("count", "o", "object", "index"),
    "SectionRef": ("sec", "nchild", "has_parent", "has_trueparent", "is_cas"),
    "ParallelContext": ("id", "nhost", "time"),
}  # fmt: skip
_ITEM = "o", "object"
_OF_NETCON = "weight", "delay", "threshold"
_OF_POINT = "get_loc", "has_loc"
_CONSTANTS = {
    "t",
    "dt",
    "celsius",
    "PI",
    "E",
    "GAMMA",
    "DEG",
    "PHI",
    "FARADAY",
    "R",
    "float_epsilon",
}
_STAYS = {"diam", "cm", "L", "Ra", "nseg", "rallbranch"}
_ASKED = {"nstep_steprun", "using_cvode_", "steps_per_ms"}  # by stdrun.hoc and here, in a run
_WAY_OUT = "do it between calls of clhines.neuron.run, with stdrun.hoc's {}()"
_OR_SWITCH = f"turn the switch on, or {_WAY_OUT}"


class ChangesError(RefusedError):
    """Code does what is not taken here, and may do in a loop around ``fadvance``."""


class SteppingRejected(Rejected):
    """An `advance()` or `step()` that the switch takes for a part of such a loop."""


class ModelRead(Protocol):
    """What is needed of `NeuronModel`."""

    h: Hoc
    memory: NeuronMemory
    fields: Fields
    tree: Tree
    contents: Contents
    places: MemoryPlaces
    wires: NeuronWires
    plays: PlayReader
    mechanisms: dict[str, Mechanism]
    written: WrittenPointers

    @property
    def every(self) -> dict[str, Instances]: ...

    @property
    def players(self) -> list[Player]: ...


@dataclass(eq=False)
class Stepping:
    """Code of a model's own that runs with each step, in the procedure of this name.

    `reads` are the variables, by place, that have the values of the step while it runs.
    """

    procedure: str
    reads: dict[Place, Variable] = field(default_factory=dict)
    block: Callable[[], int] | None = None  # steps up to one after which it may change the model

    @property
    def most_steps(self) -> int:
        """Steps that are taken at once, at most, and NEURON's own."""
        most = steps_at_once(len(self.reads)) + 1
        return most if self.block is None else min(most, self.block())


def read_stepping(model: ModelRead) -> tuple[Stepping | None, list[Rejected]]:
    """Return what runs with each step, None where nothing does that is seen, and rejections."""
    h, memory = model.h, model.memory
    names = STEPPING if h.name_declared("continuerun") else ("advance",)
    own = [name for name in names if not is_standard(h, memory, name)]
    if not own:
        return None, []
    said = "step" if "step" in own else "() or ".join(own)
    try:
        return _OfModel(model).found(own), []
    except RefusedError as refused:
        what = refusal("neuron.own-step", said=said, does=refused)
        if isinstance(refused, ChangesError):
            return None, [SteppingRejected("", what, _OR_SWITCH.format(said))]
    except OSError as error:
        what = refusal("neuron.own-step-unreadable", said=said, error=error)
    return None, [Rejected("", what, _WAY_OUT.format(said))]


def stepping_of(model: ModelRead) -> Callable[[], list[object]]:
    """Return a function that reads what has to stay, so that a model is still as it was read."""
    h, memory = model.h, model.memory

    def read() -> list[object]:
        at = [memory.procedure(name) for name in STEPPING if h.name_declared(name) == 1]
        codes = [words_at(begin, size) for begin, size in at]
        stepping, rejected = read_stepping(model)
        found = None if stepping is None else (stepping.procedure, stepping.reads)
        return [at, codes, found, rejected]

    return read


class _OfModel:
    """Judges what code does, by the model; see `Judge` of `following`."""

    def __init__(self, model: ModelRead) -> None:
        self._model, self._memory = model, model.memory
        self.code = code_for(partial(HocCode, model.h, model.memory))
        self.acts = False
        self._stops = self._draws = False
        self._changes = ""
        self.assigned, self.of_none = False, set[str]()
        self._steps = dict[tuple[int, str], bool]()  # of procedures: whether they take one
        self._reads = dict[Place, Variable]()
        self._variables = set[tuple[str, str]]()  # of which all instances are read
        self._checked = set[tuple[str, str]]()
        self._points = dict[tuple[str, str], dict[int, dict[Place, Variable]]]()  # by address
        self._block: Callable[[], int] | None = None

    def found(self, own: list[str]) -> Stepping | None:
        h, name = self._model.h, "advance" if own == ["advance"] else "step"
        parts = [name] if name in own else ["advance", "Plot"]  # of stdrun.hoc's step()
        takes, *also = [self.call(self.code.top(part), "") for part in parts]
        if not takes:
            raise RefusedError(f"takes no step by {_STEP}()")
        if any(also):
            raise RefusedError("takes several steps")
        if self._draws and self._memory.integer("hoc_usegui") and (self.acts or self._changes):
            raise RefusedError("draws in a window, and does more")
        if self.assigned and self.of_none - {*_OF_NETCON}:
            raise RefusedError("sets an objref")
        if self._changes:
            raise ChangesError(self._changes)
        together = getattr(h, "nstep_steprun", 1)
        if together != 1 and (name == "step" or self._stops or self._block):
            raise RefusedError(f"needs nstep_steprun = 1, which is {together:g}")
        if not self.acts:
            return None
        if self._stops and on_ranks(h):
            raise RefusedError("sets stoprun on several MPI ranks; expected one process")
        return Stepping(name, self._reads, self._block)

    # -- variables of hoc ------------------------------------------------------------------------

    def call(self, procedure: Symbol, owner: str) -> bool:
        """Follow what a procedure, or a function of NEURON, does; whether it takes a step."""
        kinds, name = self.code.kinds, procedure.name
        if procedure.kind in (kinds["proc"], kinds["func"]):
            key = procedure.address, owner if self._is_member(procedure, owner) else ""
            if key not in self._steps:
                self._steps[key] = False  # where it calls itself
                self._steps[key] = Follower(self, procedure, key[1]).follow()
            return self._steps[key]
        no_function = [kinds[k] for k in ("variable", "range", "string", "object")]
        if procedure.kind in no_function or name not in _PURE | _WRITES | {_STEP}:
            raise RefusedError(f"calls {name}()")
        self.acts |= name in _WRITES
        return name == _STEP

    def assign(self, symbol: Symbol) -> None:
        if symbol.name == "stoprun" and symbol.subtype == self.code.subtypes["integer"]:
            self._stops = True
        elif symbol.kind != self.code.kinds["variable"]:
            raise RefusedError(f"sets {symbol.name}")
        elif symbol.subtype or symbol.name in _ASKED:
            self.change(f"sets {symbol.name}")
        self.acts = True

    def change(self, what: str) -> None:
        """Take down the first of what is done that is seen where it is done between steps."""
        self._changes = self._changes or what

    def evaluate(self, symbol: Symbol) -> None:
        if symbol.kind != self.code.kinds["variable"]:
            raise RefusedError(f"reads {symbol.name}")
        if symbol.name in {player.variable.name for player in self._model.plays.of_hoc}:
            self.change(f"reads {symbol.name}, which Vector.play sets")
        if symbol.subtype != self.code.subtypes["number"] or symbol.name in _CONSTANTS:
            return
        for name, mechanism in self._model.mechanisms.items():
            known = (q.name for q in mechanism.program.parameters if q.is_global)
            if symbol.name in {f"{variable}_{name}" for variable in known}:
                return
        self.change(f"reads {symbol.name}, which a step may change")

    # -- variables of the model ------------------------------------------------------------------

    def sections_of(self, symbol: Symbol, owner: str) -> NamedSections:
        if self._is_member(symbol, owner):
            return NamedSections(frozenset(self.code.instances(owner)), symbol.name)
        return NamedSections(None, symbol.name)

    def range(self, name: str, sections: NamedSections, x: float | None) -> None:
        """Let code read a variable of sections, by its name in hoc; x: None of anywhere."""
        contents = self._model.contents
        if name in _STAYS:
            return
        found = self._in_sections(name, sections, x)
        if found:
            self._read(found)
            return
        if name in ("v", "i_membrane_"):
            self._read_all("", name.rstrip("_"), lambda _, own: of_nodes(self._model, own))
            return
        for ion in contents.ions.values():
            if name in (f"e{ion.name}", f"{ion.name}i", f"{ion.name}o", f"i{ion.name}"):
                self._read_all(ion.name + ION, name, partial(self._of_instances, ion.instances))
                return
        for owner, instances in contents.density.items():
            variable = name.removesuffix(f"_{owner}")
            if variable != name and variable in instances.entry.ranges:
                self._variable(owner, variable)
                return
        raise RefusedError(f"reads {name}; expected v or a RANGE variable of the model")

    def _variable(self, owner: str, name: str, thing: int = 0) -> None:
        """Let code read a RANGE variable of a mechanism, by its name in the file; of one point."""
        if owner not in self._model.every:
            raise RefusedError(f"reads {name} of {owner}, which is not simulated")
        if owner not in self._model.mechanisms:
            return  # it is rejected itself
        instances = self._model.every[owner]
        if not thing:
            self._read_all(owner, name, partial(self._of_instances, instances))
            return
        if (owner, name) not in self._points:
            numbers = {one: k for k, one in enumerate(instances.objects.tolist())}
            of_each = dict[int, dict[Place, Variable]]()
            for place, variable in self._of_instances(instances, owner, name).items():
                of_each.setdefault(variable.number, {})[place] = variable
            self._points[owner, name] = {one: of_each[k] for one, k in numbers.items()}
        if thing not in self._points[owner, name]:
            raise RefusedError(f"reads {name} of a {owner} that is at no segment")
        self._read(self._points[owner, name][thing])

    def _read_all(
        self, owner: str, name: str, find: Callable[[str, str], dict[Place, Variable]]
    ) -> None:
        if (owner, name) not in self._variables:
            self._variables.add((owner, name))
            self._read(find(owner, name))

    def _read(self, reads: dict[Place, Variable]) -> None:
        for owner, name in {(v.owner, v.name) for v in reads.values()} - self._checked:
            self._check_time(owner, name)
            self._checked.add((owner, name))
        read = {(v.owner, v.name, v.number) for v in reads.values()}
        for player in self._model.players:
            of = player.variable
            if (of.owner, of.name, of.number) in read:
                self.change(f"reads {of.name} of {of.owner}, which {player.what} sets")
        self._reads.update(reads)
        self.acts = True

    def _check_time(self, owner: str, name: str) -> None:
        """Refuse what the code may find otherwise than Vectors record it.

        NEURON records before it delivers the events of the second half of a step.
        """
        model, of = self._model, f" of {owner}" if owner else ""
        if (owner, name) == ("", "v"):
            late = [n for n, m in model.mechanisms.items() if m.program.sets_v]
        else:
            own = model.mechanisms.get(owner)
            late = [owner] if own and name in set_by_events(own.program) else []
        if late:
            self.change(f"reads {name}{of}, which events of {late[0]} set late in a step")

    def _in_sections(
        self, name: str, sections: NamedSections, x: float | None
    ) -> dict[Place, Variable]:
        """Return a variable in segments; none where these, or it, are not found at once."""
        h, found = self._model.h, dict[Place, Variable]()
        if not sections.name:
            return found
        owners = [h] if sections.things is None else self._handles(sections.things)
        try:
            every = [getattr(owner, sections.name) for owner in owners]
            parts = [[one] if hasattr(one, "nseg") else list(one) for one in every]
            for section in (section for part in parts for section in part):
                if x in (0.0, 1.0) and name != "v":  # hoc takes the nearest segment there
                    return {}
                for segment in section.allseg() if x is None else [section(x)]:
                    place = self._memory.known_place(segment, name)
                    variable = None if place is None else self._model.places.find(place)
                    if place is None or variable is None or variable.number < 0:
                        return {}
                    if variable.place is not None:  # of an array, whose others may be read
                        return {}
                    found[place] = variable
        except (AttributeError, LookupError, TypeError, ValueError):
            return {}
        return found

    def _handles(self, things: frozenset[int]) -> list[Hoc]:
        """Return objects of hoc, by their addresses."""
        names = {self.code.template_of(thing).name for thing in things}
        every = (one for name in names for one in self._model.h.List(name))
        return [one for one in every if self._memory.object_of(one) in things]

    def _of_instances(self, instances: Instances, owner: str, name: str) -> dict[Place, Variable]:
        """Return the variables of a name of all instances, by place."""
        size = instances.entry.ranges.get(name, 1)
        at = self._memory.known_place(instances.things[0], name, size)
        if at is None or not at.column or not at.row:
            raise RefusedError(f"reads {name} of {owner}, which is not found in NEURON's memory")
        return {
            Place(at.column, row, k, at.size): Variable(owner, name, j, k if size > 1 else None)
            for j, row in enumerate(instances.columns.rows.tolist())
            for k in range(size)
        }

    # -- objects ---------------------------------------------------------------------------------

    def objects_of(self, symbol: Symbol, owner: str) -> set[int]:
        """Return the objects that an objref has: of the top level, or of all objects of a class."""
        owners = self.code.instances(owner) if self._is_member(symbol, owner) else None
        return self._usable({*self.code.objects_in(symbol, owners)})

    def instances_of(self, symbol: Symbol) -> set[int]:
        return self._usable({*self.code.instances(symbol.name)})

    def _usable(self, things: set[int]) -> set[int]:
        for thing in things:
            is_vector = self.code.template_of(thing).name == "Vector"
            if is_vector and self.code.inside_of(thing) in self._vectors:
                what = "uses a Vector that records, is played or is a mechanism's"
                if self.code.inside_of(thing) not in self._recording:
                    raise RefusedError(what)
                self.change(what)
        return things

    def _is_member(self, symbol: Symbol, owner: str) -> bool:
        some = self.code.instances(owner) if owner else []
        template = self.code.template_of(some[0]) if some else None
        return template is not None and self.code.has(template, symbol)

    @cached_property
    def _recording(self) -> set[int]:
        """C++ objects that record and do nothing else, by address."""
        model = self._model
        every = {one.address for one in model.plays.recorders}
        for origin in model.wires.origins:
            every |= {origin.times, origin.numbers}
        return every - {*model.plays.watched} - self._held

    @cached_property
    def _held(self) -> set[int]:
        return held_vectors(self._model)

    @cached_property
    def _vectors(self) -> set[int]:
        return used_vectors(self._model)

    def member(self, thing: int, name: str, is_set: bool) -> OnStack:
        """Let code use a member of an object, and return what it is."""
        template = self.code.template_of(thing)
        own = template.name
        if own == "PythonObject":
            self._python(thing, name, is_set)
            return None
        if own == "NetCon" and name in _OF_NETCON:
            self.change(f"uses {own}.{name}")
            return None
        if own not in _METHODS:
            return self._of_template(template, thing, name, is_set)
        if name not in _METHODS[own]:
            raise RefusedError(f"calls {own}.{name}()")
        is_drawing = _METHODS[own] is _DRAWING
        self._draws |= is_drawing
        self.acts |= own in ("Vector", "File")
        if own == "List" and name in _ITEM:
            items = self.code.in_list(thing)
            if items is None:
                raise RefusedError(f"uses {own}.{name}() of objects that are Python's")
            return self._usable({*items})
        return ANY if (own, name) == ("SectionRef", "sec") else None

    def _of_template(self, template: Template, thing: int, name: str, is_set: bool) -> OnStack:
        """Let code use a member of an object of a class of hoc's, or a point process."""
        own, kinds = template.name, self.code.kinds
        try:
            symbol = self.code.member(template, name)
        except OSError:
            raise RefusedError(f"uses {own}.{name}") from None
        if own in self._model.contents.points:
            if name in _OF_POINT:
                return None
            if symbol.kind != kinds["range"]:
                raise RefusedError(f"calls {own}.{name}()")
            if is_set:
                self.change(f"sets {own}.{name}")
                return None
            self._variable(own, name, thing)
            return None
        if not template.size or template.is_point:
            raise RefusedError(f"uses {own}.{name}")
        if symbol.kind in (kinds["proc"], kinds["func"]):
            if self.call(symbol, own):
                raise RefusedError(f"takes a step in {own}.{name}()")
            return None
        if symbol.kind in (kinds["variable"], kinds["string"]):
            self.acts |= is_set
            if symbol.subtype:
                raise RefusedError(f"uses {own}.{name}")
            return None
        if is_set or symbol.value & 0xFFFFFFFF >= template.size:
            raise RefusedError(f"sets {own}.{name}" if is_set else f"uses {own}.{name}")
        if symbol.kind == kinds["object"]:
            return self._usable({*self.code.objects_in(symbol, [thing])})
        return NamedSections(frozenset([thing]), name)

    def _python(self, thing: int, name: str, is_set: bool) -> None:
        """Let code call BMTK's function of each step, and no other Python."""
        code = self.code
        if is_set or not bmtk.is_called(self._model.h, name):
            raise RefusedError(f"calls Python: {name}")
        if thing not in code.objects_in(code.top("pysim"), None):
            raise RefusedError(f"calls Python: {name}")
        try:
            model = self._model
            self._read(bmtk.reads(model.h, self._memory, model.places))
        except InputError as error:
            raise RefusedError(str(error)) from None
        self._block = partial(bmtk.steps_of_block, self._model.h)
        self.acts = True


def of_nodes(model: ModelRead, name: str) -> dict[Place, Variable]:
    """Return ``v``, or ``i_membrane``, of all nodes that have it, by place."""
    tree = model.tree
    column, addresses, numbers = tree.v, tree.addresses, tree.numbers
    if name != "v":
        place = model.memory.known_place(next(iter(tree.sections[0])), "i_membrane_")
        if place is None or not place.column:
            raise RefusedError("reads i_membrane_; expected CVode.use_fast_imem(1)")
        column, addresses, numbers = place.column, tree.inner, tree.inner_numbers
    rows = model.fields.rows_at(addresses).tolist()
    nodes = zip(rows, numbers.tolist(), strict=True)
    return {Place(column, row, 0): Variable("", name, node) for row, node in nodes}


def held_vectors(model: ModelRead) -> set[int]:
    """Return Vectors that point processes may have, by address."""
    known, found = model.memory.vectors(), set[int]()
    for instances in model.contents.points.values():
        if "VERBATIM" in instances.entry.text:
            found.update(*(held(model.memory, one, known) for one in instances.things))
    return found


def used_vectors(model: ModelRead) -> set[int]:
    """Return C++ objects that record, are played, or that mechanisms have, by address."""
    found = {*model.plays.in_use} | held_vectors(model)
    for origin in model.wires.origins:
        found |= {origin.times, origin.numbers}
    texts, every = (i.entry.text for i in model.every.values()), model.memory.vectors()
    if any("FUNCTION_TABLE" in text for text in texts):
        found |= {*every}  # any of them
    for at in every if model.written.elements else ():
        begin, end = words_at(model.memory.vector_words(at), 2)
        if any(begin <= element < end for element in model.written.elements):
            found.add(at)
    return found - {0}


def set_by_events(program: Program) -> set[str]:
    """Return names of variables that NET_RECEIVE sets."""
    set_ = {
        argument.name
        for block, arguments in program.blocks.items()
        if block == "receive" or block.startswith("for_netcons")
        for argument in arguments
        if argument.direction != "in"
    }
    return {(q.public or q.name).split("[")[0] for q in program.states if q.name in set_}

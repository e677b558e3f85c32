"""The catalogue of refusals: parts of NEURON models that are not supported, and alternatives.

Each has an id, a sentence with fields in braces, and a way out. `refusal` fills in the fields and
returns a text that knows its id. `clhines.neuron.check` lists refusals, `run` and `from_neuron`
raise them, the switch leaves such models to NEURON, and ``docs/refusals.md`` prints all.

>>> refusal("mod.table-with", n=0).id
'mod.table-with'
"""

from __future__ import annotations

from typing import NamedTuple


class Refusal(NamedTuple):
    """The message for something that is not supported: a sentence with fields in braces.

    `way_out` says what a user can do in its place; it may be empty.
    """

    sentence: str
    way_out: str = ""


class Sentence(str):
    """A sentence from the catalogue with its fields filled in, its id and its alternative."""

    __slots__ = ("id", "way_out")
    id: str
    way_out: str

    def __reduce__(self) -> tuple[object, ...]:
        return _sentence, (str(self), self.id, self.way_out)


def _sentence(text: str, id_: str, way_out: str) -> Sentence:
    made = Sentence(text)
    made.id, made.way_out = id_, way_out
    return made


def refusal(id_: str, /, **fields: object) -> Sentence:
    """Return the catalogue's sentence with this id, with its fields filled in."""
    entry = REFUSALS[id_]
    return _sentence(entry.sentence.format(**fields), id_, entry.way_out)


def id_of(text: str) -> str:
    """Return the id of the catalogue's sentence; "" for other texts."""
    return text.id if isinstance(text, Sentence) else ""


def sentence_of(error: Exception) -> Sentence:
    """Return the catalogue's sentence that an error was raised with, or the error's message."""
    first = error.args[0] if error.args else ""
    return first if isinstance(first, Sentence) else refusal("network.message", message=error)


def way_out_of(text: str) -> str:
    return text.way_out if isinstance(text, Sentence) else ""


# fmt: off
REFUSALS = {
    # .mod files
    "mod.array-size": Refusal("an array of {value} elements; expected 1 to 10000"),
    "mod.block-called": Refusal("{sort} {name} is called", "call a PROCEDURE or a FUNCTION"),
    "mod.call-in-block": Refusal("{name} in {where}", "call it in INITIAL or NET_RECEIVE"),
    "mod.called-arguments": Refusal("{name} is called with {count} arguments"),
    "mod.called-with": Refusal("{name} is called with {got}", "call it with the arguments of its block"),
    "mod.calls-itself": Refusal("{name} calls itself", "write a loop"),
    "mod.changed-in-turn": Refusal("all instances share '{name}', and each one changes it", "declare it in RANGE"),
    "mod.conserve-again": Refusal("a CONSERVE whose states all appear in later CONSERVE statements", "leave it out"),
    "mod.conserve-no-state": Refusal("CONSERVE of '{e}', which is not a STATE"),
    "mod.constant-set": Refusal("the constant '{name}' is set", "declare it in ASSIGNED"),
    "mod.constructor": Refusal("{name} with statements", "write them in INITIAL"),
    "mod.declared-twice": Refusal("'{name}' is declared twice", "leave one out"),
    "mod.derivative-has-no-rate": Refusal("DERIVATIVE {name} has no rate"),
    "mod.derivative-order": Refusal("a derivative of order {primes}", "declare one state for each order"),
    "mod.diffusion-depends": Refusal("{of} or COMPARTMENT depends on '{shown}'", "let it depend on parameters only"),
    "mod.diffusion-in-if": Refusal("LONGITUDINAL_DIFFUSION in IF or FROM", "write it outside"),
    "mod.diffusion-in-kind": Refusal("{of} in a {kind} process", "use SUFFIX"),
    "mod.diffusion-of-no-state": Refusal("{of}, which is not a STATE"),
    "mod.diffusion-sets": Refusal("{of} or COMPARTMENT calls a function that sets variables", "write the expression itself"),
    "mod.diffusion-without-compartment": Refusal("{of}, which no COMPARTMENT before it has", "write COMPARTMENT first"),
    "mod.draw-in-block": Refusal("{value} in {where}, where NEURON may execute it several times in a step", "draw it in a PROCEDURE or in INITIAL"),
    "mod.equation-in-if": Refusal("an equation in an IF", "write the IF before the equations"),
    "mod.equations-states": Refusal("{count} equations for {count2} states", "write as many equations as states"),
    "mod.event-in-initial-of-net-receive": Refusal("an event is sent in INITIAL of NET_RECEIVE", "send it in INITIAL of the file"),
    "mod.event-in-while": Refusal("an event is sent in a loop whose length depends on values", "use FROM with numbers, and IF"),
    "mod.expression": Refusal("an expression: {error}"),
    "mod.external": Refusal("EXTERNAL {name}, a variable of another file", "declare it in this file"),
    "mod.for-netcons-arguments": Refusal("FOR_NETCONS with more arguments than NET_RECEIVE"),
    "mod.for-netcons-flag": Refusal("FOR_NETCONS with an argument that is called flag", "rename it"),
    "mod.for-netcons-order": Refusal("FOR_NETCONS sets '{name}', which the event has set or uses there"),
    "mod.for-netcons-sets": Refusal("FOR_NETCONS that sets '{name}'", "set weights only"),
    "mod.from-bounds": Refusal("FROM that changes its own bounds", "assign the bounds to LOCAL variables"),
    "mod.from-by-zero": Refusal("FROM with BY 0"),
    "mod.from-step-not-constant": Refusal("FROM with a step that is not constant", "use constants"),
    "mod.from-turns": Refusal("FROM with {count} iterations; expected at most {most}"),
    "mod.function-of-neuron": Refusal("the function {name}, which is built into NEURON", "write it in NMODL"),
    "mod.function-table-arguments": Refusal("FUNCTION_TABLE {name} is called with {count} arguments", "call it with one argument for each axis of its table"),
    "mod.function-table-without-table": Refusal("FUNCTION_TABLE {name} without a table"),
    "mod.hoc-execerror": Refusal("an error that the file raises, hoc_execerror", "see the condition in the file"),
    "mod.include": Refusal("INCLUDE \"{name}\": {error}"),
    "mod.include-within-others": Refusal("INCLUDE within {max_includes} others"),
    "mod.index-not-constant": Refusal("an index that is not constant", "use numbers, or FROM with constant bounds"),
    "mod.index-outside": Refusal("{name}[{index}], but '{name}' has {length} elements"),
    "mod.kinetic-no-equation": Refusal("no equation for '{key}' in KINETIC: its COMPARTMENT or its factor in CONSERVE is 0"),
    "mod.kinetic-states": Refusal("KINETIC of {count} states; expected at most {most}"),
    "mod.kinetic-without-states": Refusal("KINETIC {name} without a reaction of states"),
    "mod.loop-after-for-netcons": Refusal("a WHILE or FROM uses what FOR_NETCONS has changed", "write it before FOR_NETCONS"),
    "mod.loop-in-loop": Refusal("nested loops that both end depending on values: WHILE, FROM, or an iteration of SOLVE", "give one of them constant bounds"),
    "mod.name-as-number": Refusal("{what} {name} as a number"),
    "mod.net-send-arguments": Refusal("net_send without its two arguments", "write net_send(delay, flag)"),
    "mod.net-send-delay": Refusal("net_send({first} {sign} ...): NEURON puts t + before the loop's {first}"),
    "mod.neuron-block": Refusal("'{word}' in the NEURON block, which is not a NEURON keyword"),
    "mod.neuron-refuses": Refusal("{what}; NEURON refuses it, too"),
    "mod.newton-states": Refusal("a nonlinear system of {size} states; expected at most {most}"),
    "mod.no-array": Refusal("'{name}' is not an array"),
    "mod.no-suffix": Refusal("no SUFFIX, POINT_PROCESS or ARTIFICIAL_CELL", "name the mechanism in the NEURON block"),
    "mod.not-declared": Refusal("'{name}' is not declared", "declare it in PARAMETER, ASSIGNED, STATE or LOCAL"),
    "mod.not-random": Refusal("{function} of '{name}', which is not RANDOM", "declare it by RANDOM in the NEURON block"),
    "mod.one-generator": Refusal("{name}, which draws from the generator that all mechanisms share, in the order of calls"),
    "mod.order-of-arguments": Refusal("arguments of one call that draw or set variables: C does not define their order", "assign them to LOCAL variables before the call"),
    "mod.pointer-in-two-blocks": Refusal("POINTER {name} is written in BREAKPOINT and in another block", "write it in BREAKPOINT only"),
    "mod.pointer-of-net-receive": Refusal("POINTER {name}, which NET_RECEIVE writes, is used elsewhere, too", "use it in NET_RECEIVE only"),
    "mod.pointer-used-in": Refusal("POINTER {name} is {does} in {where}", "set it without reading it, or add to it in AFTER SOLVE"),
    "mod.pointer-written": Refusal("POINTER {name} is written in {block}", "write it in INITIAL, BREAKPOINT or NET_RECEIVE"),
    "mod.pointer-written-read": Refusal("POINTER {name} is written and read", "use two POINTERs"),
    "mod.power-method-cnexp": Refusal("a power of {name} in {name}' with METHOD cnexp", "use derivimplicit"),
    "mod.power-of-numbers": Refusal("({value:g})^{value2:g} is not a real number"),
    "mod.random-arguments": Refusal("{function} is called with {count} arguments"),
    "mod.random-ids": Refusal("{function}", "set it by NEURON's set_ids or by Network.random"),
    "mod.random-number-factor": Refusal("a random number that is a factor of {name} in {name}'", "use derivimplicit"),
    "mod.rate-in-expression": Refusal("{name}' in an expression", "assign the rate to a variable, and use that in both places"),
    "mod.rate-in-if": Refusal("{name}' in an IF", "use METHOD cnexp"),
    "mod.rate-without-brackets": Refusal("a rate that is a sum or a comparison, of which NEURON uses only the last part", "put it in brackets"),
    "mod.reaction-in-if": Refusal("{what} in an IF", "set its rates to 0 there"),
    "mod.second-block": Refusal("a second block '{name}'", "join the two"),
    "mod.second-diffusion": Refusal("a second {of}", "join the two"),
    "mod.set-after-use": Refusal("{name} sets '{shown}' after using it, so that NEURON's iterations use the value of the previous iteration", "set it before the rates"),
    "mod.set-seed": Refusal("set_seed in {where}", "call it in INITIAL"),
    "mod.singular": Refusal("a system of equations that is singular for all coefficients", "write one equation for each state"),
    "mod.solve-in-loop": Refusal("SOLVE {name} in a loop or a procedure", "write it in BREAKPOINT or INITIAL"),
    "mod.solve-method": Refusal("SOLVE {name} with METHOD {method}", "use cnexp, derivimplicit, sparse or euler"),
    "mod.solve-no-block": Refusal("SOLVE {name}, which is not a block"),
    "mod.solve-of-block": Refusal("SOLVE of {sort} {name}", "use DERIVATIVE, KINETIC, LINEAR or PROCEDURE"),
    "mod.statement-in-block": Refusal("{kind} in {where}", "write it in NET_RECEIVE"),
    "mod.statement-outside-block": Refusal("{what} outside of {ruled}"),
    "mod.steadystate-derivative": Refusal("STEADYSTATE {method} of DERIVATIVE {name}", "use KINETIC"),
    "mod.steadystate-secondorder": Refusal("STEADYSTATE in BREAKPOINT with secondorder", "set secondorder = 0"),
    "mod.steadystate-set-after-use": Refusal("STEADYSTATE of KINETIC {name}, which sets '{shown}' after using it", "set it before the reactions"),
    "mod.syntax": Refusal("{what}: this is not NMODL"),
    "mod.table": Refusal("TABLE of {name} depends on '{variable}', which changes", "set usetable = 0"),
    "mod.table-arguments": Refusal("TABLE in a block of {count} arguments; expected one"),
    "mod.table-changes": Refusal("TABLE of {name}, which NEURON computes again when {value} changes"),
    "mod.table-holds": Refusal("TABLE of {name} with the parameter {variable}, which {name} does not set", "leave it out"),
    "mod.table-rows": Refusal("TABLE of {name} whose rows differ from those in NEURON's memory"),
    "mod.table-secondorder": Refusal("TABLE of {name} depends on dt, which secondorder halves", "set secondorder = 0"),
    "mod.table-with": Refusal("TABLE WITH {n}; expected 1 to 1000000"),
    "mod.table-without-names": Refusal("TABLE of {name} without names"),
    "mod.text-expression": Refusal("a text in an expression", "use numbers"),
    "mod.too-deep": Refusal("{what} within each other", "split the expression, the block or the calls"),
    "mod.too-many-statements": Refusal("more than {max_executed} statements are executed", "use fewer iterations or calls"),
    "mod.too-much-text": Refusal("more than {most} characters, with included files", "split the file"),
    "mod.two-kinetic": Refusal("KINETIC {name}, in a file with two", "put all reactions in one: NEURON's code for two loses states"),
    "mod.units-no-multiple": Refusal("UNITS ({first}) is not a multiple of ({second})"),
    "mod.unknown-function": Refusal("the function {name}, which the file does not define"),
    "mod.unknown-unit": Refusal("unknown unit in UNITS ({text})", "write the number instead"),
    "mod.used-before-for-netcons": Refusal("'{name}' is used before FOR_NETCONS changes it", "use it after FOR_NETCONS"),
    "mod.v-artificial-cell": Refusal("v in an ARTIFICIAL_CELL, which has no voltage", "use POINT_PROCESS"),
    "mod.v-of-event": Refusal("v in {call}, which is the voltage of the previous step when an event calls it", "use v in NET_RECEIVE, too, or as an argument"),
    "mod.v-set-in-call": Refusal("v is set in {call}, but not in NET_RECEIVE, which calls it", "set v in NET_RECEIVE itself"),
    "mod.v-set-in-loop": Refusal("v is set in a loop", "set a LOCAL there, and v after the loop"),
    "mod.v-set-net-receive": Refusal("v is set in {inner} of NET_RECEIVE", "set it in NET_RECEIVE itself"),
    "mod.variable-set": Refusal("'{name}' is set, which belongs to NEURON", "declare another variable"),
    "mod.verbatim": Refusal("VERBATIM", "write it in NMODL"),
    "mod.verbatim-return": Refusal("VERBATIM: a return there", "write it in NMODL"),
    "mod.verbatim-return-beside-local": Refusal("VERBATIM: a return beside a LOCAL", "declare it above"),
    "mod.watch-condition": Refusal("WATCH of an expression that is not a comparison", "write WATCH (a > b) flag"),
    "mod.watch-flag": Refusal("WATCH with a flag that is not constant", "write a number"),
    "mod.watch-ion": Refusal("WATCH on {name}, a variable of an ion: NEURON compares the file's own copy of it", "watch another variable, which BREAKPOINT sets to it"),
    "mod.while-turns": Refusal("WHILE with more than {max_turns} iterations"),
    # models in NEURON's memory
    "neuron.acting-object": Refusal("{name}"),
    "neuron.bmtk-advance": Refusal("advance() of BMTK: it {error}"),
    "neuron.copies-pointer-in-net-receive": Refusal("copies of a model with POINTER {pointer}, which NET_RECEIVE writes"),
    "neuron.custom-step": Refusal("{name}() of the model's own, which hoc calls in each step: it is not {expected} alone", "do it between runs"),
    "neuron.cvode-event-point-process": Refusal("CVode.event with a statement and a point process, at t = {t:g} ms", "leave the point process out"),
    "neuron.cvode-event-statement": Refusal("CVode.event with a statement, at t = {t:g} ms", "use clhines.neuron.run, or call it between runs"),
    "neuron.cvode-queue-mode": Refusal("CVode.queue_mode", "CVode().queue_mode(0, 0), finitialize()"),
    "neuron.cvode-variable-time-steps": Refusal("CVode: variable time steps", "h.CVode().active(0), or fixed_step="),
    "neuron.electrode-depends-on-v": Refusal("an ELECTRODE_CURRENT that depends on v, where {potential} is not 0", "use it only in sections where that is 0"),
    "neuron.electrode-in-layers": Refusal("{what} with {layers}", "expected an IClamp"),
    "neuron.event-overdue": Refusal("an event for t = {t:g} ms, which is overdue", "let NEURON take a step"),
    "neuron.events-unreadable": Refusal("net_send or WATCH: NEURON's memory cannot be read: {error}"),
    "neuron.extracellular-current-at-end": Refusal("a current of the membrane at an end of a section with extracellular", "put it into a segment"),
    "neuron.extracellular-layers": Refusal("{outside} with {layers}, {shown}"),
    "neuron.from-neuron-advance": Refusal("{procedure}", "use clhines.neuron.run"),
    "neuron.kschan": Refusal("KSChan {error}"),
    "neuron.kschan-hides-variable": Refusal("variable {variable} of a make_pointprocess mechanism hides the variable of segments in Python", "rename it"),
    "neuron.local-unreadable": Refusal("LOCAL {base}, which is not found in NEURON's memory", "declare it in RANGE"),
    "neuron.mcell-ran4": Refusal("random numbers of mcell_ran4", "call use_mcell_ran4(0)"),
    "neuron.mechanism-without-nmodl": Refusal("{name}, a mechanism without NMODL{what}", "write it as a .mod file"),
    "neuron.netcon-record-gid": Refusal("NetCon.record of gid {gid}, of another rank", "record it on that rank"),
    "neuron.netcon-record-statement": Refusal("NetCon.record of a statement or a function", "record into a Vector"),
    "neuron.netcon-source": Refusal("NetCon of {what}"),
    "neuron.netcon-target-unlocated": Refusal("{every}: its target {every2} is not at a segment"),
    "neuron.netrec-state-adjust": Refusal("nrn_netrec_state_adjust, which changes states that events set", "set it to 0"),
    "neuron.nonvint-block-supervisor": Refusal("nonvint_block_supervisor: NEURON calls its functions {inside}"),
    "neuron.not-in-from-neuron": Refusal("{what}", "use clhines.neuron.run"),
    "neuron.old-bins": Refusal("CVode.queue_mode(1, 0) where t or dt was set, or the model was stepped otherwise, since finitialize()", "queue_mode(0, 0) before finitialize(), or leave t and dt as they are"),
    "neuron.old-stimulus": Refusal("{name}, of NEURON's first versions"),
    "neuron.other-rank": Refusal("{error}", "see that rank"),
    "neuron.outside-secondorder": Refusal("{what} with secondorder = {order:g}", "set secondorder to 0"),
    "neuron.parallelcontext": Refusal("ParallelContext.{what}"),
    "neuron.patternstim": Refusal("{one}"),
    "neuron.patternstim-on-ranks": Refusal("PatternStim on several MPI ranks", "use VecStim"),
    "neuron.pending-event-in-no-bin": Refusal("a pending NetCon.event outside the bins of CVode.queue_mode(1, 0)", "CVode().queue_mode(0, 0), finitialize()"),
    "neuron.pending-event-weights": Refusal("a pending event whose NetCon has weights that events change"),
    "neuron.pending-self-event": Refusal("a pending self event whose NetCon has no source that sends", "start from h.finitialize()"),
    "neuron.play-into-hoc": Refusal("{what} into {name}", "expected a parameter of a mechanism"),
    "neuron.play-into-no-parameter": Refusal("{what} into {name}, which is not a parameter of a mechanism"),
    "neuron.played-twice": Refusal("{what} into {name}, into which a Vector is played, too", "play one of them"),
    "neuron.pointer-depends-on-i-membrane": Refusal("POINTER {pointer} points to {name}, which depends on i_membrane"),
    "neuron.pointer-in-net-receive-on-ranks": Refusal("a POINTER that NET_RECEIVE writes, on several MPI ranks"),
    "neuron.pointer-sum-not-reset": Refusal("a POINTER adds to an element of a Vector that no BEFORE BREAKPOINT sets"),
    "neuron.pointer-target": Refusal("POINTER {pointer} points to {what}"),
    "neuron.pointer-to-constant": Refusal("POINTER {pointer} points to {variable} of {owner}, which is set from outside", "let it point to another variable"),
    "neuron.pointer-to-extracellular": Refusal("POINTER {pointer} points to {name} of extracellular{also}"),
    "neuron.pointer-to-no-stream": Refusal("{name} points to memory that is no stream of random numbers"),
    "neuron.pointer-to-no-weight": Refusal("{what} with a source"),
    "neuron.pointer-to-played-random": Refusal("POINTER {variable} to a Random that is played, too", "use two Randoms"),
    "neuron.pointer-unreadable": Refusal("POINTER {variable}: {error}"),
    "neuron.pointer-without-stream": Refusal("{name} has no stream of random numbers", "give every instance one, for example by its setRNG() or noiseFromRandom(random)"),
    "neuron.pointer-written-target": Refusal("POINTER {pointer}, which is written, points to {memory}"),
    "neuron.pointer-written-to-several": Refusal("POINTER {pointer}, which is written, points to variables of several names"),
    "neuron.potential-depends-on": Refusal("{what} {one}", "expected parameters and t"),
    "neuron.potential-depends-on-i-membrane": Refusal("POINTER {sets} to e_extracellular is set to a value that depends on i_membrane"),
    "neuron.potential-not-finite": Refusal("{potential} in section {section} that is not finite", "set finite numbers"),
    "neuron.potential-not-set-before-step": Refusal("POINTER {sets} to e_extracellular, which no BEFORE BREAKPOINT sets"),
    "neuron.potential-of-channel": Refusal("{which} of a mechanism with currents, states or blocks that run during a step"),
    "neuron.potential-of-several-instances": Refusal("POINTER {sets} of several instances points to one e_extracellular"),
    "neuron.potential-set-twice": Refusal("a POINTER to an {potential} that is played, or set by another mechanism, too"),
    "neuron.rallbranch": Refusal("rallbranch = {rallbranch:g} of section {name}", "make the branches as sections"),
    "neuron.random-distribution": Refusal("{name}: a Random whose distribution is not uniform or negexp", "call its uniform() or negexp()"),
    "neuron.random-generator": Refusal("{name}: a Random whose generator is not Random123", "call its Random123(id1, id2, id3)"),
    "neuron.random-play-into": Refusal("Random.play into {name_of}", "expected a parameter of a mechanism"),
    "neuron.random-play-on-ranks": Refusal("Random.play on several MPI ranks"),
    "neuron.random-play-unreadable": Refusal("Random, which may play: Random.play cannot be seen in NEURON's memory here", "delete it, or run the model on Linux"),
    "neuron.random-words-before-set-ids": Refusal("RANDOM {name} still has random numbers from before the last set_ids()", "call set_seq() after set_ids(), then h.finitialize()"),
    "neuron.rxd-species": Refusal("rxd: species {names}", "write them as .mod files"),
    "neuron.scatter-gather-and-advance": Refusal("{gathered}, and {procedure}", "use one of them"),
    "neuron.scatter-gather-function": Refusal("{line}"),
    "neuron.scatter-gather-unreadable": Refusal("CVode.extra_scatter_gather: this version of NEURON does not show which functions it calls", "install NEURON 9.0"),
    "neuron.secondorder": Refusal("secondorder = {order:g}"),
    "neuron.secondorder-changed": Refusal("secondorder, changed after h.finitialize(): NEURON still steps with the earlier value", "call h.finitialize()"),
    "neuron.shared-generator": Refusal("draws from NEURON's shared generator {of}", "declare a RANDOM variable"),
    "neuron.source-var-extracellular": Refusal("ParallelContext.source_var, which in extracellular is the potential inside", "let a POINTER point to v"),
    "neuron.spike-compress-delay": Refusal("ParallelContext.spike_compress with a smallest delay of {delay:g} ms, which is not a whole number of steps", "spike_compress(0), or delays of whole steps"),
    "neuron.stream-of-another-index": Refusal("{name} has a stream with another global index, or is not a Random123 stream", "call setRNG() after Random123_globalindex()"),
    "neuron.stream-shared": Refusal("several instances share the random stream {name}", "give each a Random or ids of its own"),
    "neuron.table-differs": Refusal("TABLE of {block} depends on '{one}', which differs between instances"),
    "neuron.table-not-filled": Refusal("TABLE of {block}, which NEURON's next step fills", "let NEURON take a step"),
    "neuron.table-played": Refusal("TABLE of {block} depends on {variable}, which Vector.play sets"),
    "neuron.threads": Refusal("threads of NEURON", "ParallelContext().nthread(1), finitialize()"),
    "neuron.time-below-zero": Refusal("h.t is {t:g} ms; expected 0 or more: let NEURON run until 0"),
    "neuron.time-between-steps": Refusal("h.t is {t:g} ms, where no step of h.dt = {dt:g} ms begins, added up from 0 ms; expected h.finitialize() after a change of h.t or h.dt"),
    "neuron.too-many-self-events": Refusal("an instance of {name} has more than {room} pending self events"),
    "neuron.transfer-not-set-up": Refusal("ParallelContext.target_var or source_var after setup_transfer()", "call setup_transfer() again"),
    "neuron.unknown-recorder": Refusal("a Graph or another object that records in each step"),
    "neuron.variable-depends-on-i-membrane": Refusal("{one} keeps its value between steps and depends on i_membrane", "record i_membrane"),
    "neuron.variable-unreadable": Refusal("{base}, which is not found in NEURON's memory", "declare it, or another variable, in RANGE"),
    "neuron.vecstim": Refusal("{error}"),
    "neuron.vector-play-discontinuities": Refusal("Vector.play with indices of discontinuities"),
    "neuron.vector-play-statement": Refusal("Vector.play of a statement", "play into a variable"),
    "neuron.vector-record": Refusal("Vector.record of {name}", "expected v, i_membrane_, t, or a RANGE variable of a mechanism or an ion"),
    "neuron.vector-record-current-twice": Refusal("Vector.record of {current} beside {name}, which writes it and has AFTER SOLVE or BEFORE STEP: NEURON then adds the current twice", "record the mechanism's own variable"),
    "neuron.vector-record-depends-on-i-membrane": Refusal("Vector.record of {name}, which depends on i_membrane", "record i_membrane"),
    "neuron.vector-record-i-membrane-at-joint": Refusal("Vector.record of i_membrane beside a section without, with layers of its own", "record it elsewhere"),
    "neuron.vector-record-not-simulated": Refusal("Vector.record of {name}, which is not simulated"),
    "neuron.vector-record-played": Refusal("Vector.record, {how}", "record it in each step"),
    "neuron.vector-record-set-by-events": Refusal("Vector.record, at intervals or times, of {name}, which events set", "record it in each step"),
    "neuron.vector-record-t-in-psolve": Refusal("Vector.record of h.t at given times, in psolve, where NEURON's h.t does not move", "record it in each step, or use h.continuerun()"),
    "neuron.vector-record-target-var": Refusal("Vector.record of {name}, which target_var does not set to a voltage of this process", "record its source"),
    "neuron.vector-record-twice": Refusal("Vector.record into a Vector of NetCon.record", "use two Vectors"),
    "neuron.vector-times": Refusal("{what} at times that have changed since h.finitialize(), or lack values", "call h.finitialize() after a change"),
    "neuron.vector-unreadable": Refusal("{what} with a deleted Vector"),
    # networks
    "network.called-with": Refusal("{name}: {unle}; it is called with {shown}, as of instance {instance}"),
    "network.engine-steps-bins": Refusal("engine 'steps' takes no events in bins (CVode.queue_mode(1, 0)) with delays of half a step to a step from instances that send; expected 'epochs', or queue_mode(0, 0)"),
    "network.global-differs-after-initial": Refusal("{value} of {name} is {min:g} to {max:g} after INITIAL; expected the same GLOBAL value in all instances, or RANGE in the file"),
    "network.i-membrane-electrode": Refusal("i_membrane where {name} is, an electrode with {what}; expected nodes without such an electrode"),
    "network.i-membrane-layers": Refusal("i_membrane of {where}; expected other nodes"),
    "network.i-membrane-secondorder": Refusal("i_membrane with secondorder; expected secondorder=False"),
    "network.i-membrane-two-currents": Refusal("i_membrane where {name} is; expected an electrode with one current, a RANGE variable"),
    "network.i-membrane-voltage-clamp": Refusal("i_membrane where {name} is, an electrode whose current depends on the voltage; expected nodes without such an electrode"),
    "network.message": Refusal("{message}"),
    "network.pointer-read-at-another-node": Refusal("{said} at another node, which changes in the same part of a step in which it is read; expected one of the same node"),
    "network.pointer-read-in-events": Refusal("{said}, and events read and set it; expected one of them"),
    "network.pointer-reads-written": Refusal("{said}, which pointer {pointer} of {writer} writes; expected one that no pointer sets, read before AFTER SOLVE"),
    "network.pointer-target-not-added-to": Refusal("{said} does more than add to it in {what}"),
    "network.pointer-target-set-twice": Refusal("{said} another pointer sets, too; expected one that sets it"),
    "network.pointer-target-used": Refusal("{said} uses it; expected one that {name} alone sets"),
    "network.pointer-to-same-mechanism": Refusal("{said} itself, where it is read; expected one of another mechanism"),
    "network.pointer-to-two-variables": Refusal("{name}: pointer {name2} points to {state} of {name3}, and to {variable} of {name4}; expected the same variable in all instances"),
    "network.pointer-to-voltages-and-variables": Refusal("{name}: pointer {name2} points to voltages, and to variables; expected voltages or variables"),
    "network.pointer-unset": Refusal("{name}: pointer {name2} of {count} instances is not set; expected set_pointer() for each"),
    "network.pointer-weight-in-bins": Refusal("{own}: {said}, and events are delivered in bins"),
    "network.pointer-weight-same-delay": Refusal("{own}: {said} of a connection that has the source and the delay, {delay:g} ms, of its own events: NEURON leaves their order open; expected different delays"),
    "network.pointer-weight-set-twice": Refusal("{own}: {said} that {name} sets, too"),
    "network.pointer-weight-shared": Refusal("{own}: {said} to which another pointer points, too; expected one pointer for each weight"),
    "network.pointer-written-target": Refusal("{said} and is written; expected a variable of another mechanism to which no other pointer leads: it is one {what}"),
    "network.pointer-written-to-another-cell": Refusal("{said} is in another cell and is written; expected one of its cell"),
    "network.ranks-bins": Refusal("events in bins (CVode.queue_mode(1, 0)) in a network that several ranks split; expected one process"),
    "network.ranks-last-instances": Refusal("GLOBAL variables that instances set in turn in a network that several ranks split; expected one process"),
    "network.ranks-read-pointers": Refusal("pointers to variables of mechanisms in a network that several ranks split; expected one process"),
    "network.ranks-written-pointers": Refusal("pointers that mechanisms write in a network that several ranks split; expected one process"),
    "network.v-set-by-events": Refusal("{name}: v is set in NET_RECEIVE, and {what}"),
    # gradients
    "gradient.block": Refusal("{name}: no derivative of its {block}: {error}"),
    "gradient.choice": Refusal("{value} of {name} decides when something happens or which expression is used; it has no derivative"),
    "gradient.drawn": Refusal("{value} of {name} decides which random number is drawn; it has no derivative"),
    "gradient.event-time": Refusal("{value} of {name} decides when an event is sent; times of events have no derivative"),
    "gradient.for-netcons": Refusal("no gradient with {name}: FOR_NETCONS"),
    "gradient.last": Refusal("no gradient with {name}: each instance sets {value}, which all share"),
    "gradient.field-ra": Refusal("Ra: the currents of {name} depend on it, and are fixed numbers here; expected another quantity, or no field"),
    "gradient.membrane": Refusal("no gradient of a loss of i_membrane; expected records of v"),
    "gradient.needs": Refusal("no gradient of a network with {what}"),
    "gradient.no-record": Refusal("no gradient without a record; expected record() before"),
    "gradient.no-slope": Refusal("{value} has no derivative: delays, thresholds, times and the step are fixed"),
    "gradient.not-finite": Refusal("the derivative by {value}{where} is {got}: an expression overflows, or has no slope where it is evaluated; expected values away from sqrt, log and powers of 0, or float64"),
    "gradient.reduced": Refusal("no gradient of a loss of {name}, whose record keeps only the {how}; expected rows"),
    "gradient.run": Refusal("no gradient of a run with a value that is not finite; run() says where and when"),
    "gradient.several-ra": Refusal("Ra: the cells are not cables with one Ra each; expected another quantity"),
    "gradient.surrogate-exact": Refusal("surrogate of a network whose events act at exact times; expected events in whole steps"),
    "gradient.table": Refusal("{value} of {name}: a TABLE depends on it; expected the file without the TABLE, use_tables=False"),
    "gradient.watch": Refusal("{value} of {name} appears in a WATCH condition; it has no derivative"),
}

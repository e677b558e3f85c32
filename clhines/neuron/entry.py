"""The public functions `run`, `from_neuron` and `check`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from clhines.core.checks import as_switch, as_whole_number
from clhines.core.errors import InputError, RankError, say_to_caller, tell_once
from clhines.core.progress import showing
from clhines.neuron.back.imported import ImportedModel
from clhines.neuron.back.states import (
    changed_since_start,
    sent_at_start,
    step_of,
    take_values,
    voltages,
)
from clhines.neuron.calls import (
    FEW,
    NeuronError,
    RunOptions,
    as_step,
    check_end,
    clock,
    fix_steps,
    steps_until,
)
from clhines.neuron.convert import Rejected, RejectedError, reject
from clhines.neuron.importer import NeuronNetwork, copied, network_of
from clhines.neuron.kept import KeptModel, keep, kept_model
from clhines.neuron.memory.objects import on_ranks
from clhines.neuron.memory.redirect import without_redirects
from clhines.neuron.memory.session import Hoc, uncollected
from clhines.neuron.memory.versions import supported
from clhines.neuron.model import NeuronModel
from clhines.neuron.rank_calls import joined, kept_by_all, ranks_of, same_on, together
from clhines.neuron.read.catalogue import digest_of_texts
from clhines.neuron.read.hooks import GATHERED
from clhines.neuron.reading import read_model, refuse_variable_steps
from clhines.simulator.importing import load_compiler, state_follows
from clhines.simulator.ranks import NO_WORDS, ONE_PROCESS, Joints, Ranks
from clhines.simulator.refusals import sentence_of
from clhines.simulator.simulation import Simulation

_NEW = -65.0  # mV, voltages of sections before h.finitialize()


def check() -> list[Rejected]:
    """List unsupported constructs in NEURON's present model.

    All MPI ranks call it, after ``h.finitialize()``.

    Returns
    -------
    list of Rejected
        Empty if everything is supported; each item prints as one line.
    """
    h = supported()
    with without_redirects(), uncollected():
        # objects that Python deleted while memory is read would be missed
        ranks = ranks_of(h, "clhines.neuron.check()")
        uncalled = list[Rejected]()
        try:
            model = read_model(h, every=True, ranks=ranks)
            uncalled = model.uncalled
            with ranks.agreed():
                if model.rejected:
                    raise RejectedError(model.rejected)
            _try_start(model, ranks)
        except RejectedError as error:
            return error.rejected + uncalled
        except RankError as error:  # the other rank lists its own
            return [reject("", "neuron.other-rank", error=error), *uncalled]
    return uncalled


def _try_start(model: NeuronModel, ranks: Ranks) -> None:
    """Start a run without steps: generate its kernels, but do not compile them."""
    # engines that `auto` tries may not deliver events in bins
    engine = "reference" if model.bins is None else "auto"
    kept, joints = KeptModel(model, RunOptions.of(None, "float64", engine)), Joints(ranks)
    _refuse_unready(kept, ranks)
    with joints.telling():
        try:
            if _is_before_zero(model.h, ranks):
                return  # NEURON takes the steps up to 0 ms, then a run reads the model again
            for kind in begin(kept, joints).model.kinds:
                kind.mechanism.functions("double")
        except InputError as error:
            if isinstance(error, RejectedError):
                raise
            raise RejectedError([Rejected("", sentence_of(error))]) from None
        ranks.exchange(NO_WORDS)  # ranks that have started wait in this exchange


def from_neuron(
    dtype: DTypeLike = "float64",
    device: object = None,
    engine: str = "auto",
    copies: int = 1,
    **options: object,
) -> ImportedModel:
    """Create a simulation from NEURON's present model and state.

    Parameters
    ----------
    dtype, device, engine
        See `Simulation`.
    copies : int
        Number of independent model copies, addressed as ``model[segment, copy]``.
    **options
        Other options of `Simulation`.

    Returns
    -------
    ImportedModel
        ``model.simulation``, and the node of each segment: ``model[segment]``.

    Raises
    ------
    RejectedError
        An `InputError` that lists every construct that is not supported.
    """
    copies = as_whole_number("copies", copies, 1)
    if options.get("comm") is not None:
        raise InputError("from_neuron() is for one process; expected no comm")
    if on_ranks(supported()):
        raise InputError("from_neuron() is for one process; expected clhines.neuron.run on ranks")
    with without_redirects(), uncollected():
        model = read_model(supported())
        model.rejected += _of_run_alone(model)
        arguments = {"device": device, "engine": engine, **options}
        made = _begun(model, dtype, arguments, copies)
        sim, imported = made or _simulation(network_of(model), dtype, arguments, copies)
        unlike = "events on their way" if made is None and model.pending.netcons else ""
        if model.h.t == 0 and (changed := unlike or changed_since_start(sim, imported)):
            start = "reset() starts from v_init and INITIAL, the simulation from present values"
            say_to_caller(f"{changed} will differ after reset(): {start}")
        take_values(sim, imported)
        return ImportedModel(sim, imported)


def _begun(
    model: NeuronModel, dtype: DTypeLike, arguments: dict[str, object], copies: int
) -> tuple[Simulation, NeuronNetwork] | None:
    """Make a simulation whose sources send NEURON's pending events at 0 ms, also after `reset`.

    Return None if NEURON is past 0 ms, or has other pending events.
    """
    pending = model.pending.netcons
    if model.h.t != 0 or model.bins is not None:
        return None
    senders = [origin.sender for origin in model.wires.origins]
    is_train = [s is not None and s[0] in model.trains.names for s in senders]
    # trains have unsent events only; the last one stands for NetCons without a source
    is_other = np.array([*is_train, True])[model.wires.origin].tolist()
    sent = [(k, t) for k, t in pending if not is_other[k]]
    model.pending.netcons = [(k, t) for k, t in pending if is_other[k]]
    sim, imported = _simulation(network_of(model), dtype, arguments, copies)
    imported.begins = True
    expected = sorted(e for e in sent if model.wires.target_of(e[0])[0] in imported.groups)
    ours = np.array(sent_at_start(sim, imported)).reshape(-1, 2)
    theirs = np.array(expected * copies).reshape(-1, 2)
    theirs = theirs[np.lexsort(theirs.T[::-1])]
    if ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=0, atol=1e-9):
        return sim, imported
    model.pending.netcons = pending
    return None


def _of_run_alone(model: NeuronModel) -> Iterator[Rejected]:
    """Yield the constructs that `run` supports, but `from_neuron` does not."""
    for t in model.pending.statements:  # NEURON's queue holds them a quarter step earlier
        yield reject("", "neuron.cvode-event-statement", t=t + model.h.dt / 4)
    for used, thing in ((model.draws, "Random.play"), (model.gathers, GATHERED)):
        if used:
            yield reject("", "neuron.not-in-from-neuron", what=thing)
    yield from model.unready()
    yield from model.uncalled
    if model.step_code is not None:
        yield reject("", "neuron.from-neuron-advance", procedure=model.step_code.name)


def _simulation(
    once: NeuronNetwork, dtype: DTypeLike, options: dict[str, object], copies: int = 1
) -> tuple[Simulation, NeuronNetwork]:
    settings = _settings_of(once.model.h)
    present = np.unique(voltages(once))
    if len(present) == 1 and present[0] != _NEW and once.model.h.t == 0:
        settings["v_init"] = float(present[0])  # the argument of h.finitialize()
    once.network.settings.update(settings)
    imported = once if copies == 1 else copied(once, copies)
    arguments = {name: settings[name] for name in ("v_init", "secondorder")} | options
    with state_follows():
        sim = Simulation(imported.network, settings["dt"], dtype, **arguments)  # type: ignore[arg-type]
    return sim, imported


def _settings_of(h: Hoc) -> dict[str, float]:
    v_init, secondorder = float(getattr(h, "v_init", -65.0)), int(h.secondorder)
    return {"dt": float(h.dt), "v_init": v_init, "secondorder": secondorder, "t": float(h.t)}


def save_network(path: Path) -> None:
    h = supported()
    with without_redirects(), uncollected():
        model = read_model(h)
        network = network_of(model).network
        network.settings.update(_settings_of(h))
        network.save(path)
        model.forget()


def run(
    tstop: float,
    device: object = None,
    dtype: DTypeLike = "float64",
    progress: bool = False,
    engine: str = "auto",
    fixed_step: float | None = None,
) -> None:
    """Advance the model in NEURON's memory, in place of ``h.continuerun(tstop)``.

    The run continues from NEURON's present state, after ``h.finitialize()``. It fills recording
    Vectors as NEURON does, and writes voltages, states, concentrations, weights, pending events
    and ``h.t`` back, so that NEURON can continue. NEURON itself takes the last step, which sets
    currents and all other ASSIGNED variables.

    Parameters
    ----------
    tstop : float, ms
    device, dtype, engine
        See `Simulation`.
    progress : bool
        Print phases and show a progress bar (MPI rank 0 only).
    fixed_step : float, ms, optional
        If CVode's variable steps are on, turn them off and run at fixed steps of this length; a
        warning says so.

    Raises
    ------
    RejectedError
        An `InputError` that lists every construct that is not supported; NEURON's memory is
        unchanged.
    """
    h = supported()
    h.stoprun = 0
    fix_steps(h, as_step(fixed_step))
    request = RunOptions.of(device, dtype, engine)
    until = steps_until(h, tstop)

    def count() -> int:
        check_end(h, tstop)
        return until()

    advance(h, count, request, progress)


def advance(
    h: Hoc,
    count: Callable[[], int],
    request: RunOptions,
    progress: bool = False,
    tell: Callable[[int, KeptModel], object] = lambda *_: None,
) -> None:
    """Advance the model in NEURON's memory by `count()` steps.

    The device takes several steps at once, and NEURON takes the step after them: together a
    *stretch*. After each stretch ``tell(steps, kept)`` is called with its step count.
    """
    ranks = ranks_of(h)
    if request.solves and ranks.size == 1 and h.ParallelContext().nhost() > 1:
        raise InputError(
            "psolve on several MPI ranks, which exchange nothing yet; expected pc.set_maxstep(10) "
            "and h.finitialize() before"
        )
    progress = as_switch("progress", progress) and ranks.rank == 0
    with showing(progress), without_redirects():
        refuse_variable_steps(h, ranks)
        rest = same_on(ranks, count, h)
        is_counted = request.solves and rest > FEW  # NEURON's psolve counts its steps at its begin
        while rest:
            with uncollected():
                kept = kept_or_read(h, request, ranks)
                kept.begin_call(request.solves)
                if _is_before_zero(h, ranks):
                    kept.model.forget()
                    rest = _to_zero(h, rest, count, kept)
                    continue
                with kept.model.forgotten_on_error():
                    steps = _stretch(kept, rest, ranks)
                    _take_ahead(kept, steps - 1, progress, ranks)
                    before = float(h.dt), float(clock(float(h.t), float(h.dt), 1)[-1])
                    celsius = float(h.celsius)
                    kept.step()
                    _refuse(kept, ranks)
                keep(kept)
            rest -= steps
            tell(steps, kept)
            if rest and request.solves:
                _refuse_settings(kept.model, before[0], celsius)
            if ranks.any(bool(h.stoprun)):
                break
            changed = (h.dt, h.t) != before  # event code has set them
            rest = same_on(ranks, count if changed and not is_counted else partial(int, rest), h)


def _stretch(kept: KeptModel, most: int, ranks: Ranks) -> int:
    """Return the step count of the next stretch, 1 to `most`, the same on all ranks.

    The device takes all steps of a stretch but the last one, which NEURON takes.
    """
    _refuse_unready(kept, ranks)
    return together(ranks, kept, kept.steps_ahead(most))


def _refuse_unready(kept: KeptModel, ranks: Ranks) -> None:
    """Raise RejectedError on all ranks if one of them needs NEURON's next step before a run."""
    with ranks.agreed():
        if rejected := [*kept.model.unready(begins=kept.sim is None)]:
            raise RejectedError(rejected)


def _is_before_zero(h: Hoc, ranks: Ranks) -> bool:
    return ranks.size == 1 and h.t < 0 and step_of(h, h.dt) < 0


def _refuse(kept: KeptModel, ranks: Ranks = ONE_PROCESS) -> None:
    """Raise an error if NEURON called an unsupported function in its step."""
    with ranks.agreed():
        if kept.gathering is not None and kept.gathering.rejected:
            raise RejectedError(kept.gathering.rejected)


def kept_or_read(h: Hoc, request: RunOptions, ranks: Ranks) -> KeptModel:
    """Return the model of the last call if it is still valid; otherwise read NEURON's model."""
    with ranks.agreed():
        kept = kept_model(request)
    kept = kept_by_all(ranks, kept)
    if kept is None and ranks.size == 1:
        load_compiler(request.device, digest_of_texts(h))
    model = kept.model if kept else read_model(h, ranks=ranks)
    # psolve sets h.t only at its end
    records_t = any(r.times is not None and r.variable is None for r in model.plays.recorders)
    lacks_t = request.solves and records_t
    rejected = [reject("", "neuron.vector-record-t-in-psolve")] if lacks_t else []
    rejected += [] if kept is not None else model.rejected
    uncalled = [] if request.solves else model.uncalled
    with model.forgotten_on_error(), ranks.agreed():
        if rejected or uncalled:
            raise RejectedError(rejected + uncalled)
        if kept is None and not request.solves and model.draws_graphs:
            tell_once("graphs get no points during a run on the device")
        return kept or KeptModel(model, request)


def _take_ahead(kept: KeptModel, steps: int, progress: bool, ranks: Ranks) -> None:
    """Take `steps` steps on the device; all MPI ranks call this, even for 0 steps."""
    joints = Joints(ranks) if kept.sim is None else kept.joints
    h, draws = kept.model.h, kept.model.draws
    t = clock(float(h.t), float(h.dt), steps)[:-1]  # when NEURON draws for Random.play
    with draws.ahead(t), joints.telling():
        if kept.sim is None and (steps or (ranks.size > 1 and not kept.is_tried)):
            begin(kept, joints)
        if steps:
            kept.advance(steps, progress)


def begin(kept: KeptModel, joints: Joints) -> Simulation:
    once = network_of(kept.model)
    arguments = joined(joints, once, kept.request)
    sim, imported = _simulation(once, kept.request.dtype, arguments)
    take_values(sim, imported)
    kept.start(sim, imported, joints)
    return sim


def _refuse_settings(model: NeuronModel, dt: float, celsius: float) -> None:
    """Refuse settings of event code in psolve that NEURON uses only from the next psolve on."""
    h, expected = model.h, "in psolve, but NEURON uses it only from the next psolve on; expected"
    if h.dt != dt:
        raise InputError(f"h.dt has been set to {h.dt:g} ms {expected} h.continuerun()")
    texts = [instances.entry.text for instances in model.every.values()]
    if h.celsius != celsius and "TABLE" in "".join(texts):  # NEURON makes tables again there
        raise NeuronError(f"h.celsius has been set to {h.celsius:g} {expected} h.continuerun()")


def _to_zero(h: Hoc, rest: int, count: Callable[[], int], kept: KeptModel) -> int:
    """Let NEURON take the steps that begin before 0 ms; return how many of `rest` steps remain.

    If NEURON's clock or dt changes unexpectedly, ``count()`` counts the remaining steps again.
    """
    while rest and h.t < -0.5 * h.dt and not h.stoprun:
        before = float(h.dt), float(clock(float(h.t), float(h.dt), 1)[-1])
        kept.call(h.fadvance)
        _refuse(kept)
        rest = rest - 1 if (h.dt, h.t) == before else count()
    return 0 if h.stoprun else rest

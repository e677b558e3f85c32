"""Estimate who ends a call sooner, NEURON or the device, before its first step.

The estimate uses counts from NEURON's public interface. It does not read NEURON's memory or import
PyOpenCL. It adds:

NEURON
    Steps times the time of a step: a constant, a time per segment, and a time per instance of a
    mechanism, proportional to the length of its text.
Device, once
    Importing modules, reading and planning the model, compiling kernels.
Device, each call and each step
    Comparing NEURON's values and writing them back; launches, and the work of a step.
Pauses within a call
    NEURON's own steps for `CVode.event`. Only an earlier run tells how many there are.

clhines' cache folder holds a record for each model, with the counts and the mechanisms' texts as
key. It has the time of a step in NEURON and on the device, the time to begin on the device, the
number of steps of the whole script, and its pauses. Recorded times replace estimates. A recorded
time only changes to less than half of it, so that decisions soon stay the same in each run.

Constants are seconds on one core of 2023; `machine_factor` scales them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache

from clhines.core import files
from clhines.neuron.memory.session import Hoc, all_sections, as_flag
from clhines.neuron.memory.versions import SWITCH

_log = logging.getLogger(__name__)
_SCHEMA = 1  # file format
_SAMPLES = 1000  # sections to count mechanisms in
_FALL = 0.5  # a recorded time is replaced by one that is smaller by this factor
_MARGIN = 0.9  # the device must end within this share of NEURON's time
_SHARE_AHEAD, _AHEAD = 0.05, 0.2  # limits for work ahead of later calls: share of NEURON's time, s

# NEURON: a step, a segment, an instance and a thousand characters in its mechanism's text
_STEP, _SEGMENT, _INSTANCE, _TEXT = 3e-6, 12e-9, 12e-9, 15e-9
# once: modules, a context, a model; each segment; each mechanism, and its kernels
MODULES, _MODEL, _PER_SEGMENT, _PER_MECHANISM = 0.45, 0.25, 8e-6, 0.02
_COMPILE, _COMPILE_MECHANISM = 0.8, 0.15
_TRUST, _SELF_TEST = 2.5, 4.0  # self-tests of a device and of NEURON, at their first use
# each call, each segment in it; each step, and the device's share of NEURON's time
_CALL, _CALL_SEGMENT, _LAUNCH, _SHARE = 0.015, 0.5e-6, 1e-6, 0.25
_SELDOM = 100  # count again when NEURON's steps have taken this many times as long as a count
_LOOPS = 20_000  # calibration loops, which took `_CALIBRATED` seconds
_CALIBRATED = 1.2e-3


@dataclass(frozen=True)
class Counts:
    """Sizes of a model, from NEURON's public interface."""

    segments: int
    instances: tuple[tuple[str, int], ...]  # by mechanism, sorted by name
    texts: tuple[tuple[str, int], ...]  # these mechanisms' texts: digest and length
    netcons: int
    ranks: int = 1  # MPI ranks that exchange events; segments and netcons are their sums
    of_ranks: float = 0.0  # s, `work` summed over ranks

    @cached_property
    def work(self) -> float:
        """The estimated seconds of a step in NEURON on one core, besides the constant `_STEP`."""
        if self.of_ranks:
            return self.of_ranks
        mechanisms = sum(
            number * (_INSTANCE + _TEXT * length / 1000)
            for (_, number), (_, length) in zip(self.instances, self.texts, strict=True)
        )
        return (self.segments * _SEGMENT + mechanisms) * machine_factor()

    def begin(self, is_compiled: bool) -> float:
        """Estimate the seconds to read, plan and, unless `is_compiled`, compile the model."""
        parts = _MODEL + self.segments * _PER_SEGMENT + len(self.texts) * _PER_MECHANISM
        if not is_compiled:
            parts += _COMPILE + len(self.texts) * _COMPILE_MECHANISM
        return parts * machine_factor()


def first_use() -> float:
    """Estimate the seconds of imports and self-tests that remain to be done."""
    is_trusted = any(files.cache_folder().glob("trust-*.json"))
    tests = 0.0 if is_trusted else _TRUST, 0.0 if is_tested() else _SELF_TEST  # side by side
    return max(tests) * machine_factor() + import_seconds()


def is_tested() -> bool:
    """Whether the self-test of this NEURON version is done or skipped."""
    return as_flag(SWITCH) or any(files.cache_folder().glob("neuron-*.json"))


def import_seconds() -> float:
    is_imported = "clhines.simulator.simulation" in sys.modules
    return 0.0 if is_imported else MODULES * machine_factor()


def count(h: Hoc) -> Counts:
    """Count segments, NetCons and, in a sample of the sections, instances of mechanisms."""
    sections = all_sections()
    every = 1 + len(sections) // _SAMPLES
    numbers = dict[str, int]()
    for section in sections[::every]:
        for mechanism in section(0.5):
            name = mechanism.name()
            numbers[name] = numbers.get(name, 0) + section.nseg * every
    name, texts = h.ref(""), dict[str, tuple[str, int]]()
    for kind in (0, 1):
        types = h.MechanismType(kind)
        for k in range(int(types.count())):
            types.select(k)
            types.selected(name)
            if kind:
                numbers[name[0]] = int(h.List(name[0]).count())
            if numbers.get(name[0]):
                text = str(types.code() or "")
                texts[name[0]] = hashlib.sha256(text.encode()).hexdigest()[:16], len(text)
    named = sorted(texts)
    return Counts(
        sum(section.nseg for section in sections),
        tuple((key, numbers[key]) for key in named),
        tuple(texts[key] for key in named),
        int(h.List("NetCon").count()),
    )


@lru_cache(maxsize=1)
def machine_factor() -> float:
    """Return this machine's time for a loop divided by the reference machine's; stored once."""
    key: dict[str, object] = {"machine": platform.node(), "python": sys.version}
    seconds = files.kept_entry("calibration", _SCHEMA, key).get("seconds")
    if not isinstance(seconds, float) or not seconds > 0:
        seconds = min(_calibration() for _ in range(5))
        files.keep_entry("calibration", _SCHEMA, key, seconds=seconds)
    return seconds / _CALIBRATED


def _calibration() -> float:
    begin, total = time.perf_counter(), 0.0
    for k in range(_LOOPS):
        total += k * 0.5
    return time.perf_counter() - begin


@dataclass
class Times:
    """The stored measurements of a model: times in seconds, and numbers of steps."""

    neuron_step: float | None = None  # None: not measured
    device_begin: float | None = None
    device_step: float | None = None
    device_call: float | None = None
    steps: float = 0  # in the script's last run
    first: float = 0  # in its first call
    compiled: float = 0  # 1 if a process in the background has compiled the kernels
    device_pause: float | None = None
    pauses: float = 0  # per step on the device, in the script's last run

    def fall(self, name: str, seconds: float) -> None:
        """Store `seconds` as the time `name` if it is new, or less than half of the old one."""
        old = getattr(self, name)
        if old is None or seconds < _FALL * old:
            setattr(self, name, seconds)


_TIMES = "neuron_step", "device_begin", "device_step", "device_call", "device_pause"


def _read(key: dict[str, object]) -> Times:
    entry = files.kept_entry("times", _SCHEMA, key)
    numbers = {k: x for k, x in entry.items() if isinstance(x, (int, float)) and 0 <= x < 1e12}
    return Times(**{f.name: numbers[f.name] for f in fields(Times) if f.name in numbers})


@dataclass
class Ledger:
    """Estimates, counts and measured times of one model's calls of ``run`` or the like."""

    counts: Counts
    key: dict[str, object]
    record: Times
    is_compiled: bool
    steps: int = 0
    first: int = 0
    neuron_steps: int = 0
    pauses: int = 0
    has_begun: bool = False  # on the device
    is_refused: bool = False  # by the device
    is_compiled_ahead: bool = False  # a child process has been started for it

    @classmethod
    def of(cls, counts: Counts, device: str) -> Ledger:
        key: dict[str, object] = {
            "segments": counts.segments,
            "instances": [list(pair) for pair in counts.instances],
            "texts": [digest for digest, _ in counts.texts],
            "netcons": counts.netcons,
            "ranks": counts.ranks,
            "device": device,
        }
        record = _read(key)
        is_compiled = record.device_begin is not None or record.compiled > 0
        return cls(counts, key, record, is_compiled)

    @property
    def neuron_step(self) -> float:
        guess = _STEP * machine_factor() + self.counts.work / self.counts.ranks
        return self.record.neuron_step or guess

    @property
    def device_step(self) -> float:
        return self.record.device_step or _LAUNCH + _SHARE * self.counts.work

    @property
    def device_call(self) -> float:
        guess = (_CALL + self.counts.segments * _CALL_SEGMENT) * machine_factor()
        return self.record.device_call or guess

    @property
    def pauses_per_step(self) -> float:
        """NEURON's steps for `CVode.event` divided by all steps of the device.

        Before the device begins, the ratio is taken from the script's last run.
        """
        if self.has_begun:
            return self.pauses / max(self.steps - self.neuron_steps, 1)
        return self.record.pauses if self.record.first == self.first else 0.0

    @cached_property
    def device_begin(self) -> float:
        """Estimated seconds until the device can take its first step of this model."""
        guess = self.counts.begin(self.is_compiled) + first_use()
        return min(self.record.device_begin or guess, guess)

    def device_is_sooner(self, steps: int) -> bool:
        """Whether the device ends a call of `steps` steps sooner than NEURON.

        The script is expected to repeat its last run, with as many steps in all, if its first call
        has as many steps as the first call had then. If NEURON's steps so far took longer than the
        device takes to begin, the device need only be faster per call.
        """
        self.first = self.first or steps
        is_again = self.record.first == self.first
        rest = max(steps, self.record.steps - self.steps) if is_again else steps
        gain = self._gain(steps)
        begin = 0.0 if self.has_begun or gain <= 0 else self.device_begin
        waited = self.neuron_steps * self.neuron_step
        is_sooner = gain > 0 and max(gain * rest / max(steps, 1), waited) > begin
        _log.info(
            "%s takes %s steps: about %.2g s in NEURON, %.2g s on the device, %.2g s to begin",
            "the device" if is_sooner else "NEURON",
            f"{steps:,}",
            steps * self.neuron_step,
            self._device_seconds(steps),
            begin,
        )
        return is_sooner

    def _gain(self, steps: int) -> float:
        """Return the seconds by which the device, once it has begun, takes `steps` steps sooner."""
        return _MARGIN * steps * self.neuron_step - self._device_seconds(steps)

    def _device_seconds(self, steps: int) -> float:
        pause = self.record.device_pause or self.device_call
        return self.device_call + steps * (self.device_step + self.pauses_per_step * pause)

    def may_compile_ahead(self, steps: int, is_due: bool) -> bool:
        """Whether to compile kernels for later calls while NEURON takes this call.

        Three conditions must hold: NEURON has taken an earlier call; the device would save time
        in this call, but less than it takes to begin; and the device would take this call
        (`is_due`), or reading the model is cheap compared with NEURON's time.
        """
        is_settled = self.is_compiled or self.has_begun or self.is_refused
        if is_settled or not self.neuron_steps or not 0 < self._gain(steps) <= self.device_begin:
            return False
        by_neuron = (self.neuron_steps + steps) * self.neuron_step
        reading = self.counts.begin(is_compiled=True) + import_seconds()
        return is_due or reading <= _SHARE_AHEAD * by_neuron + _AHEAD

    def set_compiled(self) -> None:
        self.is_compiled, self.record.compiled = True, 1
        self.__dict__.pop("device_begin", None)  # it is shorter now

    def add_neuron(self, steps: int, seconds: float) -> None:
        """Count the `steps` of a call that took NEURON `seconds`; record the time of a step."""
        self.steps += steps
        self.neuron_steps += steps
        if steps:
            self.record.fall("neuron_step", seconds / steps)

    def add_device(
        self, steps: int, seconds: float, run_seconds: float, pauses: Sequence[float] = ()
    ) -> None:
        """Count the `steps` of a call on the device, and record its times.

        The whole call took `seconds`, its steps on the device took `run_seconds`, and NEURON's k-th
        step for `CVode.event` took ``pauses[k]`` seconds.
        """
        self.steps += steps
        self.pauses += len(pauses)
        if pauses:
            self.record.fall("device_pause", sum(pauses) / len(pauses))
        if steps > 1 and (self.is_compiled or self.has_begun):  # without compiling kernels
            self.record.fall("device_step", run_seconds / steps)
        rest = max(seconds - run_seconds - sum(pauses), 0.0)
        self.record.fall("device_call" if self.has_begun else "device_begin", rest)
        self.has_begun = True

    def save(self) -> None:
        """Write the record to the cache folder if it differs from the stored one."""
        before, record = _read(self.key), self.record
        for name in _TIMES:
            if (value := getattr(before, name)) is not None:
                record.fall(name, value)
        record.compiled = max(record.compiled, before.compiled)
        record.pauses, record.steps, record.first = self.pauses_per_step, self.steps, self.first
        if record != before:
            files.keep_entry("times", _SCHEMA, self.key, **vars(record))


class Accounts:
    """Decide for each call whether the device or NEURON takes it, and count the steps of both."""

    def __init__(self, h: Hoc) -> None:
        self._h = h
        self._ledgers = dict[Counts, Ledger]()
        self._ledger: Ledger | None = None  # for the present call, if it was decided
        self._counts: Counts | None = None
        self._change = -1.0  # NEURON's structure_change_count at the last count
        self._count_due = 0.0  # s that NEURON's steps may take until the next count
        self.device, self.device_steps, self.device_seconds = "", 0, 0.0
        self.estimate = 0.0  # s that NEURON would take for the device's steps
        self.neuron_steps = 0  # taken by NEURON because it ends sooner
        self.refused_steps = 0  # taken by NEURON because the device cannot

    def device_is_sooner(self, steps: int) -> bool:
        """Whether the device takes a call; all MPI ranks that exchange events call this."""
        context = self._ranks()
        ledger = self._ledger = self._current(steps, context)
        sooner = not ledger.is_refused and ledger.device_is_sooner(steps)
        if context is not None:  # rank 0 decides
            sooner = bool(context.allreduce(float(sooner and context.id() == 0), 2))
        return sooner

    def ledger_to_compile(self, steps: int, is_due: bool) -> Ledger | None:
        """Return the present call's ledger if a child process should now compile its kernels.

        `is_due`: the device would take this call. MPI ranks that exchange events start no child
        process. Of independent ranks, only rank 0 does.
        """
        ledger = self._ledger
        if ledger is None or not ledger.may_compile_ahead(steps, is_due):
            return None
        return None if self._ranks() or self._h.ParallelContext().id() else ledger

    def _ranks(self) -> Hoc | None:
        """Return NEURON's ParallelContext if several MPI ranks exchange events, else None."""
        context = self._h.ParallelContext()
        if int(context.nhost()) < 2:
            return None
        from clhines.neuron.memory.objects import on_ranks

        return context if on_ranks(self._h) else None

    def begin_call(self) -> None:
        self._ledger = None

    def _current(self, steps: int, context: Hoc | None) -> Ledger:
        """Return the present model's ledger; with a ParallelContext, one for all ranks' models."""
        change = float(self._h.CVode().structure_change_count())
        if self._counts is None or change != self._change or self._count_due <= 0:
            begin = time.perf_counter()
            self._counts, self._change = count(self._h), change
            self._count_due = _SELDOM * (time.perf_counter() - begin)
        counts = self._counts if context is None else self._summed(self._counts, context)
        if counts not in self._ledgers:
            self._ledgers[counts] = Ledger.of(counts, os.environ.get("CLHINES_DEVICE", ""))
        ledger = self._ledgers[counts]
        self._count_due -= steps * ledger.neuron_step
        return ledger

    def _summed(self, counts: Counts, context: Hoc) -> Counts:
        ranks = int(context.nhost())
        sums = self._h.Vector([counts.segments, counts.netcons, counts.work])
        context.allreduce(sums, 1)
        segments, netcons, work = sums
        return replace(
            counts, segments=int(segments), netcons=int(netcons), ranks=ranks, of_ranks=work
        )

    def add_neuron(self, steps: int, seconds: float) -> None:
        self.neuron_steps += steps
        if self._ledger is not None:
            self._ledger.add_neuron(steps, seconds)

    def add_device(
        self, steps: int, seconds: float, run_seconds: float, pauses: Sequence[float], device: str
    ) -> None:
        self.device, self.device_steps = device, self.device_steps + steps
        self.device_seconds += seconds
        if self._ledger is not None:
            self.estimate += steps * self._ledger.neuron_step
            self._ledger.add_device(steps, seconds, run_seconds, pauses)

    def refuse(self) -> None:
        """Remember that the device cannot run the present call's model."""
        if self._ledger is not None:
            self._ledger.is_refused = True

    def save(self) -> None:
        for ledger in self._ledgers.values():
            ledger.save()

    def __str__(self) -> str:
        parts = list[str]()
        if self.device_steps:
            parts.append(
                f"{self.device_steps:,} steps in {self.device_seconds:.2g} s on {self.device}"
            )
            parts[0] += f" (about {self.estimate:.2g} s in NEURON)" if self.estimate else ""
        if self.neuron_steps:
            parts.append(f"{self.neuron_steps:,} steps by NEURON (sooner there)")
        if parts and self.refused_steps:
            parts.append(f"{self.refused_steps:,} steps by NEURON (not supported)")
        return "; ".join(parts)

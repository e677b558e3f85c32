"""Helpers of programs and tests in a process with NEURON; `forked.BEGIN` imports most of them."""

from contextlib import suppress

import clhines

with suppress(ImportError):  # tests skip without NEURON, and some run without `clhines.neuron`
    from neuron import h

    import clhines.neuron


def make_section(name, *mechanisms, **geometry):
    """Return a section with mechanisms, and with these values of L, diam, nseg ..."""
    section = with_values(h.Section(name=name), **geometry)
    for mechanism in mechanisms:
        section.insert(mechanism)
    return section


def with_values(thing, **values):
    """Return an object of NEURON with these values of its attributes."""
    for name, value in values.items():
        setattr(thing, name, value)
    return thing


def go_on(until, engine=None):
    """Advance to a time, ms: by an engine of this package, or by NEURON."""
    if engine:
        clhines.neuron.run(until, engine=engine)
    else:
        h.continuerun(until)


def in_turns(parts, engine):
    """Initialise NEURON's model and advance it by turns: (whether by this package, until when)."""
    h.finitialize(-65)
    for ours, until in parts:
        go_on(until, engine if ours else None)


def by_both(read, *stops, engine="auto"):
    """Run from -65 mV to some times by NEURON, and by this package; return what `read` gives."""
    results = []
    for engine_of_run in (None, engine):
        h.finitialize(-65)
        for until in stops:
            go_on(until, engine_of_run)
        results.append(read())
    return results


def listed():
    """Return what `check` lists, as texts."""
    return [str(rejected) for rejected in clhines.neuron.check()]


def refusal(call, *arguments, **options):
    """Return the message with which a call is refused; an empty text if it is not."""
    try:
        call(*arguments, **options)
    except clhines.InputError as error:
        return str(error)
    return ""

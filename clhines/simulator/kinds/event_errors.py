"""Error codes that kernels report for events."""

from __future__ import annotations

from clhines.core.errors import InputError
from clhines.simulator.model.model import Model

TOO_MANY_EVENTS = (
    "a source sent more events within its longest delay than there is room for; expected fewer"
)
WRONG_EVENTS = (
    "too many self events under way",
    "net_move without a self event of flag 1 under way",
    "an event is sent at a time that is past, or no number",
    "net_event at a time before an earlier net_event's; expected times that ascend",
)
TOO_LATE = (
    "an event comes at the time, or before in the same step, at which another's event sets its "
    "weight by a POINTER; expected times that differ"
)
LATE = 1 << 20  # TOO_LATE's code for the first kind


def check_events(model: Model, code: int) -> None:
    """Raise InputError for the error that a kernel reports by a code other than 0."""
    if not code:
        return
    if code == 1:
        raise InputError(TOO_MANY_EVENTS)
    if code >= LATE:
        raise InputError(f"{model.kinds[code - LATE].mechanism.name}: {TOO_LATE}")
    kind, error = divmod(code - 2, 4)
    raise InputError(f"{model.kinds[kind].mechanism.name}: {WRONG_EVENTS[error]}")

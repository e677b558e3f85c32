"""Delay Ctrl-C during a run until the end of a chunk, when the state is complete."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from types import FrameType

_signal = sys.modules.get("_signal", signal)  # avoids the enums of `signal`: 1 us, not 18
_LATER = "the run stops at the end of this chunk; Ctrl-C again stops it at once, without a state"


class InterruptDelay:
    """Delays Ctrl-C during a ``with`` block; a second Ctrl-C raises KeyboardInterrupt.

    This works in the main thread only, and only if Python's own handler is installed. `say`: tell
    the user.

    Attributes
    ----------
    pending : bool
        Whether Ctrl-C was pressed.
    """

    pending = _replaced = False

    def __init__(self, say: bool) -> None:
        self._say = say

    def __enter__(self) -> InterruptDelay:
        if _signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            try:
                _signal.signal(signal.SIGINT, self._note)
                self._replaced = True
            except ValueError:  # not in the main thread
                pass
        return self

    def __exit__(self, *error: object) -> None:
        if self._replaced:
            _signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.pending:
            raise KeyboardInterrupt
        self.pending = True
        if self._say:
            with suppress(OSError, ValueError, AttributeError, RuntimeError):
                print(f"clhines: {_LATER}", file=sys.stderr, flush=True)

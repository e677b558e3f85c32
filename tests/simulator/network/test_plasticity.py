"""Rules of plasticity that are refused."""

import numpy as np
import pytest

from clhines.core.errors import InputError
from clhines.simulator.network.plasticity import STDP

pytestmark = pytest.mark.optimised


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tau_plus": 0.0}, r"tau_plus is 0\.0 ms; expected more than 0"),
        ({"w_max": np.inf}, "w_max is inf; expected a finite number"),
        ({"w_max": "1"}, "w_max is '1'; expected a finite number"),
        ({"w_min": 2.0}, r"w_min is 2\.0, above w_max, 1\.0"),
    ],
)
def test_bad_rules_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        STDP(0.1, 0.1, **change)

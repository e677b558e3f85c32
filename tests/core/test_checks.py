"""Checks of arguments: conversions, and the one line with the expected value."""

import numpy as np
import pytest

from clhines.core import checks
from clhines.core.errors import ForestError, HostMemoryError, InputError

pytestmark = pytest.mark.core
MASKED = np.ma.masked_array([1, 2], [True, False])


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (lambda: checks.as_number("x", np.float32(0.5)), 0.5),
        (lambda: checks.as_real("x", [1, 2.5]).tolist(), [1.0, 2.5]),
        (lambda: checks.as_whole_number("n", np.int64(3), 1), 3),
        (lambda: checks.as_switch("on", np.bool_(True)), True),
        (lambda: checks.as_check("raise"), "raise"),
        (lambda: checks.as_indices("at", 4, 5, "cell").tolist(), [4]),
        (lambda: checks.as_places("at", np.array([True, False, True]), 3, "cell").tolist(), [0, 2]),
        (lambda: checks.integers(np.array([1, 2], np.uint8), "parent").dtype, np.int64),
        (lambda: checks.in_precision("b", np.array([1e38]), np.dtype("float32")).dtype, "float32"),
    ],
)
def test_what_is_converted(check, expected):
    assert check() == expected


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (lambda: checks.as_number("x", "1"), "x is '1'; expected a finite number"),
        (lambda: checks.as_number("x", np.nan), "x is nan; expected a finite number"),
        (lambda: checks.as_number("x", [1.0]), "x is [1.0]; expected a finite number"),
        (lambda: checks.as_real("x", [[1, np.inf]]), "x[0, 1] is inf; expected a finite number"),
        (lambda: checks.as_real("x", MASKED), "x has 1 masked values; expected none"),
        (lambda: checks.as_array("x", [[1]]), "x has shape (1, 1); expected one dimension"),
        (lambda: checks.as_array("x", [1, [2]]), "x is not an array: "),
        (lambda: checks.as_whole_number("n", True, 0), "n is True; expected a whole number, 0"),
        (lambda: checks.as_whole_number("n", np.timedelta64(1, "s"), 0), "a whole number, 0"),
        (lambda: checks.as_whole_number("n", 2.0, 0), "n is 2.0; expected a whole number, 0 or"),
        (lambda: checks.as_whole_number("n", 10**16, 0), "expected a whole number, at most 1000"),
        (
            lambda: checks.as_choice("a", "fin", ("fine", "flat")),
            "fine, flat; did you mean 'fine'?",
        ),
        (lambda: checks.as_switch("on", 1), "on is 1; expected True or False"),
        (lambda: checks.as_check("no"), "check is 'no'; expected True, False or 'raise'"),
        (lambda: checks.as_indices("at", [0, 5], 5, "cell"), "at[1]: there is no cell 5; expected"),
        (lambda: checks.as_indices("at", [0.0], 5, "cell"), "at has dtype float64; expected whole"),
        (lambda: checks.as_places("at", np.ones(2, bool), 3, "cell"), "at is a mask of shape (2,)"),
        (
            lambda: checks.in_precision("b", np.array([1.0, 1e39]), np.dtype("float32")),
            "b[1] is 1e+39; expected at most 3.4e+38, the largest float32 (or dtype float64)",
        ),
    ],
)
def test_one_line_says_what_was_expected(check, text):
    with pytest.raises(InputError) as error:
        check()
    assert text in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("values", [[[0]], [1.5], [np.nan], np.array([2**63], np.uint64)])
def test_integers_of_a_forest(values):
    with pytest.raises(ForestError, match="^parent"):
        checks.integers(values, "parent")


def test_room_is_that_of_the_control_group(monkeypatch, tmp_path):
    """Take the smaller memory of the system and the control group; "max" means no limit."""
    info, limit, use = (tmp_path / name for name in ("meminfo", "limit", "use"))
    info.write_text("MemTotal: 9 kB\nMemAvailable: 4096 kB\n")
    monkeypatch.setattr(checks, "_MEMINFO", info)
    monkeypatch.setattr(checks, "_GROUPS", ((limit, use),))
    assert checks.available() == 4096 * 1024
    limit.write_text("max")
    use.write_text("1")
    assert checks.available() == 4096 * 1024
    limit.write_text(str(3 << 20))
    use.write_text(str(1 << 20))
    assert checks.available() == 2 << 20
    checks.check_room(2 << 20, "two MiB")
    with pytest.raises(HostMemoryError, match="3 cells take 3 MiB or more .* there are 2 MiB"):
        checks.check_room(3 << 20, "3 cells")
    limit.unlink()
    info.write_text("nothing")
    assert checks.available() > 2**20  # as the system says elsewhere

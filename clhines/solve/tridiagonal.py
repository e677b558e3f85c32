"""Batches of tridiagonal systems: Hines matrices whose trees have no branches.

There is no pivoting, unlike in LAPACK's ``gtsv``: the pivots of the elimination must be positive,
after rows with a negative `d` have been multiplied by -1. They are where each system is strictly
diagonally dominant, by rows or by columns, whatever the signs; or symmetric and positive or
negative definite. Other systems may be solved or may raise `PivotError`, by the order in which a
method eliminates; a pivot that is small next to its row costs accuracy without an error.

`Tridiagonal` plans once. `solve_tridiagonal` keeps one for each of the last `MOST_KEPT` batches.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast, overload

import numpy as np
import pyopencl.array as cla
from numpy.typing import ArrayLike, DTypeLike

from clhines.checks import as_switch, real_numbers
from clhines.device import devices
from clhines.device.arrays import Array, Given, check_out, unmark
from clhines.device.guard import Closed, Holder, check_process
from clhines.errors import InputError, PivotError
from clhines.plan.plan import real_name
from clhines.solve.arguments import Arguments
from clhines.solve.chains import MIXED, Chains, DeviceChains, Matrix, on_device, sizes_of
from clhines.solve.engines.loaded import only_event
from clhines.solve.factors import Factors
from clhines.solve.solver import Solver

MOST_KEPT = 4  # batches whose plan `solve_tridiagonal` keeps, ...
MOST_ROWS = 1 << 24  # ... and their rows, all together
_KEPT: OrderedDict[object, Tridiagonal] = OrderedDict()  # the last used is the last
_LOCK = threading.Lock()


class Tridiagonal(Holder):
    """Solve batches of tridiagonal systems of the same sizes again and again.

    Row i of a system is ``dl[i - 1] x[i - 1] + d[i] x[i] + du[i] x[i + 1] = b[i]``, as in LAPACK's
    ``gtsv``. There is no pivoting; `clhines.solve.tridiagonal` says which systems can be solved.

    Parameters
    ----------
    sizes : (m,) integers
        Rows of each system, 1 or more.
    method, dtype, **options
        As in `Solver`, with its `device`, `queue`, `devices`, `max_memory` and `tune`.

    Attributes
    ----------
    sizes : (m,) int64
    dtype : numpy.dtype
    chains : clhines.solve.chains.Chains
    solver : Solver
        Of the chains: a node per row, its parent the row before.

    Raises
    ------
    InputError
        Sizes that are not whole numbers of 1 or more; and what `Solver` raises.

    Arrays are NumPy arrays, or pyopencl arrays of `dtype` in the solver's context. With N rows in
    all, their shapes are:

    - `d`: (N,), system after system; or, where all sizes are n, (m, n), and (n,) or (1, n) for all
      systems;
    - `dl`, `du`: one value less per system, (N - m,), (m, n - 1), (n - 1,) or (1, n - 1), or as
      `d`, where the first `dl` and the last `du` of each system are ignored, as in cuSPARSE. Where
      one of length 2 could be both, it is (N - m,);
    - `b` and `x`: as `d`, or k of these, (k, N) or (k, m, n); with ``columns=True``, as in LAPACK
      and SciPy, (N, k) or (m, n, k). A `b` for all systems is (n,), (1, n) or (k, 1, n), with `x`
      in full.

    `dl`, `d` and `du` may also be numbers, in NumPy. A row with a zero pivot has no solution: see
    `check`.
    """

    def __init__(
        self, sizes: ArrayLike, method: str = "auto", dtype: DTypeLike = np.float64, **options: Any
    ) -> None:
        real_name(dtype)
        self.sizes, self.dtype = sizes_of(sizes), np.dtype(dtype)
        self.sizes.flags.writeable = False
        self.chains = Chains(self.sizes, self.dtype)
        self.solver = Solver(self.chains.forest(), method, dtype, **options)
        queue = None if options.get("devices") is not None else self.solver.queue
        self._arguments = Arguments(self.solver.forest, self.dtype, queue)
        self._device: DeviceChains | None = None

    def __repr__(self) -> str:
        closed = isinstance(self.solver.engine, Closed)
        engine = "closed)" if closed else self.solver.engine.describe()
        return (
            f"Tridiagonal({len(self.sizes)} systems, {self.chains.n} rows, {self.dtype}, {engine}"
        )

    def solve(
        self,
        dl: Given,
        d: Given,
        du: Given,
        b: Given,
        *,
        out: Array | None = None,
        check: bool = True,
        columns: bool = False,
    ) -> Array:
        """Solve the systems.

        Parameters
        ----------
        dl, d, du, b
            Lower, main and upper diagonal, and right-hand sides, of the shapes above.
        out : like x, optional
            Written and returned, also before an error; may be `b` itself.
        check : bool
            Wait, and raise `PivotError` for a pivot that is zero, negative after rows have been
            multiplied, or not finite, and `InputError` for values of `b` or `x` that are not finite
            (NumPy only). Without it, `x` of such a system is not defined (often NaN or infinite),
            other systems are right, and `status` has the row.
        columns : bool
            Right-hand sides are the last axis of `b` and `x`.

        Returns
        -------
        x : of `dtype`; on a device asynchronous unless `check`

        Raises
        ------
        InputError
            Shapes or dtypes that do not fit; NumPy and pyopencl arrays together.
        PivotError
            `cell` is the system, `node` the row, counted over all systems.
        DeviceMemoryError
        """
        columns, device = as_switch("columns", columns), on_device(dl, d, du, b)
        with self._by_row():
            matrix = self._matrix(dl, d, du, device)

            def solve(rows: Array, out: Array | None) -> Array:
                given = matrix.d, matrix.u, rows
                return self.solver.solve(*given, l=matrix.l, out=out, check=check)

            side = self._device_side() if device else None
            return Rows(self, side, matrix.sign).solve(solve, b, out, columns)

    def factor(self, dl: Given, d: Given, du: Given, *, check: bool = True) -> TridiagonalFactors:
        """Eliminate a matrix once, to solve it for many right-hand sides.

        Parameters
        ----------
        dl, d, du, check
            As in `solve`; the arrays are copied.

        Returns
        -------
        TridiagonalFactors
            They save what `Solver.factor` says, and the changes of the diagonals.

        Raises
        ------
        InputError, PivotError, DeviceMemoryError
        """
        with self._by_row():
            matrix = self._matrix(dl, d, du, on_device(dl, d, du))
            factors = self.solver.factor(matrix.d, matrix.u, l=matrix.l, check=check)
        side = self._device_side() if on_device(dl, d, du) else None
        return TridiagonalFactors(self, factors, Rows(self, side, matrix.sign))

    def close(self) -> None:
        """As `Solver.close`."""
        self.solver.close()
        self._device = None

    def status(self) -> np.ndarray:
        """(m,) int64: first bad row of each system in the last solve, of all rows, or -1; waits."""
        return self.solver.status()

    def _device_side(self) -> DeviceChains:
        if self._device is None:
            self._device = DeviceChains(self.chains, self.solver.queue)
        return self._device

    def _matrix(self, dl: Given, d: Given, du: Given, device: bool) -> Matrix:
        if not device:
            return self.chains.matrix(dl, d, du)
        given = {"dl": dl, "d": d, "du": du}
        return self._device_side().matrix(*(self.device_array(k, a) for k, a in given.items()))

    def device_array(self, name: str, a: Given) -> cla.Array:
        """Return a pyopencl array that the solver can use; others are rejected."""
        if not isinstance(a, cla.Array):
            raise InputError(MIXED)
        return self._arguments.of_device(name, a, False)

    @contextmanager
    def _by_row(self) -> Iterator[None]:
        """Raise `PivotError` in the words of tridiagonal systems."""
        try:
            yield
        except PivotError as error:
            row = error.node - int(self.chains.offsets[error.cell])
            raise PivotError(
                f"system {error.cell}, row {row} (row {error.node} of all): pivot is zero, "
                "negative, NaN or infinite; expected positive and finite, as in diagonally "
                "dominant systems",
                error.cell,
                error.node,
            ) from None


class Rows:
    """Right-hand sides and solutions: shapes, signs of rows, and the device's `side`, or None."""

    def __init__(self, owner: Tridiagonal, side: DeviceChains | None, sign: Array | None) -> None:
        self._owner, self._side, self._sign = owner, side, sign

    def solve(
        self,
        solve: Callable[[Array, Array | None], Array],
        b: Given,
        out: Array | None,
        columns: bool,
        transpose: bool = False,
    ) -> Array:
        """Call ``solve(rows, out)`` for `b` as rows; return the solution in the shape of `b`."""
        if self._side is None:
            return self._on_host(solve, b, out, columns, transpose)
        rows = self._owner.device_array("b", b)
        shape, one = self._owner.chains.shapes(rows.shape, columns)
        found: Any = out
        if out is None:
            found = cla.empty(self._owner.solver.queue, shape, self._owner.dtype)
        check_out(found, shape, self._owner.dtype, cla.Array)
        if found.context != rows.context:
            raise InputError("out lives in another OpenCL context than the solver")
        apart = columns or (found.base_data == rows.base_data and found.size != rows.size)
        ones = self._side.ones
        before, after = (ones, self._sign) if transpose else (self._sign, ones)
        target = self._side.rows(rows, before, one, columns, None if apart else found)
        solve(target, target)
        if apart or transpose:
            self._side.give(target, after, found, columns)
        else:
            only_event(found, target.events[-1])
        unmark(found)
        return found

    def _on_host(
        self,
        solve: Callable[[Array, Array | None], Array],
        b: Given,
        out: Array | None,
        columns: bool,
        transpose: bool,
    ) -> np.ndarray:
        owner, sign = self._owner, cast("np.ndarray | None", self._sign)
        rows, shape = owner.chains.right_hand_sides(b, columns)
        direct = None
        if out is not None:
            check_out(out, shape, owner.dtype, np.ndarray)
            if out.flags.c_contiguous and not columns and not transpose:
                direct = cast("np.ndarray", out).reshape(rows.shape)
        if sign is not None and not transpose:
            rows = rows * sign
        x = cast("np.ndarray", solve(rows, direct))
        if sign is not None and transpose:
            x *= sign
        found = x.reshape(-1, *shape[:-1]) if columns else x.reshape(shape)
        found = np.moveaxis(found, 0, -1) if columns else found
        if out is None:
            return found
        if direct is None:
            out[...] = found
        return cast("np.ndarray", out)


class TridiagonalFactors:
    """Matrices that `Tridiagonal.factor` has eliminated, for any number of right-hand sides.

    Attributes
    ----------
    factors : Factors
        Of the chains, with rows of a negative `d` multiplied by -1.
    """

    def __init__(self, owner: Tridiagonal, factors: Factors, rows: Rows) -> None:
        self.factors, self._owner, self._rows = factors, owner, rows

    def __repr__(self) -> str:
        return f"TridiagonalFactors({self._owner!r})"

    def solve(
        self,
        b: Given,
        *,
        out: Array | None = None,
        check: bool = True,
        columns: bool = False,
        transpose: bool = False,
    ) -> Array:
        """Solve for right-hand sides.

        Parameters
        ----------
        b, out, columns
            As in `Tridiagonal.solve`; `b` is where the matrix was, on the host or the device.
        check : bool
            As in `Factors.solve`.
        transpose : bool
            Solve with the transposed matrix.

        Returns
        -------
        x : as of `Tridiagonal.solve`

        Raises
        ------
        InputError, DeviceMemoryError
        """
        columns, transpose = as_switch("columns", columns), as_switch("transpose", transpose)

        def solve(rows: Array, out: Array | None) -> Array:
            return self.factors.solve(rows, out=out, check=check, transpose=transpose)

        return self._rows.solve(solve, b, out, columns, transpose)

    def status(self) -> np.ndarray:
        """(m,) int64: first bad row of each system, of all rows, or -1; waits."""
        return self.factors.status()


@overload
def solve_tridiagonal(
    dl: float | Sequence[np.ndarray],
    d: list[np.ndarray],
    du: float | Sequence[np.ndarray],
    b: list[np.ndarray],
    **options: Any,
) -> list[np.ndarray]: ...


@overload
def solve_tridiagonal(
    dl: ArrayLike,
    d: ArrayLike,
    du: ArrayLike,
    b: ArrayLike,
    *,
    sizes: ArrayLike | None = None,
    method: str = "auto",
    dtype: DTypeLike | None = None,
    out: np.ndarray | None = None,
    check: bool = True,
    columns: bool = False,
    **options: Any,
) -> np.ndarray: ...


def solve_tridiagonal(
    dl: Any,
    d: Any,
    du: Any,
    b: Any,
    *,
    sizes: ArrayLike | None = None,
    method: str = "auto",
    dtype: DTypeLike | None = None,
    out: np.ndarray | None = None,
    check: bool = True,
    columns: bool = False,
    **options: Any,
) -> np.ndarray | list[np.ndarray]:
    """Solve a batch of tridiagonal systems, of equal or of different sizes.

    Row i of a system is ``dl[i - 1] x[i - 1] + d[i] x[i] + du[i] x[i + 1] = b[i]``.

    Parameters
    ----------
    dl, d, du : NumPy arrays
        Lower, main and upper diagonal. `d` is (m, n), m systems of n rows; (n,), one system; or
        (N,) with `sizes`. `dl` and `du` have one value less per system, as in LAPACK's ``gtsv``,
        or the shape of `d`, as in cuSPARSE's ``gtsv2StridedBatch``, where the first `dl` and the
        last `du` of each system are ignored. Arrays of one dimension, and numbers as `dl` or `du`,
        are those of all systems; see `Tridiagonal`. Of systems of different sizes also lists of
        arrays, one for each system.
    b : NumPy array
        Right-hand sides: the shape of `d`, or (k, m, n), (k, n), (k, N) for k of them; a list where
        `d` is one.
    sizes : (m,) integers, optional
        Rows of each system, 1 or more.
    method, **options
        As in `Solver`, with its `device`, `queue`, `max_memory` and `tune`.
    dtype : float64 or float32, optional
        Default: float32 where `dl`, `d`, `du` and `b` all are, else float64.
    out, check, columns
        As in `Tridiagonal.solve`.

    Returns
    -------
    x : like b, of `dtype`; a list where `b` is one of arrays of different sizes

    Raises
    ------
    InputError
        Shapes that do not fit, pyopencl arrays (see `Tridiagonal` for these), values of `b` or `x`
        that are not finite; and what `Solver` raises.
    PivotError
        `cell` is the system, `node` the row, counted over all systems. See the module for which
        systems have good pivots.

    The plan, the kernels and the buffers are kept for the last `MOST_KEPT` batches, by sizes,
    `dtype`, `method`, device or queue and options, of `MOST_ROWS` rows in all; so only the first
    call of each takes long.
    """
    given = {"dl": dl, "d": d, "du": du, "b": b}
    own = _sizes_of_list(d)
    if own is not None:
        if sizes is not None or out is not None or columns:
            raise InputError(
                "d is a list of arrays of several sizes; expected no sizes, out, columns"
            )
        given, sizes = {name: _joined(name, a, own) for name, a in given.items()}, own
    arrays = {name: _real_array(name, a) for name, a in given.items()}
    if dtype is None:
        numbers = {name for name in ("dl", "du") if not arrays[name].ndim}
        single = all(arrays[name].dtype == np.float32 for name in arrays.keys() - numbers)
        dtype = np.float32 if single else np.float64
    real_name(dtype)
    known = _grid(arrays) if sizes is None else sizes_of(sizes)
    kept = _kept(known, method, np.dtype(dtype), options)
    x = cast("np.ndarray", kept.solve(**arrays, out=out, check=check, columns=columns))
    return x if own is None else np.split(x, np.cumsum(own)[:-1])


def _sizes_of_list(d: object) -> list[int] | None:
    if not isinstance(d, (list, tuple)):
        return None
    shapes = [np.shape(a) for a in d if isinstance(a, (np.ndarray, list, tuple))]
    sizes = [shape[0] for shape in shapes if len(shape) == 1]
    return sizes if len(sizes) == len(d) and len(set(sizes)) > 1 else None


def _joined(name: str, given: object, sizes: list[int]) -> object:
    """Return the arrays of a list one after another; those of `dl` and `du` may be shorter by 1."""
    if np.isscalar(given):
        return given
    if not isinstance(given, (list, tuple)) or len(given) != len(sizes):
        raise InputError(f"{name} is no list of {len(sizes)} arrays; expected one, as of d")
    arrays = [_real_array(f"{name}[{k}]", a) for k, a in enumerate(given)]
    less = int(name in ("dl", "du") and arrays[0].shape != (sizes[0],))
    for k, (a, n) in enumerate(zip(arrays, sizes, strict=True)):
        if a.shape != (n - less,):
            raise InputError(f"{name}[{k}] has shape {a.shape}; expected ({n - less},)")
    return np.concatenate(arrays)


def _real_array(name: str, a: object) -> np.ndarray:
    if isinstance(a, cla.Array):
        raise InputError(f"{name} is a pyopencl array; expected NumPy (Tridiagonal takes both)")
    return real_numbers(name, a)


def _grid(arrays: dict[str, np.ndarray]) -> tuple[int, int]:
    d = arrays["d"]
    if not d.size or d.ndim not in (1, 2):
        raise InputError(f"d has shape {d.shape}; expected (m, n) or (n,), or (N,) with sizes")
    counts = [len(arrays[name]) for name in ("d", "dl", "du") if arrays[name].ndim == 2]
    return max(counts, default=1), d.shape[-1]


def _kept(
    known: tuple[int, int] | np.ndarray, method: str, dtype: np.dtype, options: dict[str, Any]
) -> Tridiagonal:
    key: Any = None
    if options.get("devices") is None:
        queue = options.get("queue")
        at = devices.choose(options.get("device"), dtype) if queue is None else queue
        others = options.keys() - {"device", "queue"}
        named = [(name, type(options[name]), options[name]) for name in sorted(others)]
        key = known if isinstance(known, tuple) else known.tobytes(), method, dtype, at, *named
        try:
            hash(key)
        except TypeError:  # of an option that is rejected below
            key = None
    check_process()
    with _LOCK:
        if key is not None and key in _KEPT:
            _KEPT.move_to_end(key)
            return _KEPT[key]
    sizes = np.full(*known) if isinstance(known, tuple) else known
    made = Tridiagonal(sizes, method, dtype, **options)
    if key is not None and made.chains.n <= MOST_ROWS:
        with _LOCK:
            _KEPT[key] = made
            while len(_KEPT) > MOST_KEPT or sum(k.chains.n for k in _KEPT.values()) > MOST_ROWS:
                _KEPT.popitem(last=False)
    return made

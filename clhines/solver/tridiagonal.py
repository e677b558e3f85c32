"""Batches of tridiagonal systems: Hines matrices whose trees have no branches.

Rows with a negative `d` are first multiplied by -1. After that the pivots of the elimination must
be positive, as there is no pivoting, unlike in LAPACK's ``gtsv``. This holds if each system is
strictly diagonally dominant, by rows or by columns, with any signs; or symmetric and positive or
negative definite. For other systems it depends on the method's order of elimination whether they
are solved or raise `PivotError`. A pivot that is small next to its row costs digits: `check` warns.

`chains` converts the arrays to Hines matrices. A `Tridiagonal` plans once. `solve_tridiagonal`
keeps one for each of the last `MOST_KEPT` batches, with at most `MOST_ROWS` rows together; batches
differ by sizes, `dtype`, `method`, device or queue, and options.
"""

from __future__ import annotations

import copyreg
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, Unpack, cast, overload

import numpy as np
import pyopencl.array as cla
from numpy.typing import ArrayLike, DTypeLike

from clhines.core.checks import as_check, as_switch, host_array, real_numbers
from clhines.core.errors import InputError
from clhines.solver.arguments import Arguments
from clhines.solver.chains.device import DeviceChains
from clhines.solver.chains.periodic import Corners, cut_corners
from clhines.solver.chains.shapes import MIXED, Chains, Matrix, Shape, refuse_buffer, sizes_of
from clhines.solver.device import devices
from clhines.solver.device.arrays import Array, Given, check_out, unmark
from clhines.solver.device.guard import ClosedProxy, Holder, check_process
from clhines.solver.engines.loaded import only_event
from clhines.solver.factors import Factors
from clhines.solver.plan.plan import real_name
from clhines.solver.solver import Solver, SolverOptions

MOST_KEPT = 4  # batches whose plan `solve_tridiagonal` keeps
MOST_ROWS = 1 << 24  # rows in all these batches together
_KEPT: OrderedDict[object, Tridiagonal] = OrderedDict()  # the last used is the last
_LOCK = threading.Lock()


class Tridiagonal(Holder):
    """Solve batches of tridiagonal systems of the same sizes again and again.

    Row i of a system is ``dl[i - 1] x[i - 1] + d[i] x[i] + du[i] x[i + 1] = b[i]``, as in LAPACK's
    ``gtsv``. There is no pivoting; `solver.tridiagonal` says which systems can be solved.

    Parameters
    ----------
    sizes : (m,) integers
        Rows of each system, 1 or more.
    method, dtype, **options
        As in `Solver`, with its `device`, `queue` and `tune`.

    Attributes
    ----------
    sizes : (m,) int64
    dtype : numpy.dtype
    chains : clhines.solver.chains.shapes.Chains
    solver : Solver
        Solves the chains, in which each row is a node whose parent is the row before.

    Raises
    ------
    InputError
        Sizes that are not whole numbers of 1 or more; and as `Solver`.

    Arrays are NumPy arrays, or pyopencl arrays of `dtype` in the solver's context. With N rows in
    all, their shapes are:

    - `d`: (N,), system after system. If all systems have n rows, also (m, n), or (n,) or (1, n)
      for one diagonal that all systems share.
    - `dl`, `du`: one value less per system: (N - m,), (m, n - 1), (n - 1,) or (1, n - 1). Or the
      shapes of `d`: then the first `dl` and the last `du` of each system are ignored, as in
      cuSPARSE. An array of length 2 that could be both is (N - m,).
    - `b` and `x`: the shapes of `d`, or k of these, (k, N) or (k, m, n); with ``columns=True``
      (N, k) or (m, n, k), as in LAPACK and SciPy. A `b` that all systems share is (n,), (1, n) or
      (k, 1, n); `x` has a solution for each system.

    `dl`, `d` and `du` may also be numbers, in NumPy. A row with a zero pivot has no solution: see
    `check`.
    """

    def __init__(
        self,
        sizes: ArrayLike,
        method: str = "auto",
        dtype: DTypeLike = np.float64,
        **options: Unpack[SolverOptions],
    ) -> None:
        real_name(dtype)
        self.sizes, self.dtype = sizes_of(sizes), np.dtype(dtype)
        self.sizes.flags.writeable = False
        self.chains = Chains(self.sizes, self.dtype)
        self.solver = Solver(self.chains.forest(), method, dtype, **options)
        forest, queue = self.solver.forest, self.solver.queue
        self._arguments = Arguments(forest, self.dtype, queue, chains=True)
        self.solver.arguments = self._arguments
        self._device: DeviceChains | None = None

    def __repr__(self) -> str:
        closed = isinstance(self.solver.engine, ClosedProxy)
        engine = "closed)" if closed else self.solver.engine.describe()
        return (
            f"Tridiagonal({len(self.sizes)} systems, {self.chains.n} rows, {self.dtype}, {engine}"
        )

    @overload
    def solve(
        self,
        dl: cla.Array,
        d: cla.Array,
        du: cla.Array,
        b: cla.Array,
        *,
        out: cla.Array | None = None,
        check: bool | str = True,
        columns: bool = False,
        periodic: bool = False,
    ) -> cla.Array: ...

    @overload
    def solve(
        self,
        dl: ArrayLike,
        d: ArrayLike,
        du: ArrayLike,
        b: ArrayLike,
        *,
        out: np.ndarray | None = None,
        check: bool | str = True,
        columns: bool = False,
        periodic: bool = False,
    ) -> np.ndarray: ...

    def solve(
        self,
        dl: Given,
        d: Given,
        du: Given,
        b: Given,
        *,
        out: Array | None = None,
        check: bool | str = True,
        columns: bool = False,
        periodic: bool = False,
    ) -> Array:
        """Solve the systems.

        Parameters
        ----------
        dl, d, du, b
            Lower, main and upper diagonal, and right-hand sides, shaped as `Tridiagonal` lists.
        out : like x, optional
            Written and returned, also before an error; may be `b` itself.
        check : bool or "raise"
            Wait for the device. Rows with a negative `d` are multiplied by -1; then raise
            `PivotError` for a pivot that is not positive or not finite. Raise `InputError` for a
            value of `b` or `x` that is not finite (NumPy only). Warn if the solution has lost
            digits; "raise" raises this warning. Without a check, a system with a bad pivot has an
            undefined `x`, often NaN or infinite, and the method `status` returns the pivot's row.
        columns : bool
            The last axis of `b` and `x` counts right-hand sides.
        periodic : bool
            The first `dl` of a system is an entry in the first row and last column, the last `du`
            an entry in the last row and first column; see `solver.chains.periodic`. NumPy only.

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

        Warns
        -----
        AccuracyWarning
            As `Solver.solve`. On a device, or if `out` is `b`, it does not give the error.
        """
        if as_switch("periodic", periodic):
            factors = self.factor(dl, d, du, check=check, periodic=True)
            return factors.solve(b, out=out, check=check, columns=columns)
        columns = as_switch("columns", columns)
        device = any(isinstance(a, cla.Array) for a in (dl, d, du, b))
        matrix = self._matrix(dl, d, du, device)

        def solve(rows: Array, out: Array | None) -> Array:
            return self.solver.solve(matrix.d, matrix.u, rows, l=matrix.l, out=out, check=check)

        return Rows(self, device, matrix.sign).solve(solve, b, out, columns)

    def factor(
        self, dl: Given, d: Given, du: Given, *, check: bool | str = True, periodic: bool = False
    ) -> TridiagonalFactors:
        """Eliminate a matrix once, to solve it for many right-hand sides.

        Parameters
        ----------
        dl, d, du, check, periodic
            As in `solve`; the arrays are copied.

        Returns
        -------
        TridiagonalFactors
            They save the elimination (see `Solver.factor`) and the conversion of the diagonals.

        Raises
        ------
        InputError, PivotError, DeviceMemoryError
        """
        corners = None
        if as_switch("periodic", periodic):
            whole = [self.chains.whole(*one) for one in (("dl", dl), ("d", d), ("du", du))]
            dl, d, du, corners = cut_corners(self.sizes, *whole)
        device = any(isinstance(a, cla.Array) for a in (dl, d, du))
        matrix = self._matrix(dl, d, du, device)
        factors = self.solver.factor(matrix.d, matrix.u, l=matrix.l, check=check)
        rows = Rows(self, device, matrix.sign)
        return TridiagonalFactors(self, factors, rows, corners, as_check(check))

    def close(self) -> None:
        """Wait for the device, and release the buffers; later calls are refused."""
        self.solver.close()
        self._device = None

    def status(self) -> np.ndarray:
        """Return the first bad row of each system in the last solve, or -1, (m,) int64."""
        return self.solver.status()

    def device_side(self) -> DeviceChains:
        """Return the converter of pyopencl arrays; the first call makes it."""
        if self._device is None:
            self._device = DeviceChains(self.chains, self.solver.queue)
        return self._device

    def _matrix(self, dl: Given, d: Given, du: Given, device: bool) -> Matrix:
        if not device:
            return self.chains.matrix(dl, d, du)
        diagonals = {"dl": dl, "d": d, "du": du}
        return self.device_side().matrix(*(self.device_array(k, a) for k, a in diagonals.items()))

    def device_array(self, name: str, a: Given) -> cla.Array:
        """Return a pyopencl array that the solver can use; refuse other arrays."""
        refuse_buffer(name, a)
        if not isinstance(a, cla.Array):
            raise InputError(MIXED)
        return self._arguments.of_device(name, a, False)


class Rows:
    """Converts right-hand sides to rows of chains, and solutions back.

    With `device` these are pyopencl arrays, else NumPy arrays. `sign` has -1 for each row of the
    matrix that was multiplied by -1; None if no row was.
    """

    def __init__(self, owner: Tridiagonal, device: bool, sign: Array | None) -> None:
        self._owner, self._sign, chains = owner, sign, owner.chains
        self._side = owner.device_side() if device else None
        self._plain = ((chains.n,), chains.grid) if not device and sign is None else ()

    def sign_on_host(self) -> np.ndarray | None:
        sign = self._sign
        return sign.get() if isinstance(sign, cla.Array) else sign

    def plain_shape(self, b: Given) -> Shape | None:
        """Return the shape of `b` if neither `b` nor the solution needs a conversion, else None."""
        shape = getattr(b, "shape", None)
        return shape if shape in self._plain else None

    def solve(
        self,
        solve: Callable[[Array, Array | None], Array],
        b: Given,
        out: Array | None,
        columns: bool,
        transpose: bool = False,
    ) -> Array:
        """Convert `b` to rows, call ``solve(rows, out)``, and return x in the user's shape."""
        if self._side is None:
            return self._on_host(solve, b, out, columns, transpose)
        rows = self._owner.device_array("b", b)
        shape, one = self._owner.chains.shapes(rows.shape, columns)
        solution: Any = out
        if out is None:
            solution = cla.empty(self._owner.solver.queue, shape, self._owner.dtype)
        check_out(solution, shape, self._owner.dtype, cla.Array)
        if solution.context != rows.context:
            raise InputError("out lives in another OpenCL context than the solver")
        apart = columns or (solution.base_data == rows.base_data and solution.size != rows.size)
        ones = self._side.ones
        before, after = (ones, self._sign) if transpose else (self._sign, ones)
        target = self._side.rows(rows, before, one, columns, None if apart else solution)
        solve(target, target)
        if apart or transpose:
            self._side.give(target, after, solution, columns)
        else:
            only_event(solution, target.events[-1])
        unmark(solution)
        return solution

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
            out = host_array("out", out)
            check_out(out, shape, owner.dtype, np.ndarray)
            if out.flags.c_contiguous and not columns and not transpose:
                direct = cast("np.ndarray", out).reshape(rows.shape)
        if sign is not None and not transpose:
            rows = rows * sign
        x = cast("np.ndarray", solve(rows, direct))
        if sign is not None and transpose:
            x *= sign
        solution = x.reshape(-1, *shape[:-1]) if columns else x.reshape(shape)
        solution = np.moveaxis(solution, 0, -1) if columns else solution
        if out is None:
            return solution
        if direct is None:
            out[...] = solution
        return cast("np.ndarray", out)


class TridiagonalFactors:
    """Matrices that `Tridiagonal.factor` has eliminated, for any number of right-hand sides.

    They can be pickled as `Factors`; after that right-hand sides must be NumPy arrays.

    Attributes
    ----------
    factors : Factors
        Factors of the chains; rows with a negative `d` are multiplied by -1.
    """

    def __init__(
        self,
        owner: Tridiagonal,
        factors: Factors,
        rows: Rows,
        corners: Corners | None = None,
        check: bool | str = True,
    ) -> None:
        self.factors, self._owner, self._rows, self._corners = factors, owner, rows, corners
        self._correct: Callable[[np.ndarray], None] | None = None
        self._signed = corners
        if corners is not None:
            self._signed = corners.with_signs(rows.sign_on_host())
            self._correct = corners.correction(partial(self.solve, check=False), check)

    def __repr__(self) -> str:
        return f"TridiagonalFactors({self._owner!r})"

    def source(
        self,
    ) -> tuple[np.ndarray, str, dict[str, np.ndarray], np.ndarray | None, Corners | None]:
        """Return the contents of a pickle, from which the matrices are eliminated again.

        These are sizes, method, d, u, l of the chains, row signs or None, and corners or None.
        """
        _, method, _, matrix = self.factors.source()
        return self._owner.sizes, method, matrix, self._rows.sign_on_host(), self._corners

    @overload
    def solve(
        self,
        b: cla.Array,
        *,
        out: cla.Array | None = None,
        check: bool | str = True,
        columns: bool = False,
        transpose: bool = False,
    ) -> cla.Array: ...

    @overload
    def solve(
        self,
        b: ArrayLike,
        *,
        out: np.ndarray | None = None,
        check: bool | str = True,
        columns: bool = False,
        transpose: bool = False,
    ) -> np.ndarray: ...

    def solve(
        self,
        b: Given,
        *,
        out: Array | None = None,
        check: bool | str = True,
        columns: bool = False,
        transpose: bool = False,
    ) -> Array:
        """Solve for right-hand sides.

        Parameters
        ----------
        b, out, columns
            As in `Tridiagonal.solve`. `b` is a NumPy array if the matrix was in NumPy arrays, else
            a pyopencl array.
        check : bool or "raise"
            As in `Factors.solve`.
        transpose : bool
            Solve with the transposed matrix.

        Returns
        -------
        x : as in `Tridiagonal.solve`

        Raises
        ------
        InputError, DeviceMemoryError
        """
        shape = self._rows.plain_shape(b)
        is_plain = columns is False and shape is not None and self._correct is None
        if is_plain and shape is not None:
            x = self.factors.quick(b, out, check, transpose, shape)
            if x is not None:
                return x
        columns, transpose = as_switch("columns", columns), as_switch("transpose", transpose)
        if transpose and self._corners is not None:
            raise InputError(
                "transpose=True is not supported for periodic systems; factor the transposed matrix"
            )

        def solve(rows: Array, out: Array | None) -> Array:
            if is_plain:
                return self.factors.solve_as_usual(rows, out, False, check, transpose)
            if self._signed is not None:
                return self._solve_periodic(self._signed, cast("np.ndarray", rows), out, check)
            return self.factors.solve(rows, out=out, check=check, transpose=transpose)

        return self._rows.solve(solve, b, out, columns, transpose)

    def _solve_periodic(
        self, corners: Corners, rows: np.ndarray, out: Array | None, check: bool | str
    ) -> np.ndarray:
        def solve(b: np.ndarray, target: Array | None = None) -> np.ndarray:
            x = cast("np.ndarray", self.factors.solve(b, out=target, check=False))
            if self._correct is not None:
                self._correct(x)
            return x

        if not as_check(check) or not rows.size:
            return solve(rows, out)
        b = rows if out is None else rows.copy()  # `out` may overlap `rows`
        x = solve(rows, out)
        if not np.isfinite(x).all():
            self.factors.solve(b, check=check)  # raises the error that says why
        corners.refine(solve, b, x, check)
        return x

    def status(self) -> np.ndarray:
        """Return the first bad row of each system as `Tridiagonal.status` does; waits."""
        return self.factors.status()


def _factored(
    sizes: np.ndarray,
    method: str,
    matrix: dict[str, np.ndarray],
    sign: np.ndarray | None,
    corners: Corners | None,
) -> TridiagonalFactors:
    owner = Tridiagonal(sizes, method, matrix["d"].dtype)
    factors = owner.solver.factor(**matrix, check=False)
    return TridiagonalFactors(owner, factors, Rows(owner, False, sign), corners, False)


copyreg.pickle(TridiagonalFactors, lambda factors: (_factored, factors.source()))


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
    check: bool | str = True,
    columns: bool = False,
    periodic: bool = False,
    **options: Any,
) -> np.ndarray:
    """Solve a batch of tridiagonal systems, of equal or of different sizes, see `Tridiagonal`.

    Parameters
    ----------
    dl, d, du : NumPy arrays or numbers
        ``dl[i - 1] x[i - 1] + d[i] x[i] + du[i] x[i + 1] = b[i]`` is row i of a system. `d` is (m,
        n) for m systems of n rows, (n,) for one system, or (N,) with `sizes`. `dl` and `du` have
        one value less per system, as in LAPACK's ``gtsv``. Or they have the shape of `d`, as in
        cuSPARSE's ``gtsv2StridedBatch``: then the first `dl` and the last `du` of each system are
        ignored. `Tridiagonal` lists the shapes of a diagonal that all systems share.
    b : NumPy array
        The shape of `d`, or (k, m, n), (k, n), (k, N) for k right-hand sides.
    sizes : (m,) integers, optional
        Rows of each system, 1 or more.
    method, **options
        As in `Solver`, with its `device`, `queue` and `tune`. Plans, kernels and buffers of the
        last `MOST_KEPT` batches are kept: only a first call is slow.
    dtype : float64 or float32, optional
        Default: float32 if `dl`, `d`, `du` and `b` all are, else float64.
    out, check, columns, periodic
        As in `Tridiagonal.solve`.

    Returns
    -------
    x : like b, of `dtype`

    Raises
    ------
    InputError
        Shapes that do not fit, pyopencl arrays (see `Tridiagonal`), values of `b` or `x` that are
        not finite; and as `Solver`.
    PivotError
        `cell` is the system, `node` the row, counted over all systems. `solver.tridiagonal` says
        which pivots are good.
    """
    system = {"dl": dl, "d": d, "du": du, "b": b}
    arrays = {name: _real_array(name, a) for name, a in system.items()}
    dtype = _dtype_of(arrays) if dtype is None else dtype
    real_name(dtype)
    if _has_no_systems(arrays):
        return np.empty(arrays["b"].shape, dtype)
    grid = _systems_and_rows(arrays, columns) if sizes is None else sizes_of(sizes)
    kept = _kept(grid, method, np.dtype(dtype), options)
    return kept.solve(**arrays, out=out, check=check, columns=columns, periodic=periodic)


def _real_array(name: str, a: object) -> np.ndarray:
    refuse_buffer(name, a)
    if isinstance(a, cla.Array):
        raise InputError(f"{name} is a pyopencl array; expected NumPy (Tridiagonal takes both)")
    rows = a if isinstance(a, (list, tuple)) else ()
    if len({len(row) for row in rows if isinstance(row, (list, tuple)) or np.ndim(row)}) > 1:
        raise InputError(f"{name} has rows of different sizes; expected one array, and sizes=")
    return real_numbers(name, a)


def _dtype_of(arrays: dict[str, np.ndarray]) -> DTypeLike:
    numbers = {name for name in ("dl", "d", "du") if not arrays[name].ndim}
    single = all(arrays[name].dtype == np.float32 for name in arrays.keys() - numbers)
    return np.float32 if single else np.float64


def _has_no_systems(arrays: dict[str, np.ndarray]) -> bool:
    d, b = arrays["d"], arrays["b"]
    return d.ndim > 0 and not d.size and not b.size and d.shape[0] == 0


def _systems_and_rows(arrays: dict[str, np.ndarray], columns: bool) -> tuple[int, int]:
    d, b = arrays["d"], arrays["b"]
    if not d.ndim:
        like = [arrays[name] for name in ("dl", "du") if arrays[name].ndim]
        shape = (b.shape[:-1] if columns else b.shape)[-2:]
        if like or not shape or 0 in shape:
            got = f"b has shape {b.shape}" if not like else "d is a number, and dl or du is not"
            raise InputError(f"{got}; expected d as an array, or b of (m, n) or (n,) and numbers")
        return (1, *shape)[-2], shape[-1]
    if not d.size or d.ndim not in (1, 2):
        raise InputError(f"d has shape {d.shape}; expected (m, n) or (n,), or (N,) with sizes")
    counts = [len(arrays[name]) for name in ("d", "dl", "du") if arrays[name].ndim == 2]
    return max(counts, default=1), d.shape[-1]


def _kept(
    grid: tuple[int, int] | np.ndarray, method: str, dtype: np.dtype, options: dict[str, Any]
) -> Tridiagonal:
    queue = options.get("queue")
    at = devices.choose(options.get("device"), dtype) if queue is None else queue
    others = options.keys() - {"device", "queue"}
    named = [(name, type(options[name]), options[name]) for name in sorted(others)]
    key: Any = grid if isinstance(grid, tuple) else grid.tobytes(), method, dtype, at, *named
    try:
        hash(key)
    except TypeError:  # an option that is rejected below
        key = None
    check_process()
    with _LOCK:
        if key is not None and key in _KEPT:
            _KEPT.move_to_end(key)
            return _KEPT[key]
    sizes = np.full(*grid) if isinstance(grid, tuple) else grid
    made = Tridiagonal(sizes, method, dtype, **options)
    if key is not None and made.chains.n <= MOST_ROWS:
        with _LOCK:
            _KEPT[key] = made
            while len(_KEPT) > MOST_KEPT or sum(k.chains.n for k in _KEPT.values()) > MOST_ROWS:
                _KEPT.popitem(last=False)
    return made

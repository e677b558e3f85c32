"""Small cells, written sample by sample."""

import numpy as np

from clhines.simulator.cells.morphology import Morphology


def cell(*rows, name="test.swc"):
    """Return a morphology from SWC rows: id, type, x, y, z, radius, parent."""
    table = np.array(rows, dtype=np.float64)
    ids = table[:, 0].astype(np.int64)
    index = {k: i for i, k in enumerate(ids.tolist())}
    return Morphology(
        parent=np.array([index.get(int(p), -1) for p in table[:, 6]], dtype=np.int64),
        xyz=table[:, 2:5].copy(),
        radius=table[:, 5].copy(),
        type=table[:, 1].astype(np.int64),
        id=ids,
        line=np.arange(1, len(ids) + 1),
        name=name,
    )


def dense(cable, system):
    a = np.diag(system.d)
    child = np.flatnonzero(cable.parent >= 0)
    a[child, cable.parent[child]] = system.u[child]
    a[cable.parent[child], child] = system.u[child]
    return a


def straight(length, radius, type_=3):
    return cell((1, type_, 0, 0, 0, radius, -1), (2, type_, length, 0, 0, radius, 1))


def assert_sound(cable):
    n = cable.num_nodes
    assert cable.parent.dtype == np.int32
    assert cable.parent[0] == -1
    assert (cable.parent[1:] >= 0).all()
    assert (cable.parent[1:] < np.arange(1, n)).all()
    assert cable.g_axial[0] == 0
    assert np.isfinite(cable.g_axial).all()
    assert (cable.g_axial[1:] > 0).all()
    assert np.isfinite(cable.xyz).all()
    segment = np.zeros(n, dtype=bool)
    for first, nseg in zip(cable.first_node, cable.nseg, strict=True):
        segment[first : first + nseg] = True
    assert (cable.area[segment] > 0).all()
    assert (cable.area[~segment] == 0).all()  # junctions
    children = np.bincount(cable.parent[1:], minlength=n)
    assert (children[~segment] > 0).all()
    assert cable.area[cable.soma] > 0
    system = cable.system(0.025)
    off = np.abs(system.u)
    row = off + np.bincount(cable.parent[1:], weights=off[1:], minlength=n)
    assert (system.d[segment] > row[segment] * (1 - 1e-15)).all()
    np.testing.assert_allclose(system.d[~segment], row[~segment], rtol=1e-14)

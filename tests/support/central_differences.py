"""Losses of records, and their slopes by central differences of fourth order."""

import numpy as np

STEPS = (-2, -1, 1, 2)
SHARES = (1 / 12, -8 / 12, 8 / 12, -1 / 12)


def rows_of(sim, duration, count):
    """Rows of the first records of a run from the start, and its spikes in steps."""
    sim.reset()
    result = sim.run(duration)
    spikes = np.sort(np.round(result.spike_time / sim.model.dt, 6))
    return [result[k] for k in range(count)], spikes


def weighted_squares(rows, seed=0):
    """A loss of all records: a sum of squares, each value with a different weight."""
    rng = np.random.default_rng(seed)
    sizes = [np.abs(r).max() + 1e-30 for r in rows]
    weights = [rng.uniform(0.5, 1.5, r.shape) / s**2 / r.size for r, s in zip(rows, sizes)]

    def loss(*records):
        value = sum(float((w * r**2).sum()) for w, r in zip(weights, records))
        return value, [2 * w * r for w, r in zip(weights, records)]

    return loss


def slope(value_at, size):
    """Return the slope at 0 of a function that returns a value and spikes; the spikes must stay."""
    values, spikes = zip(*(value_at(step * size) for step in STEPS))
    assert all(np.array_equal(s, spikes[0]) for s in spikes), "spikes are in other steps"
    return sum(c * v for c, v in zip(SHARES, values)) / size


def check_parameters(sim, duration, count, parameters, seed=0, size=1e-4, rel=1e-6):
    """Compare the gradient by parameters of groups with differences along a random direction."""
    rng = np.random.default_rng(seed)
    rows, _ = rows_of(sim, duration, count)
    loss = weighted_squares(rows, seed)
    old, direction = {}, {}
    for group, name in parameters:
        value = np.asarray(dict(group.parameters)[name], float)
        scale = np.abs(value).max() or 1e-3
        old[group, name] = value
        direction[group, name] = np.asarray(scale * rng.uniform(-1, 1, value.shape))
    seen = []
    gradient = sim.gradient(duration, lambda *r: (seen.extend(r), loss(*r))[1], [*parameters])
    for of_gradient, of_run in zip(seen, rows, strict=True):
        assert np.abs(of_gradient - of_run).max() <= 1e-9 * np.abs(of_run).max()
    expected = sum(float((gradient[key] * d).sum()) for key, d in direction.items())

    def value_at(step):
        for (group, name), value in old.items():
            new = value + step * direction[group, name]
            sim.set(group, **{name: new if new.ndim else float(new)})
        rows, spikes = rows_of(sim, duration, count)
        return loss(*rows)[0], spikes

    difference = slope(value_at, size)
    value_at(0.0)
    largest = max(abs(float((gradient[key] * d).sum())) for key, d in direction.items())
    assert largest > 0
    assert abs(difference - expected) <= rel * largest, (difference, expected, largest)
    return gradient

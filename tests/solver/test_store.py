"""The store of tuned winners."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bench.made import chain, star
from clhines import Forest
from clhines.core import files
from clhines.solver import tune
from clhines.solver.plan.auto import Candidate

DEVICE = SimpleNamespace(
    name=" Some Device ",
    platform=SimpleNamespace(name="Some Platform"),
    driver_version="1.2",
    max_compute_units=3,
)
FOREST = Forest.from_parents([chain(5), star(4), chain(5)])
KEY = {"device": "Some Device", "forest": "abc", "options": {}}
TUNING = tune.Tuning(
    ((Candidate("flat"), 2.0), (Candidate("fine", {"max_cells": 3}), 1.0)),
    Candidate("flat"),
    Candidate("fine", {"max_cells": 3}),
)


def test_round_trip():
    assert tune.load(KEY) is None
    path = tune.save(KEY, TUNING)
    assert path.parent == Path(os.environ["CLHINES_CACHE_DIR"])
    assert tune.load(KEY) == TUNING.best
    other = Candidate("flat")
    tune.save(KEY, tune.Tuning(TUNING.rows, other, other))
    assert tune.load(KEY) == other
    assert tune.load({**KEY, "forest": "abd"}) is None
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_key_depends_on_everything_that_a_winner_depends_on():
    base = tune.store_key(DEVICE, FOREST, "float64", {"max_cells": None})
    assert base == tune.store_key(
        DEVICE, Forest.from_parents([chain(5), star(4), chain(5)]), np.float64, {}
    )
    json.dumps(base)
    assert base["device"] == "Some Device"
    others = [
        tune.store_key(SimpleNamespace(**{**vars(DEVICE), name: value}), FOREST, "float64", {})
        for name, value in (
            ("name", "Other"),
            ("platform", SimpleNamespace(name="Other")),
            ("driver_version", "1.3"),
            ("max_compute_units", 4),
        )
    ]
    others.append(tune.store_key(DEVICE, FOREST, "float32", {}))
    others.append(tune.store_key(DEVICE, FOREST, "float64", {"max_cells": 2}))
    others += [
        tune.store_key(DEVICE, Forest.from_parents(cells), "float64", {})
        for cells in (
            [star(4), chain(5), chain(5)],
            [chain(5), star(4), star(4)],
            [chain(5), chain(4), chain(5)],
            [chain(5), star(4)],
            [chain(5), star(4), chain(5), chain(5)],
        )
    ]
    texts = {json.dumps(key, sort_keys=True) for key in (base, *others)}
    assert len(texts) == 1 + len(others)


def damaged(entry):
    """Texts of files that `save` did not write, or another version did."""
    whole = json.dumps(entry)
    yield from ("", "{", whole[: len(whole) // 2], "null", "[]", "3", "\x00" * 40, "[" * 100_000)
    for change in (
        {"schema": 0},
        {"schema": None},
        {"key": 3},
        {"key": {**entry["key"], "driver": "other"}},
        {"method": "gauss"},
        {"method": "auto"},
        {"method": ["fine"]},
        {"options": None},
        {"options": {"colour": 1}},
        {"options": {"max_cells": 0}},
        {"options": {"max_cells": "3"}},
        {"options": {"max_cells": 2.5}},
        {"options": {"max_cells": True}},
    ):
        yield json.dumps({**entry, **change})
    for name in ("schema", "key", "method", "options"):
        yield json.dumps({k: v for k, v in entry.items() if k != name})


def test_whatever_is_wrong_with_a_file_it_is_ignored():
    path = tune.save(KEY, TUNING)
    texts = list(damaged(json.loads(path.read_text())))
    assert len(texts) == 25
    for text in texts:
        path.write_text(text)
        assert tune.load(KEY) is None, text[:200]
    path.write_bytes(b"\xff\xfe\x80")
    assert tune.load(KEY) is None
    path.unlink()
    path.mkdir()
    assert tune.load(KEY) is None


def test_a_damaged_file_is_replaced():
    path = tune.save(KEY, TUNING)
    path.write_text("{")
    tune.save(KEY, TUNING)
    assert tune.load(KEY) == TUNING.best


def test_a_failed_write_leaves_the_old_entry_and_no_rest(monkeypatch):
    path = tune.save(KEY, TUNING)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        tune.save(KEY, tune.Tuning(TUNING.rows, *[Candidate("flat")] * 2))
    assert tune.load(KEY) == TUNING.best
    assert [p.name for p in path.parent.iterdir()] == [path.name]


WRITER = """
import sys
from clhines.solver import tune
from clhines.solver import tune
from clhines.solver.plan.auto import Candidate
me = int(sys.argv[1])
row = Candidate("fine", {"max_cells": me})
for k in range(100):
    tune.save({"device": "d", "n": k % 5}, tune.Tuning(((row, 1.0 + k),) * 50, row, row))
    found = tune.load({"device": "d", "n": k % 5})
    assert found is not None and found.options["max_cells"] in (1, 2, 3, 4)
"""


def test_processes_write_at_once():
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(k)], stderr=subprocess.PIPE)
        for k in (1, 2, 3, 4)
    ]
    failed = [process.communicate()[1].decode() for process in running]
    assert [process.returncode for process in running] == [0] * 4, failed
    assert len(list(Path(os.environ["CLHINES_CACHE_DIR"]).iterdir())) == 5


def test_the_users_cache_folder_is_the_default(monkeypatch):
    monkeypatch.delenv("CLHINES_CACHE_DIR")
    assert files.cache_folder().name == "clhines"

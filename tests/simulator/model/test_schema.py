"""The fields of a state: keys in files, families, and fields that a rule adds."""

import numpy as np
import pytest

from clhines import STDP
from clhines.simulator.model.schema import (
    EXACT,
    Field,
    Schema,
    plastic_fields,
    queue_of,
    split_name,
)

pytestmark = pytest.mark.core


def test_keys_and_families():
    voltage, gate = Field("v", "node"), Field("m", "instance", kind=3, family="state")
    schema = Schema([voltage, gate, *EXACT, gate, *queue_of(2)])
    keys = [field.key for field in schema]
    assert len(keys) == len({*keys}) and keys[:3] == ["v", "state3_m", "weight"]
    assert schema.of("state", 3) == [gate] and schema.of("state", 1) == []
    saved = {key: np.array([k]) for k, key in enumerate(keys)}
    assert schema.named(saved, "state", 3) == {"m": saved["state3_m"]}
    assert {*schema.named(saved, "queue", 2)} >= {"time", "flag", "connection", "armed"}


def test_precision_of_fields():
    for real in (np.float32, np.float64):
        assert Field("v", "node").dtype_in(real) == np.dtype(real)
        assert Field("count", "source", "int64").dtype_in(real) == np.int64


def test_fields_of_a_rule():
    keys = {field.key: field.per for field in plastic_fields(STDP(0.01, 0.01))}
    assert keys["plastic_weight"] == "plastic"
    assert {key for key in keys if key.startswith("plastic_trace_")} == {
        "plastic_trace_pre",
        "plastic_trace_post",
    }
    assert keys["plastic_trace_pre"] == "sent" and keys["plastic_step_post"] == "sent"
    assert [split_name(name) for name in ("pre", "post2")] == [("pre", 0), ("post", 2)]

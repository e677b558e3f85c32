"""What options do on one mix."""

import json

import pyopencl as cl

from bench.measures import options


def test_options_on_one_mix(measured_on, monkeypatch, tmp_path, capsys):
    some = ({}, {"reroot": True}, {"split": "mean"}, options.SHAPING[-1])
    monkeypatch.setattr(options, "SHAPING", some)
    monkeypatch.setattr(options, "LANES", ({"k": 4},))
    arguments = ["--nodes", "3000", "--dtype", "float32", "--out", str(tmp_path)]
    assert options.main(arguments) == 0
    (path,) = tmp_path.glob("options-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    rows = [r for r in rows if "vectors" not in r["kind"]]
    names = ["none", "reroot", "split=mean", "four of these", "local", "k=4"]
    assert [options.label(r["options"]) for r in rows] == names
    none, rerooted, split, _, _, dhs = rows
    assert rerooted["steps"] <= none["steps"] > split["steps"]
    assert split["padding"] < none["padding"] and split["levels"] > none["levels"]
    assert split["idle_lanes"] < none["idle_lanes"]
    on_cpu = bool(measured_on.device.type & cl.device_type.CPU)  # else cells lie side by side
    assert (dhs["padding"] == 0) == on_cpu and dhs["barriers"] > none["barriers"]
    assert all(r["good"] and r["seconds"] > 0 and 0 <= r["idle_lanes"] < 1 for r in rows)
    assert all(len(line) <= 100 for line in capsys.readouterr().out.splitlines())

"""Orders of weights in memory."""

import json

from bench.measures import orders


def test_orders(measured_on, monkeypatch, tmp_path, capsys):
    arguments = ["--sparse", "300", "--dense", "40", "--out", str(tmp_path)]
    assert orders.main(arguments) == 0
    (path,) = tmp_path.glob("orders-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert [r["network"] for r in rows] == ["sparse"] * 6 + ["dense"] * 6
    assert [r["order"] for r in rows] == ["source", "target", "cut"] * 4
    for source, target, cut in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        assert source["forward"] < cut["forward"] < target["forward"]
        assert target["backward"] < cut["backward"] < source["backward"]
        assert all(r["good"] and r["stdp"] > 0 and r["seconds"]["pull"] > 0 for r in (source, cut))
    printed = capsys.readouterr().out
    assert all(len(line) <= 100 for line in printed.splitlines())
    assert printed.count("  yes") == len(rows)
    monkeypatch.setattr(orders.weight_order, "graph_cut", lambda f, _: orders.np.arange(len(f)))
    monkeypatch.setattr(orders.Changing, "step", lambda *_: 1.0)  # nothing is delivered
    assert orders.main(arguments) == 1

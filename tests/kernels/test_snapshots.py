"""Every template with each vendor switch on and off: unchanged, and plain if all are off."""

import json
import re
from dataclasses import fields, replace

import networks
import numpy as np
import pytest
import snapshots
from networks import mixed_network, simple_network
from systems import make_system
from tolerances import assert_close

from bench.made import random_binary_tree
from clhines import Forest, Solver
from clhines.simulator.gpu.plan import plan_epochs
from clhines.solver.device import devices
from clhines.solver.plan.templates import FOLDER, render

ASSEMBLY = re.compile(r"\basm\b|__asm")
CLANG = "__builtin_prefetch"


@pytest.fixture(scope="module")
def every():
    """All specs, as (line of the file, device, spec)."""
    return [(name, device, s) for name, device, specs in snapshots.specs() for s in specs]


def test_all_kernels_are_those_of_the_snapshots():
    stored, result = json.loads(snapshots.FILE.read_text("utf-8")), snapshots.hashes()
    changed = sorted(k for k in stored.keys() | result.keys() if stored.get(k) != result.get(k))
    assert changed == [], "meant? then run: python tests/kernels/snapshots.py"


def test_the_page_shows_a_kernel_as_it_is():
    text = snapshots.PAGE.read_text("utf-8")
    assert text == snapshots.page(text), "meant? then run: python tests/kernels/snapshots.py"
    assert "{   // level 2" in text and "{   // level 3" not in text


def test_every_template_is_rendered(every):
    templates = {p.relative_to(FOLDER).with_suffix("").as_posix() for p in FOLDER.rglob("*.mako")}
    rendered = {spec.template for _, _, spec in every}
    assert rendered == {t for t in templates if "/common/" not in t}
    for switch in ("ptx", "prefetch"):
        with_it = [s for _, _, s in every if switch in {f.name for f in fields(s)}]
        for template in {s.template for s in with_it}:
            values = {(s.real, getattr(s, switch)) for s in with_it if s.template == template}
            assert {real for real, _ in values} == {"double", "float"}
            assert len(values) == 2 * len({value for _, value in values}) > 2, template


def test_assembly_and_builtin_functions_stand_only_where_the_compiler_takes_them(every):
    for name, device, spec in every:
        text, ptx = render(spec), getattr(spec, "ptx", False)
        builtin = getattr(spec, "prefetch", "") == "builtin"
        assert ptx <= device.endswith("PTX") and builtin <= device.endswith("Clang"), name
        assert bool(ASSEMBLY.search(text)) == ptx, f"{name}: {spec}"
        assert (CLANG in text) == builtin, f"{name}: {spec}"
    assert any(getattr(s, "prefetch", "") == "builtin" for _, _, s in every)


@pytest.fixture
def ptx_queue(fast_queue):
    if not devices.limits(fast_queue.device).ptx:
        pytest.skip("this device does not take PTX")
    return fast_queue


def without_ptx(monkeypatch):
    limits = devices.limits
    monkeypatch.setattr(devices, "limits", lambda device: replace(limits(device), ptx=False))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("nodes", [300, 30_000])
def test_nvidia_ptx_solves_the_same(ptx_queue, monkeypatch, nodes, symmetric, dtype):
    """Compare natural and device order, with factors, with whole cells and with pieces."""
    forest = Forest.from_parents([random_binary_tree(nodes, 30, seed) for seed in range(20)])
    system = make_system(forest, np.dtype(dtype), symmetric)
    results = []
    for on in (True, False):
        if not on:
            without_ptx(monkeypatch)
        solver = Solver(forest, "contraction", dtype, queue=ptx_queue)
        for spec in (part.spec for part in solver.plan.parts):  # no PTX for values in registers
            assert spec.ptx == (on and not (spec.direct and dtype == "float32"))
        lower = {} if symmetric else {"l": system.l}
        factors = solver.factor(system.d, system.u, **lower)
        results.append((solver.solve(**system.arrays), factors.solve(system.b)))
        for x in results[-1]:
            system.assert_solved(x)
    for one, other in zip(*results, strict=True):
        assert_close(forest, one, other, np.dtype(dtype))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("build", [mixed_network, simple_network])
def test_nvidia_ptx_advances_the_same(ptx_queue, monkeypatch, build, dtype):
    limits = devices.limits(ptx_queue.device)
    for on in (True, False):
        room = replace(limits, ptx=on)
        monkeypatch.setattr(networks, "limits", lambda device, room=room: room)
        sim = networks.block_simulation(build, ptx_queue, dtype)
        assert {p.spec.ptx for p in plan_epochs(sim.model, dtype, room)} == {on}
        networks.assert_follows(sim, build, dtype)

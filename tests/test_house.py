"""The structure of the package: who imports whom, pairs of templates and specs, private names."""

import ast
import functools
from collections import Counter
from pathlib import Path

from template_modules import PAIRS

ROOT = Path(__file__).parents[1]
PACKAGE, KERNELS = ROOT / "clhines", ROOT / "kernels"
GROUND = (
    "errors",
    "refusals",
    "summary",
    "progress",
    "units",
    "arrays",
    "quantities",
    "checks",
    "files",
    "forest",
    "reference",
)  # each knows those before
ALLOWED = {  # imports for types count
    "plan": {*GROUND},
    "device": {*GROUND, "plan.plan", "plan.kernel_spec"},
    "solve": {*GROUND, "plan", "device"},
    "literature": {*GROUND, "plan", "device"},  # `METHODS` names its planners
    "cells": {*GROUND},
    "mechanisms": {"errors", "refusals", "units", "arrays", "checks", "files", "quantities"},
    "network": {*GROUND, "cells", "mechanisms"},
    "model": {*GROUND, "cells", "mechanisms", "network"},
    "simulate": {
        *GROUND,
        "analysis",
        "plan",
        "device",
        "solve",
        "cells",
        "network",
        "model",
        "mechanisms",
    },
    "neuron": {*GROUND, "cells", "mechanisms", "network", "model", "simulate"},
    "draw": {"errors", "files", "plan.plan", "cells.cable"},
    "analysis": {"errors", "arrays", "checks", "files"},
}
ALLOWED["cli"] = {*GROUND, *ALLOWED, "cli"}
PICTURES = {
    "plan.plan",
    "cells.cable",
    "simulate.result",
    "cli",
}  # these may import `draw`, when called
OUTSIDE = {  # package -> who may import it
    "pyopencl": {"device", "solve", "simulate"},
    "mako": {"device"},
    "argparse": {"cli"},
    "matplotlib": {"draw", "cells", "simulate"},  # elsewhere than in draw for types alone
    "mpi4py": {"simulate"},
    "neuron": {"neuron"},
    "pandas": {"analysis", "simulate"},  # for types alone
    "neo": {"analysis"},
    "h5py": {"analysis", "simulate"},
    "efel": {"analysis"},
    "bluepyopt": {"analysis"},
    "torch": {"solve", "analysis"},
    "jax": {"solve"},
}
# What the move alone has left; each line goes when its cure lands.
CIRCLES: list[set[str]] = []
UPWARD: set[tuple[str, str]] = set()
NAMED_ALIKE = {"Factors"}  # of `clhines.torch`, too: what `torch.factor` gives is public
PRIVATE = 10  # uses of another object's `_name` at most


@functools.cache
def modules():
    """Dotted name without the package's -> tree, of every module."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] != "kernels":
            found[".".join(parts).removesuffix("__init__").rstrip(".")] = ast.parse(
                path.read_text("utf-8")
            )
    return found


def imports(tree):
    """Dotted names that a module imports: inside the package, and outside."""
    inside, outside = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            if node.module == "clhines" or node.module.startswith("clhines."):
                base = node.module[len("clhines.") :]
                for alias in node.names:
                    name = f"{base}.{alias.name}".lstrip(".")
                    inside.add(name if name in modules() else base)
            else:
                outside.add(node.module.split(".")[0])
        elif isinstance(node, ast.Import):
            for alias in node.names:
                assert not alias.name.startswith("clhines."), alias.name
                outside.add(alias.name.split(".")[0])
    return inside - {""}, outside - {"clhines"}


@functools.cache
def all_imports():
    """Module -> what it imports."""
    return {name: imports(tree) for name, tree in modules().items()}


def package_of(name):
    return name.split(".")[0]


def may_import(name, other):
    package = package_of(name)
    if package_of(other) == "draw":
        return name in PICTURES or package in PICTURES
    if package in GROUND:
        return other in GROUND[: GROUND.index(package)]
    allowed = ALLOWED[package]
    return package == package_of(other) or package_of(other) in allowed or other in allowed


def test_imports_are_those_of_the_table():
    assert len(all_imports()) > 200
    for name, (inside, outside) in all_imports().items():
        if not name:
            continue
        assert package_of(name) in {*GROUND, *ALLOWED}, f"{name} has no place in the house"
        upward = {(name, other) for other in inside if not may_import(name, other)}
        assert upward <= UPWARD
        for library, packages in OUTSIDE.items():
            assert library not in outside or package_of(name) in packages, (name, library)


def circles():
    """Groups of modules that import each other, directly or round about."""
    graph = {name: found[0] for name, found in all_imports().items() if name}
    reach = {}
    for name in graph:
        seen, todo = set(), [name]
        while todo:
            for other in graph.get(todo.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        reach[name] = seen
    return {
        frozenset(m for m in reach[name] if name in reach[m])
        for name in graph
        if name in reach[name]
    }


def test_there_is_no_circle():
    known = [frozenset(c) for c in CIRCLES]
    new = [sorted(c) for c in circles() if not any(c <= k for k in known)]
    assert new == []


def private_uses():
    """Places where a module uses `other._name`, or imports a `_name`."""
    found = []
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                if not own and not node.attr.startswith("__"):
                    found.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
            elif isinstance(node, ast.ImportFrom) and node.module.startswith("clhines"):
                private = [
                    a.name for a in node.names if a.name.startswith("_") and a.name[1] != "_"
                ]
                found += [f"{name}:{node.lineno}: import {p}" for p in private]
    return found


def test_private_names_are_left_alone():
    found = private_uses()
    assert len(found) <= PRIVATE, "\n".join(found)


def class_names():
    """Name without `_` -> modules with a class or an alias of types so named."""
    found = {}
    for module, tree in modules().items():
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        for line in tree.body:
            if isinstance(line, ast.Assign | ast.AnnAssign) and "TypeVar(" not in ast.unparse(line):
                targets = getattr(line, "targets", None) or [line.target]
                names |= {t.id for t in targets if isinstance(t, ast.Name)}
        for name in {name.lstrip("_") for name in names}:
            if name[:1].isupper() and not (name.isupper() and len(name) > 1):
                found.setdefault(name, []).append(module)
    return found


def test_a_class_name_has_one_meaning():
    assert {n for n, where in class_names().items() if len(where) > 1} == NAMED_ALIKE


def specs():
    """Template -> modules with a class that names it, alone or among others."""
    found = {}
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            for line in node.body:
                target = line.target if isinstance(line, ast.AnnAssign) else None
                if isinstance(line, ast.Assign):
                    target = line.targets[0]
                if isinstance(target, ast.Name) and target.id in ("template", "templates"):
                    values = getattr(line.value, "elts", [line.value])
                    for value in values:
                        if isinstance(value, ast.Constant) and value.value:
                            found.setdefault(value.value, []).append(name)
    return found


def test_folders_have_a_dozen_modules_at_most():
    folders = Counter(path.parent for path in PACKAGE.rglob("[!_]*.py"))
    assert {str(f): n for f, n in folders.items() if n > 12} == {}


def test_every_template_has_one_spec_and_one_module():
    templates = {p.relative_to(KERNELS).with_suffix("").as_posix() for p in KERNELS.rglob("*.mako")}
    named = specs()
    assert set(named) == {t for t in templates if not t.startswith("common/")}
    for template, where in named.items():
        module = template.replace("/", ".")
        expected = PAIRS.get(template, f"plan.{module}" if module.startswith("by_") else module)
        assert where == [expected], template

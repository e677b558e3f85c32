"""Mutated .mod files: refuse, without a traceback, texts that NEURON's translator refuses."""

import random
import re
import time
from pathlib import Path

import nocmodl
import pytest

from clhines.simulator.mechanisms.nmodl import NmodlError
from clhines.simulator.mechanisms.nmodl.build import build
from clhines.simulator.mechanisms.nmodl.reading.lexer import Includes

pytestmark = pytest.mark.skipif(nocmodl.folder() is None, reason="NEURON is not installed")
MOD = Path(__file__).parents[1] / "mod"
FILES = sorted([*MOD.glob("*.mod"), *(MOD / "nmodl").glob("*.mod")])
TOKEN = re.compile(r"\s+|[A-Za-z_]\w*|[\d.]+(?:[eE][-+]?\d+)?|.", re.S)
PIECES = [
    *"( { } ) [0] , ; < ! ^ % @ $ # \\ = ' - * + zz 1 v t dt celsius 1e 1.2.3 ? : START BY".split(),
    "(S/cm2", "LOCAL q", "RANGE zz", "GLOBAL zz", "STATE { zz }", "PARAMETER { zz = 1 }", "zz = 1",
    "if (v > 0) { ", "TABLE q FROM 0 TO 1 WITH 10", "INITIAL { }", "NET_RECEIVE(w) { }",
    "PROCEDURE zz() { }", "COMMENT", "ENDCOMMENT", "POINTER zz", "USEION zz READ ezz", "WRITE zz",
    "FROM k = 0 TO 3 { }", "SOLVE s METHOD cnexp", "~ a <-> b (1,2)", "zz' = 1", "DEFINE N 3",
]  # fmt: skip


def mutated(seed):
    rng = random.Random(seed)
    path = rng.choice(FILES)
    tokens = TOKEN.findall(path.read_text("utf-8"))
    for _ in range(rng.choice([1, 1, 2])):
        solid = [k for k, token in enumerate(tokens) if not token.isspace()] or [0]
        k, other, how = rng.choice(solid), rng.choice(solid), rng.randrange(7)
        if how == 0:
            tokens[k] = ""
        elif how == 1:
            tokens[k] += f" {tokens[k]}"
        elif how == 2:
            tokens[k], tokens[other] = tokens[other], tokens[k]
        elif how == 3:
            tokens[k] += f" {rng.choice(PIECES)} "
        elif how == 4:
            tokens[k] = rng.choice(PIECES)
        elif how == 5:
            tokens[k] = tokens[k][: rng.randrange(len(tokens[k]))]
        else:
            tokens = tokens[:k] or [""]
    return path, "".join(tokens)


@pytest.mark.slow
def test_what_neuron_refuses_is_refused():
    accepted = []
    for seed in range(200):
        path, text = mutated(seed)
        begin = time.process_time()
        try:
            build(text, str(path), Includes(path.parent))
        except NmodlError as error:
            assert "\n" not in str(error.rejections[0]) and len(str(error.rejections[0])) < 1000
            continue
        finally:
            assert time.process_time() - begin < 10
        beside = [*path.parent.glob("*.inc")]
        if not nocmodl.takes(text, path.stem, beside):
            accepted.append((seed, path.name))
    assert accepted == []

"""Values from outside a file: TABLEs that NEURON has filled, raised errors."""

import mod_files
import numpy as np
import pytest
from neuron_scripts import make_section, with_values

import clhines
from clhines import Mechanism
from clhines.core.errors import InputError
from clhines.neuron.convert import RejectedError, reject

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron

STOP = 10.0  # ms
EPS = 400 * 2.2e-16  # 400 steps' relative roundings in voltages without spikes


@pytest.fixture
def cell():
    mod_files.loaded()
    section = make_section("given", "pas", L=20, diam=20)
    clamp = with_values(h.IClamp(section(0.5)), delay=1, dur=5, amp=0.05)
    yield section, clamp
    h.delete_section(sec=section)


def in_pieces(run, refs, before=lambda turn: None):
    """Return the values over time of two runs, each in two pieces."""
    vectors, results = [h.Vector().record(ref) for ref in refs], []
    for turn in range(2):
        before(turn)
        h.finitialize(-65)
        run(STOP / 2)
        run(STOP)
        results.append([np.array(v) for v in vectors])
    return np.array(results)


def compare(refs, before=lambda turn: None, engine="auto"):
    expected = in_pieces(h.continuerun, refs, before)
    ours = in_pieces(lambda until: clhines.neuron.run(until, engine=engine), refs, before)
    assert (np.ptp(expected, axis=2) > 0).all()
    assert (np.abs(ours - expected) <= EPS * np.abs(expected).max(axis=2, keepdims=True)).all()


def test_a_reason_that_instances_share_is_said_once():
    shared = [reject("", "neuron.vector-record-t-in-psolve") for _ in range(3)]
    lines = str(RejectedError(shared)).splitlines()
    assert lines == ["the model has 1 unsupported construct:", f"  {shared[0]}"]


def test_a_table_as_neuron_has_made_it(cell):
    """NEURON filled it in its first INITIAL, with another `scale`, for all instances."""
    section, _ = cell
    section.insert("ext_made")
    segment = section(0.5)
    refs = segment._ref_v, segment._ref_m_ext_made, segment._ref_scale_ext_made

    def before(turn):
        segment.ext_made.scale = 0.1

    in_pieces(h.continuerun, refs, before)  # from here on the table has another `scale`
    compare(refs, before)


def test_a_table_that_is_made_again(cell):
    section, _ = cell
    section.insert("ext_made")
    h.finitialize(-65)
    assert not clhines.neuron.check()
    h.base_ext_made = 0.35
    [said] = map(str, clhines.neuron.check())
    assert "TABLE of rates depends on 'scale', which changes" in said
    assert "call h.finitialize(), or set usetable_ext_made = 0" in said
    h.finitialize(-65)
    assert not clhines.neuron.check()
    h.base_ext_made, played, times = 0.3, h.Vector([0.3, 2]), h.Vector([0, 5])
    played.play(h._ref_base_ext_made, times)
    h.finitialize(-65)
    [said] = map(str, clhines.neuron.check())
    assert "TABLE of rates depends on base, which Vector.play sets" in said
    h.base_ext_made = 0.3


def test_a_table_of_what_initial_sets_and_hoc_does_not_see(cell):
    """NEURON fills it with the old values before INITIAL, and again in the next step."""
    section, _ = cell
    section.nseg, section.L = 3, 200
    section.insert("ext_unseen")
    vectors = [h.Vector().record(r) for s in section for r in (s._ref_v, s._ref_m_ext_unseen)]
    results = []
    h.celsius = 35
    h.finitialize(-65)
    with pytest.raises(RejectedError, match="TABLE of pace depends on 'T', which changes"):
        clhines.neuron.run(STOP)
    for run in (h.continuerun, clhines.neuron.run):
        h.finitialize(-65)
        h.fadvance()
        run(STOP)
        results.append(np.array(vectors))
    expected, got = results
    assert (np.abs(got - expected) <= EPS * np.abs(expected).max(1, keepdims=True)).all()
    section(0.9).ext_unseen.least = 0.3
    [said] = map(str, clhines.neuron.check())
    assert "ext_unseen: TABLE of pace depends on" in said
    section(0.9).ext_unseen.least = 0.2
    section(0.9).ext_unseen.cold = 10  # NEURON would take the first instance's
    h.finitialize(-65)
    [said] = map(str, clhines.neuron.check())
    assert "ext_unseen: TABLE of pace depends on 'T', which changes" in said
    h.celsius = 6.3


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs", "epochs-gpu"])
def test_what_is_set_where_a_table_is_made(cell, engine):
    """Compare variables that a block sets while filling a table; such steps are NEURON's."""
    section, _ = cell
    section.nseg, section.L = 3, 200
    section.insert("ext_aside")
    vectors = [h.Vector().record(ref) for s in section for ref in (s._ref_v, s._ref_n_ext_aside)]
    vectors.append(h.Vector().record(section(0.5)._ref_ik))
    results = []
    for run in (h.continuerun, lambda until: clhines.neuron.run(until, engine=engine)):
        turns = []
        for first, celsius in ((2, 31), (0, 12), (0, 33)):
            h.celsius = celsius
            h.half_ext_aside, h.tadj_ext_aside = 25 + first, 0.7
            h.finitialize(-65)
            run(first)
            run(6)
            turns.append([*map(np.array, vectors), h.tadj_ext_aside])
        results.append(turns)
    for expected, got in zip(*results, strict=True):
        for truth, ours in zip(expected, got, strict=True):
            assert (np.abs(ours - truth) <= EPS * np.abs(truth).max()).all()
    h.half_ext_aside, h.celsius = 25, 20  # the next step would fill the table
    for run in (clhines.from_neuron, lambda: clhines.neuron.run(8, engine=engine)):
        with pytest.raises(RejectedError, match="TABLE of trates, which NEURON's next step fills"):
            run()
    h.fadvance()
    assert clhines.neuron.check() == []
    for segment in section:
        segment.ext_aside.early = 0  # INITIAL does not fill it
    h.celsius = 6.3
    h.finitialize(-65)
    [said] = map(str, clhines.neuron.check())
    assert said == (
        "ext_aside: TABLE of trates, which NEURON's next step fills; let NEURON take a step"
    )
    played, times = h.Vector([20, 30]), h.Vector([0, 5])
    played.play(h._ref_half_ext_aside, times)
    h.finitialize(-65)
    [said] = map(str, clhines.neuron.check())
    assert "TABLE of trates depends on half, which Vector.play sets" in said
    h.half_ext_aside = 25


@pytest.mark.parametrize("name", ["ext_warm", "ext_warmed"])
def test_a_table_of_what_initial_sets(cell, name):
    """NEURON fills one table before INITIAL, from values of the last run, and the other after it.

    A parameter that is not in DEPEND has no effect until NEURON fills the table again.
    """
    section, _ = cell
    section.insert(name)
    refs = section(0.5)._ref_v, getattr(section(0.5), f"_ref_m_{name}")
    vectors = [h.Vector().record(ref) for ref in refs]

    def turns(run):
        ours = []
        h.celsius = 5
        for celsius in (15, 30, 20):
            h.finitialize(-65)
            h.celsius = celsius
            for _ in range(2):  # the second run reuses the first one's table
                h.finitialize(-65)
                run(STOP / 2)
                setattr(h, f"half_{name}", 45)
                run(STOP)
                ours.append([np.array(v) for v in vectors])
                setattr(h, f"half_{name}", 40)
        return np.array(ours)

    expected = turns(h.continuerun)
    assert np.ptp(expected[:, 1, -1]) > 1e-3
    ours = turns(clhines.neuron.run)
    assert (np.abs(ours - expected) <= EPS * np.abs(expected).max(axis=2, keepdims=True)).all()
    h.celsius = 25  # NEURON would fill it again, from the previous values of INITIAL
    [said] = map(str, clhines.neuron.check())
    assert f"{name}: TABLE of rates depends on 'warm', which changes" in said
    assert f"call h.finitialize(), or set usetable_{name} = 0" in said
    h.celsius = 6.3


def test_a_row_of_a_table_that_is_rounding_is_neurons(cell):
    """Beside 0/0, where a clamp holds the voltage, the exact row would differ far more."""
    section, _ = cell
    section.insert("ext_rounded")
    segment = section(0.5)
    _clamp = with_values(h.SEClamp(segment), dur1=1e3, amp1=-9.9, rs=1e-4)
    refs = segment._ref_v, segment._ref_m_ext_rounded
    truth, _ = in_pieces(h.continuerun, refs)
    ours, _ = in_pieces(clhines.neuron.run, refs)
    exact = 0.28 * 5 / (0.28 * 5 + 0.32 * np.exp(-40.1 / 20))
    assert 1e-6 < abs(truth[-1][-1] / exact - 1) < 1e-2
    # the clamp takes 55 mV in the first step by 1e4 uS, which amplifies its rounding
    assert np.abs(ours - truth).max() < 1e4 * 55 * EPS
    assert abs(ours[-1][-1] - truth[-1][-1]) < EPS


def test_an_error_that_a_file_raises_is_refused():
    """An error that the file may raise is refused, unless its parameters exclude it."""
    text = """
        NEURON { POINT_PROCESS raises  NONSPECIFIC_CURRENT i  RANGE most }
        PARAMETER { most = 3 }
        ASSIGNED { v i n }
        INITIAL { n = 0 }
        BREAKPOINT { i = 1e-4*v }
        NET_RECEIVE(w) {
            n = n + 1
            if (n > most) {
                VERBATIM
                hoc_execerror("too many events", 0);
                ENDVERBATIM
            }
        }
    """
    with pytest.raises(InputError, match="an error that the file raises, hoc_execerror"):
        Mechanism.from_nmodl(text)

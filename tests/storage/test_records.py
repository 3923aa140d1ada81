"""Records: frozen, exact, and the table of moves as the design has it."""

import math

import numpy as np
import pytest
from pydantic import ValidationError

from fieldcraft.storage.records import (
    OUT,
    SETTLED,
    TRANSITIONS,
    FieldRef,
    Origin,
    Product,
    Proposal,
    TrialState,
    canonical,
    digest_of,
    trial_digest,
)

ORIGIN = Origin(kind="initial", algorithm="sobol", iteration=0, slot=0)
MOVES = """
PROPOSED APPROVED   PROPOSED REJECTED
APPROVED STAGED     APPROVED REJECTED    APPROVED PROPOSED
STAGED RUNNING      STAGED FAILED        STAGED ABANDONED     STAGED HELD
RUNNING COMPLETED   RUNNING FAILED       RUNNING ABANDONED    RUNNING HELD
FAILED APPROVED     FAILED ABANDONED     FAILED COMPLETED
HELD RUNNING        HELD COMPLETED       HELD APPROVED        HELD ABANDONED
"""


def test_the_table_has_these_moves_and_no_other():
    words = MOVES.split()
    assert {(a, b) for a, ends in TRANSITIONS.items() for b in ends} == set(zip(words[::2], words[1::2], strict=True))
    assert set(TRANSITIONS) == set(TrialState)


def test_a_trial_is_pending_or_settled():
    pending = {TrialState.PROPOSED, TrialState.APPROVED} | OUT
    assert set(TrialState) == pending | SETTLED
    assert not pending & SETTLED


def test_every_move_that_takes_a_trial_out_goes_through_staged():
    assert {before for before, ends in TRANSITIONS.items() if ends & OUT and before not in OUT} == {TrialState.APPROVED}
    assert TRANSITIONS[TrialState.APPROVED] & OUT == {TrialState.STAGED}


def test_an_origin_of_before_there_were_choices_has_no_remarks_and_no_scores():
    old = {name: value for name, value in ORIGIN.model_dump().items() if name not in ("remarks", "scores")}
    assert Origin.model_validate(old) == ORIGIN
    assert (ORIGIN.remarks, ORIGIN.scores) == ({}, {})
    with pytest.raises(ValidationError, match="finite number"):
        Origin(kind="model", algorithm="auto", iteration=0, slot=0, scores={"exact_gp": math.nan})


def test_a_record_cannot_be_changed_and_has_no_further_keys():
    with pytest.raises(ValidationError, match="Instance is frozen"):
        ORIGIN.slot = 1
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Origin(kind="initial", algorithm="sobol", iteration=0, slot=0, sead=1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, None, [1.0]])
def test_a_design_of_no_number_and_no_level_is_refused(value):
    with pytest.raises(ValidationError, match=r"design\.x"):
        Proposal(design={"x": value}, origin=ORIGIN)


@pytest.mark.parametrize(
    ("given", "kept"), [(np.float64(0.1), 0.1), (np.int64(3), 3), (np.float32(0.5), 0.5), (np.str_("a"), "a"), (3, 3)]
)
def test_a_design_keeps_numbers_as_plain_ones_of_the_same_kind(given, kept):
    value = Proposal(design={"x": given}, origin=ORIGIN).design["x"]
    assert (type(value), value) == (type(kept), kept)


@pytest.mark.parametrize("digest", ["", "ab", "AB" * 32, "zz" * 32, "ab" * 33])
def test_a_digest_is_64_hexadecimal_digits(digest):
    with pytest.raises(ValidationError, match="should match pattern"):
        FieldRef(digest=digest, size=0)


def test_a_digest_depends_on_values_and_not_on_the_order_of_keys():
    assert digest_of({"a": 1, "b": [0.1]}) == digest_of({"b": [0.1], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 1.0})
    assert canonical({"b": 0.1 + 0.2, "a": "é"}) == '{"a":"é","b":0.30000000000000004}'
    assert digest_of({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"  # sha256 of "{}"


def test_what_runs_is_the_design_under_its_specification():
    assert trial_digest({"x": 1.0}, "a" * 64) != trial_digest({"x": 1.0}, "b" * 64)
    assert trial_digest({"x": 1.0}, "a" * 64) != trial_digest({"x": 1.5}, "a" * 64)
    at_levels = {trial_digest({"x": 1.0}, "a" * 64, level) for level in (None, 0, 1)}
    assert len(at_levels) == 3 and digest_of({"design": {"x": 1.0}, "spec": "a" * 64}) in at_levels


def test_an_origin_of_the_target_is_written_as_before_there_were_levels():
    origin = Origin(kind="initial", algorithm="sobol", iteration=0, slot=0)
    assert not {"level", "regret"} & set(origin.model_dump(mode="json"))
    at = origin.model_copy(update={"level": 0})
    assert at.model_dump(mode="json")["level"] == 0 and Origin.model_validate(at.model_dump()) == at
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        Origin.model_validate({**origin.model_dump(), "level": -1})


@pytest.mark.parametrize(("value", "error"), [(math.nan, ValueError), (math.inf, ValueError), ({1, 2}, TypeError)])
def test_what_json_cannot_say_has_no_digest(value, error):
    with pytest.raises(error, match="JSON"):
        digest_of({"x": value})


def test_a_product_is_named_by_its_payload_and_its_field():
    one = Product(campaign="heat", iteration=3, step="train", payload={"loss": 0.5}, reference=None, created=0.0)
    later = one.model_copy(update={"created": 1.0})
    with_field = one.model_copy(update={"reference": FieldRef(digest="ab" * 32, size=1)})
    assert one.ref == later.ref
    assert one.ref.iteration == 3
    assert one.digest != with_field.digest

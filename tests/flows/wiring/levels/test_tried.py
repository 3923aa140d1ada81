"""Designs that have been tried: repeats are known by the design, not by the order of its parts."""

import pytest

from fieldcraft.flows.wiring.levels.tried import encoded, repeats_noted
from fieldcraft.physics.space import Continuous, Exchangeable, SearchSpace
from fieldcraft.storage.origins import Origin
from fieldcraft.storage.records import TrialState, TrialSummary

SPACE = SearchSpace(
    (Continuous("a", 0.0, 1.0), Continuous("b", 0.0, 1.0)), exchangeable=(Exchangeable((("a",), ("b",))),)
)
ORIGIN = Origin(kind="model", algorithm="exact_gp", iteration=1, slot=0)


def ran(design):
    return TrialSummary("t-0001", 1, 0, TrialState.COMPLETED, design, None, {"y": 1.0}, None, 1, 1, 0, False, None)


@pytest.mark.parametrize(
    ("design", "said"),
    [
        ({"a": 0.2, "b": 0.7}, {"repeat": "of t-0001"}),
        ({"a": 0.7, "b": 0.2}, {"repeat": "of t-0001"}),
        ({"a": 0.7, "b": 0.3}, {}),
    ],
)
def test_a_design_with_its_parts_exchanged_is_a_repeat(design, said):
    (origin,) = repeats_noted([ORIGIN], encoded(SPACE, [design]), SPACE, [ran({"a": 0.2, "b": 0.7})])
    assert origin.remarks == said

"""Results of a simulator's coarser levels as data of a model, and the nested start."""

import numpy as np
import pytest

from fieldcraft.models.data.level_results import LevelResults
from fieldcraft.models.data.level_start import nested_start
from fieldcraft.models.observations import Observations

X = np.linspace(-1, 1, 8).reshape(4, 2)
Y = np.arange(8.0).reshape(4, 2)


def seen(*lower: LevelResults) -> Observations:
    return Observations(X[:2], Y[:2, 0], False, constraints=Y[:2, 1:], levels=(0.1, 0.3), lower=lower)


def test_lower_results_are_part_of_the_digest_and_the_costs_are_not():
    plain = Observations(X[:2], Y[:2, 0], False, constraints=Y[:2, 1:])
    assert seen().digest == plain.digest
    found = {seen(LevelResults(0, 0.1, X, Y)).digest, seen(LevelResults(1, 0.3, X, Y)).digest, plain.digest}
    assert len(found | {seen(LevelResults(0, 0.1, X, Y + 1)).digest}) == 4


def test_each_output_has_its_own_lower_results():
    data = seen(LevelResults(1, 0.3, X, Y))
    for part, k in ((data.objective, 0), (data.constraint(0), 1)):
        assert part.levels == (0.1, 0.3)
        np.testing.assert_array_equal(part.lower[0].Y, Y[:, [k]])


def test_levels_that_the_campaign_does_not_have_are_refused():
    with pytest.raises(ValueError, match=r"levels \[2\] of 2"):
        seen(LevelResults(2, 0.3, X, Y))
    with pytest.raises(ValueError, match=r"levels \[1, 0\] of 2"):
        seen(LevelResults(1, 0.3, X, Y), LevelResults(0, 0.1, X, Y))
    with pytest.raises(ValueError, match="have \\[1\\] coordinates and those of the target 2"):
        seen(LevelResults(0, 0.1, X[:, :1], Y))
    with pytest.raises(ValueError, match="cost 1"):
        LevelResults(0, 1.0, X, Y)
    with pytest.raises(ValueError, match="holds nan"):
        LevelResults(0, 0.1, X, Y * np.nan)


def test_the_start_is_nested_and_ends_with_the_target():
    assert dict(nested_start(2, ())) == {None: 2}
    assert list(nested_start(10, (0.1, 0.3)).items()) == [(0, 10), (1, 6), (None, 3)]
    assert dict(nested_start(3, (0.1,))) == {0: 3, None: 2}
    assert dict(nested_start(1, (0.1,))) == {0: 1, None: 1}

"""Categories whose levels have an order: one evenly spaced coordinate, and neighbours that are near."""

import numpy as np
import pytest

from fieldcraft.models.certified.box_region import integer_steps
from fieldcraft.models.maximizers.certified import Certified
from fieldcraft.models.numerics.neighbours import neighbours
from fieldcraft.models.numerics.point_sets import every_point, sobol_points, take
from fieldcraft.models.rivals._coordinates import coordinates, encoded, told
from fieldcraft.physics.counting import designs_of
from fieldcraft.physics.space import Categorical, Continuous, LinearConstraint, SearchSpace, SpaceError

GRADE = Categorical("grade", ("coarse", "medium", "fine", "dust", "mist"), ordered=True)
X1 = Continuous("x", 0.0, 1.0)
SPACE = SearchSpace((GRADE, X1, Categorical("glue", ("A", "B"))))


def test_levels_are_evenly_spaced_and_come_back():
    designs = [{"grade": grade, "x": 0.5, "glue": "A"} for grade in GRADE.levels]
    X = SPACE.encode(designs)
    assert X[:, 0].tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert SPACE.decode(X) == designs
    assert (SPACE.dimension, SPACE.groups) == (4, (slice(2, 4),))
    assert SPACE.steps.tolist() == integer_steps(SPACE).tolist() == [0.5, 0, 0, 0]


def test_points_between_levels_become_the_nearest_one():
    X = SPACE.repair([[-0.8, 0, 1, 0], [-0.74, 0, 1, 0], [0.3, 0, 1, 0], [4.0, 0, 1, 0]])
    assert X[:, 0].tolist() == [-1.0, -0.5, 0.5, 1.0]
    assert GRADE.indices(np.array([[-0.8], [0.3], [9.0]])).tolist() == [0, 3, 4]


@pytest.mark.parametrize("draw", [SearchSpace.sample, lambda space, n, rng: take(sobol_points(space, rng), n)])
def test_every_level_is_drawn_equally_often(draw):
    grades = [design["grade"] for design in SPACE.decode(draw(SPACE, 2000, np.random.default_rng(3)))]
    shares = [grades.count(level) / 2000 for level in GRADE.levels]
    assert shares == pytest.approx([0.2] * 5, abs=4 * (0.2 * 0.8 / 2000) ** 0.5)


def test_neighbours_are_one_two_and_four_levels_away():
    (x,) = SPACE.encode([{"grade": "medium", "x": 0.5, "glue": "A"}])
    near = SPACE.decode(neighbours(SPACE, x))
    assert sorted(design["grade"] for design in near if design["glue"] == "A") == ["coarse", "dust", "fine"]
    assert [design["glue"] for design in near if design["grade"] == "medium"] == ["B"]


def test_designs_are_counted_by_level():
    space = SearchSpace((GRADE, Categorical("glue", ("A", "B"))))
    expected = [{"grade": grade, "glue": glue} for grade in GRADE.levels for glue in ("A", "B")]
    assert space.decode(every_point(space, 10)) == expected == list(designs_of(space))


def test_rivals_are_told_the_place_of_a_level():
    X = SPACE.sample(20, np.random.default_rng(1))
    points = told(SPACE, X)
    assert [point["x0"] for point in points] == [GRADE.levels.index(design["grade"]) for design in SPACE.decode(X)]
    assert encoded(SPACE, points) == pytest.approx(X, abs=1e-14)
    first = coordinates(SPACE)[0]
    assert (first.kind, first.low, first.high) == ("whole", 0.0, 4.0)


def test_searches_with_a_proof_take_ordered_levels():
    Certified().refuse_space(SPACE)


def test_a_single_ordered_level_has_one_value():
    space = SearchSpace((Categorical("only", ("one",), ordered=True), X1))
    assert space.bounds[:, 0].tolist() == [0.0, 0.0]
    assert {design["only"] for design in space.decode(space.sample(3, np.random.default_rng(0)))} == {"one"}


def test_levels_are_no_numbers():
    with pytest.raises(SpaceError, match=r"A constraint holds grade, a categorical"):
        SearchSpace((GRADE, X1), (LinearConstraint({"grade": 1, "x": 1}, 1),))
    with pytest.raises(SpaceError, match=r"grade has no level 'fin'\. Did you mean 'fine'"):
        SPACE.check({"grade": "fin", "x": 0.5, "glue": "A"})

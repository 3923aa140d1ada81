"""Problems with several objectives against BoTorch's test functions, and how outputs are marked."""

import numpy as np
import pytest
import torch
from botorch.test_functions import multi_objective

from fieldcraft.physics.problem import Output
from fieldcraft.physics.problems.branin_currin import BraninCurrin
from fieldcraft.physics.problems.c2_dtlz2 import C2Dtlz2
from fieldcraft.physics.problems.car_side_impact import CarSideImpact
from fieldcraft.physics.problems.disc_brake import DiscBrake
from fieldcraft.physics.problems.penicillin import Penicillin
from fieldcraft.physics.problems.vehicle_safety import VehicleSafety


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (BraninCurrin(), multi_objective.BraninCurrin()),
        (C2Dtlz2(), multi_objective.C2DTLZ2(dim=4, num_objectives=2)),
        (VehicleSafety(), multi_objective.VehicleSafety()),
        (DiscBrake(), multi_objective.DiscBrake()),
        (CarSideImpact(), multi_objective.CarSideImpact()),
        (Penicillin(), multi_objective.Penicillin()),
    ],
    ids=["branin_currin", "c2_dtlz2", "vehicle_safety", "disc_brake", "car_side_impact", "penicillin"],
)
def test_values_references_and_the_largest_hypervolume_are_those_of_botorchs_test_functions(ours, theirs):
    low, high = theirs.bounds.numpy()
    points = np.random.default_rng(0).random((200, theirs.dim))
    points[0], points[1] = 0.0, 1.0
    points = low + (high - low) * points
    found, m = ours.values(points), theirs.num_objectives
    signs = [-1.0 if output.objective == "maximize" else 1.0 for output in ours.objectives]
    np.testing.assert_allclose(found[:, :m] * signs, theirs(torch.tensor(points)), rtol=1e-9, atol=1e-12)
    if found.shape[1] > m:
        slack = theirs.evaluate_slack(torch.tensor(points)).numpy()
        np.testing.assert_allclose(found[:, m:], -slack, rtol=1e-12, atol=1e-12)
        assert 0 < (slack >= 0).mean() < 1
    references = [sign * output.reference for sign, output in zip(signs, ours.objectives, strict=True)]
    assert references == theirs.ref_point.tolist()
    assert ours.most_hypervolume == getattr(theirs, "_max_hv", None)
    design = ours.space.decode(ours.space.encode([dict(zip(ours.space.names, map(float, points[2]), strict=True))]))[0]
    assert list(ours.function(design).values()) == pytest.approx(found[2])


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ({"objective": "min"}, "'f' has the objective 'min': give maximize or minimize"),
        ({"reference": 1.0}, "'f' has a reference and is no objective: mark it"),
        ({"objective": "maximize", "reference": float("nan")}, "'f' has the reference nan: give a finite number"),
    ],
)
def test_a_mark_that_cannot_be_is_refused(marks, message):
    with pytest.raises(ValueError, match=message):
        Output("f", "kg", **marks)

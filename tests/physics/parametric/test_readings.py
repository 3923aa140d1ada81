"""Readings of a field at single places: taken from a dataset, refused by place, and predicted between cells."""

import numpy as np
import pytest
import xarray as xr

from fieldcraft.physics.parametric.readings import readings_of
from fieldcraft.physics.parametric.transfer import at_places, carried
from fieldcraft.physics.problems.chips import Chips

STATED = Chips().parametric
GOOD = {"x": [10.0, 60.0], "y": [20.0, 80.0], "temperature": [40.0, 55.0], "temperature_sd": [0.5, 1.0]}


def dataset(**changes):
    columns = {name: values for name, values in {**GOOD, **changes}.items() if values is not None}
    return xr.Dataset({name: ("place", values) for name, values in columns.items()})


def test_the_readings_are_those_of_the_dataset():
    found = readings_of(STATED, dataset())
    assert found.places.tolist() == [[10.0, 20.0], [60.0, 80.0]]
    assert found.values.tolist() == [[40.0, 55.0]] and found.sd.tolist() == [[0.5, 1.0]]


def test_a_field_on_cells_holds_no_readings():
    assert readings_of(STATED, xr.Dataset({"temperature": (("x", "y"), np.ones((3, 2)))})) is None
    assert readings_of(STATED, xr.Dataset({"max_temperature": 100.0})) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"y": None},
            "the readings of 'temperature' need 'y' along 'place', in a table the column 'y', and there is none",
        ),
        (
            {"temperature_sd": None},
            "need 'temperature_sd' along 'place', in a table the column 'temperature sd', and there is none: give",
        ),
        ({"y": [20.0, 80.5]}, "reading 2 is at y = 80.5 mm, and the domain goes from 0 to 80: give places within it"),
        ({"temperature_sd": [0.5, 0.0]}, "'temperature_sd' of reading 2 is 0: give the standard deviation"),
        ({"temperature": [np.nan, 55.0]}, "'temperature' of reading 1 is nan: give a finite number, or leave it out"),
        ({"x": ["a", "b"]}, "'x' has the type <U1: give real numbers"),
    ],
)
def test_readings_that_lack_something_are_refused_by_place(changes, said):
    with pytest.raises(ValueError) as caught:
        readings_of(STATED, dataset(**changes))
    assert said in str(caught.value)


def test_a_cubic_is_predicted_exactly_at_any_place():
    def field(x, y):
        return x**3 - 2 * y**2 + x * y

    x, y = ((np.arange(n) + 0.5) / n for n in (7, 5))
    places = np.random.default_rng(1).uniform(0, 1, (20, 2))
    found = at_places(np.stack([field(x[:, None], y), field(x[:, None], -y)]), places, (False, False))
    expected = np.stack([field(*places.T), field(places[:, 0], -places[:, 1])])
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_places_at_the_centres_of_finer_cells_read_what_those_cells_would():
    values = np.random.default_rng(2).normal(size=(3, 6, 5))
    centres = np.meshgrid((np.arange(12) + 0.5) / 12, (np.arange(10) + 0.5) / 10, indexing="ij")
    places = np.stack([each.ravel() for each in centres], axis=1)
    for repeats in ((False, False), (True, False)):
        expected = carried(values, (12, 10), repeats).reshape(3, -1)
        np.testing.assert_allclose(at_places(values, places, repeats), expected, atol=1e-13)

"""One record a step: what is noted reads back as it was, and so does what earlier versions noted."""

import json

import pytest

from fieldcraft.flows.products import Acquired, Collocated, Recommendation, Trained, Training
from fieldcraft.storage.records import Product

FIRST = {  # as the first version noted a model
    "surrogate": {"kind": "exact_gp"},
    "data_digest": "d",
    "trials": ["small-0001"],
    "collocation": None,
    "metrics": {"loss": 0.5},
    "curve": [],
    "environment": {"commit": "c"},
    "seconds": 1.5,
}
LISTED = {  # as versions did that listed all trials
    "surrogate": {"kind": "exact_gp"},
    "data_digest": "d",
    "trials": ["small-0001"],
    "results": [1],
    "failed": {"small-0002": {"x": 1.0}},
    "collocation": "e",
    "metrics": {"loss": 0.5},
    "curve": [{"step": 1, "loss": 0.75}],
    "environment": {"commit": "c"},
    "trained": {"by": "pass", "host": "h", "device": "cpu", "threads": 2, "fallback": None},
    "remarks": {"chosen": "exact_gp"},
    "recommended": {
        "trial": "small-0001",
        "mean": 1.0,
        "sd": 0.5,
        "feasible": True,
        "probability": 1.0,
        "constraints": {"c1": {"mean": -1.0, "sd": 0.25}},
    },
    "seconds": 1.5,
    "cpu_seconds": 1.25,
}
SEEN = {
    "surrogate": {"kind": "exact_gp"},
    "data_digest": "d",
    "seen": {"count": 1, "until": 3, "digest": "f"},
    **{name: told for name, told in LISTED.items() if name not in ("surrogate", "data_digest", "trials", "results")},
}


def product(payload, step="train"):
    return Product(campaign="small", iteration=1, step=step, payload=payload, reference=None, created=0.0)


@pytest.mark.parametrize(
    ("record", "step", "payload"),
    [
        (Collocated, "collocate", {"scheme": "sobol", "points": 64}),
        (Acquired, "acquire", {"designs": 2, "seconds": 0.5, "cpu_seconds": 0.25}),
        (Trained, "train", LISTED),
        (Trained, "train", LISTED | {"recommended": None, "surrogate": None}),
        (Trained, "train", SEEN),
    ],
)
def test_what_is_noted_is_what_was_read_to_the_byte(record, step, payload):
    assert json.dumps(record.of(product(payload, step)).payload()) == json.dumps(payload)


def test_the_parts_of_a_model_are_records_too():
    model = Trained.of(product(LISTED))
    assert model.trained == Training(by="pass", host="h", device="cpu", threads=2, fallback=None)
    assert isinstance(model.recommended, Recommendation) and model.recommended.constraints["c1"]["sd"] == 0.25


def test_a_model_of_the_first_version_does_not_say_what_was_not_noted_then():
    model = Trained.of(product(FIRST))
    assert (model.trials, model.seconds, model.data_digest) == (["small-0001"], 1.5, "d")
    assert (model.results, model.failed, model.trained, model.recommended, model.cpu_seconds) == (None,) * 5
    assert model.remarks == {}


def test_a_recommendation_of_before_constraints_is_of_a_feasible_design():
    said = {"trial": "small-0001", "mean": 0.0, "sd": 1.0}
    assert Trained.of(product({**FIRST, "recommended": said})).recommended == Recommendation("small-0001", 0.0, 1.0)


def test_what_a_later_version_notes_besides_is_left_alone():
    assert Trained.of(product({**LISTED, "mood": "good"})) == Trained.of(product(LISTED))


@pytest.mark.parametrize("name", ["surrogate", "trials", "metrics", "environment", "seconds"])
def test_a_model_that_lacks_what_every_version_notes_is_no_model(name):
    with pytest.raises(KeyError, match=name):
        Trained.of(product({key: value for key, value in LISTED.items() if key != name}))

"""The contract of models/sentence.py, for every file in models/sentences: its words are data and can be built."""

import json
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from kinds import is_frozen_dataclass, kinds, public_class

from flows.errors import InputError
from flows.settings import settings_from
from flows.spec import parse
from flows.wiring import rewire, wire

PACKAGE = "models.sentences"
PRESETS = [
    (kind, preset)
    for kind in kinds(PACKAGE)
    for preset in get_args(get_type_hints(public_class(PACKAGE, kind))["preset"])
]


def campaign(kind, tmp_path, **options):
    data = {
        "name": "c",
        "seed": 1,
        "sense": "maximize",
        "problem": {"kind": "heat"},
        "simulator": {"kind": "heat"},
        "algorithm": {"kind": kind, **options},
        "batch": 3,
        "budget": {"trials": 40},
    }
    return wire(parse(data, "c.yaml"), settings_from({}, home=tmp_path))


@pytest.mark.parametrize("kind", kinds(PACKAGE))
def test_a_sentence_is_one_public_frozen_dataclass_with_a_default_preset(kind):
    cls = public_class(PACKAGE, kind)
    assert is_frozen_dataclass(cls)
    assert cls().preset == "default"


@pytest.mark.parametrize(("kind", "preset"), PRESETS)
def test_its_words_are_plain_data_and_make_an_algorithm(kind, preset, tmp_path):
    words = public_class(PACKAGE, kind)(preset=preset).words(2, 3)
    assert json.loads(json.dumps(words)) == words
    made = campaign(kind, tmp_path, preset=preset)
    assert made.spec.algorithm.start.n == words["start"]["n"] == 6
    assert (made.spec.algorithm.named.kind, made.spec.algorithm.named.preset) == (kind, preset)
    assert made.algorithm.learns(6) == (kind not in ("random", "sobol"))


@pytest.mark.parametrize("kind", kinds(PACKAGE))
def test_what_is_stored_is_read_back_with_the_same_digest(kind, tmp_path):
    made = campaign(kind, tmp_path)
    again = rewire(json.loads(json.dumps(made.data)), made.settings)
    assert again.digest == made.digest
    assert again.algorithm == made.algorithm


@pytest.mark.parametrize("kind", [kind for kind, preset in PRESETS if preset == "paper"])
def test_the_papers_preset_is_another_algorithm(kind, tmp_path):
    assert campaign(kind, tmp_path, preset="paper").algorithm != campaign(kind, tmp_path).algorithm


@pytest.mark.parametrize("kind", ["sto_bnts", "pinn_bo"])
def test_every_design_of_a_batch_has_a_network_of_its_own(kind, tmp_path):
    options = {"engine": "trained"} if kind == "pinn_bo" else {}
    assert campaign(kind, tmp_path, **options).algorithm.surrogate.networks == 3


def test_the_papers_preset_of_pinn_bo_trains_networks_and_says_so(tmp_path):
    with pytest.raises(InputError, match=r"preset is 'paper' and engine is 'basis': the paper trains networks"):
        campaign("pinn_bo", tmp_path, preset="paper", engine="basis")


@pytest.mark.parametrize("package", [PACKAGE, "models.surrogates", "models.acquisitions", "models.peers"])
def test_the_documentation_names_every_kind(package):
    text = (Path(__file__).resolve().parents[2] / "docs" / "methods.md").read_text()
    assert [kind for kind in kinds(package) if f"`{kind}`" not in text] == []

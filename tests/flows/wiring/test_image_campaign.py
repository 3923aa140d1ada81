"""A campaign over images: they run, are learnt from, shown by their size, exported and read back to the bit."""

import csv
from pathlib import Path

import numpy as np
import pytest
import yaml
from small import finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.tables import differs, level
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.text import level_text
from fieldcraft.flows.wiring.build import rewire, wire
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.physics.problems.digits import Digits
from fieldcraft.storage.open_ledger import open_ledger

DRAWN = """\
name: drawn
seed: 3
sense: maximize
problem: {kind: digits, digit: 7}
simulator: {kind: function}
dispatcher: {kind: inline}
algorithm:
  start: {n: 2}
  surrogate: {kind: neural_greedy, width: 8, refinements: 5}
  acquisition: {kind: ucb}
  maximizer: {kind: multistart, n_samples: 32, n_starts: 2, max_iterations: 5}
budget: {trials: 3}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    (folder / "drawn.yaml").write_text(DRAWN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_MLFLOW", "off")
        finish(folder / "drawn.yaml", folder / "home")
    return folder / "home"


def test_images_run_and_are_learnt_from_as_columns_of_pixels(home):
    settings = settings_from({}, home=home)
    ledger = open_ledger(settings.ledger)
    campaign, trials = rewire(ledger.campaign("drawn").spec, settings), ledger.trials("drawn")
    data = observations(campaign, trials, None)
    (columns,) = data.images
    assert (columns.first, columns.shape) == (0, (8, 8)) and data.X.shape == (3, 64)
    (image,) = campaign.space.variables
    seen = np.stack([image.pixels(trial.design["image"]) for trial in trials])
    np.testing.assert_allclose(data.X.reshape(-1, 8, 8), seen / 8 - 1, atol=1e-14)
    np.testing.assert_allclose(data.y, Digits(7).likeness(seen), rtol=1e-12)
    assert trials[2].origin.kind == "model"


def test_a_maximizer_that_cannot_halve_images_is_refused(tmp_path):
    spec = {**yaml.safe_load(DRAWN), "algorithm": {"kind": "gp_ucb", "maximizer": {"kind": "certified"}}}
    with pytest.raises(InputError, match=r"algorithm\.maximizer: The maximizer certified cannot halve the 64 coordin"):
        wire(parse(spec, "drawn.yaml"), settings_from({}, home=tmp_path))


def test_an_image_is_shown_by_its_size_and_exported_whole(home, tmp_path, capsys):
    for words in (["show", "drawn-0001"], ["status", "drawn"]):
        assert main([*words, "--home", str(home)]) == 0
        said = capsys.readouterr().out
        assert "image 8x8 image" in said and "; " not in said.split("image 8x8 image")[1].split("\n")[0]
    file = tmp_path / "drawn.csv"
    assert main(["export", "drawn", "--csv", str(file), "--home", str(home)]) == 0
    (image,) = Digits(7).space.variables
    with file.open() as rows:
        (first, *_) = csv.DictReader(rows)
    (trial, *_) = open_ledger(settings_from({}, home=home).ledger).trials("drawn")
    read = level(image, first["design.image"], "image")
    assert read == trial.design["image"] and not differs(image, trial.design["image"], read)


def test_a_page_over_images_alone_has_no_slice_and_names_them_by_size(home, tmp_path):
    page = tmp_path / "drawn.html"
    assert main(["report", "drawn", "--html", str(page), "--home", str(home)]) == 0
    text = page.read_text()
    assert "8x8 image" in text and "true optimum 1" in text
    assert Digits(7).space.decode(np.zeros((1, 64)))[0]["image"][:20] not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0 1.5; 2 16", "2x2 image"),
        ("1e3 -2 3; 4 5 6", "2x3 image"),
        ("red", "red"),
        ("0 1; 2", "0 1; 2"),
        ("0 1; 2 nan", "0 1; 2 nan"),
        ("1 2", "1 2"),
        ("a b; c d", "a b; c d"),
        ("two\nlines", "two lines"),
    ],
)
def test_only_rows_of_numbers_are_an_image(text, shown):
    assert level_text(text) == shown

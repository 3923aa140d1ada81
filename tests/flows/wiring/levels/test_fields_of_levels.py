"""Fields of coarse runs in campaigns, read on the target's mesh, and levels that an emulator foresees."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import yaml
from small import SEARCH, finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.run import pause
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse, read_campaign
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.flows.wiring.physics.snapshots import _stored
from fieldcraft.physics.parametric.transfer import carried
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.simulators.chips import HeatedPlateFindiff
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger

WORDS = {"surrogate": {"kind": "multilevel_gp"}, "acquisition": {"kind": "log_ei"}, "maximizer": SEARCH}
CAMPAIGN = {
    "name": "plate",
    "seed": 4,
    "sense": "minimize",
    "problem": {"kind": "chips"},
    "simulator": {"kind": "chips", "cells": 36},
    "levels": [{"cells": 18, "cost": 0.2}],
    "algorithm": {"start": {"n": 6, "proposer": {"kind": "emulated"}}, **WORDS},
    "dispatcher": {"kind": "inline"},
    "budget": {"trials": 5, "cost": 7},
}


def file_of(folder, **changes):
    file = folder / "plate.yaml"
    file.write_text(yaml.safe_dump({**CAMPAIGN, **changes}))
    return file


def trials_of(home):
    return open_ledger(settings_from({}, home).ledger).trials("plate")


def data_of(home, **changes):
    campaign = wire(parse({**CAMPAIGN, **changes}, "plate.yaml"), settings_from({}, home))
    return observations(campaign, trials_of(home), None)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plate")
    finish(file_of(folder), folder / "home", folder)
    return folder / "home"


def peak(problem, design, cells, on=None):
    """The hottest place on so many cells, or on others to which the field is carried."""
    field = HeatedPlateFindiff(cells).run(problem, design, np.random.default_rng(0))["temperature"].values
    return field.max() if on is None else carried(field[None], on, (False, False)).max()


def test_outputs_of_a_level_are_read_from_its_fields_on_the_targets_mesh(ended):
    (lower,), problem = data_of(ended).lower, Chips()
    designs = problem.space.decode(lower.X)
    np.testing.assert_allclose(lower.Y[:, 0], [peak(problem, each, 18) for each in designs])
    read = [peak(problem, each, 18, (36, 24)) for each in designs]
    np.testing.assert_allclose(lower.read[:, 0], read, rtol=1e-9)
    apart = [np.std(told[:, 0] - [peak(problem, each, 36) for each in designs]) for told in (lower.read, lower.Y)]
    assert apart[0] < 0.6 * apart[1]


def test_the_model_says_what_it_learnt_from(ended):
    trials = trials_of(ended)
    said = trials[-1].origin.remarks["levels"]
    assert said.startswith("level 18 cells") and "times the emulator, and a difference of" in said
    assert sum(trial.level is None for trial in trials) >= 3


def test_outputs_alone_teach_where_a_field_of_a_level_or_of_the_target_is_lost(ended, tmp_path):
    for level in (0, None):
        home = tmp_path / f"home{level}"
        shutil.copytree(ended, home)
        lost = next(trial for trial in trials_of(home) if trial.level == level)
        shutil.rmtree(fields_at(settings_from({}, home).fields).path(lost.field))
        _stored.cache_clear()
        assert data_of(home).lower[0].read is None
    _stored.cache_clear()
    assert data_of(ended, algorithm={"start": {"n": 6}, **WORDS}).lower[0].read is not None


def test_check_says_that_the_levels_learn_from_emulator_and_fields(tmp_path, capsys):
    assert main(["check", str(file_of(tmp_path)), "--json", "--home", str(tmp_path / "home")]) == 0
    note = json.loads(capsys.readouterr().out)["note"]
    assert "multilevel_gp may learn the difference of the cheapest level to it" in note
    assert "multilevel_gp may read the outputs of levels from them on the target's mesh" in note
    assert not re.search("modes|field by field|fit exchange", note), "what other surrogates do with fields"


def test_check_says_that_levels_read_no_fields_of_noisy_results(tmp_path, capsys):
    noisy = {"noise": {"sd": 0.1}}
    assert main(["check", str(file_of(tmp_path, **noisy)), "--json", "--home", str(tmp_path / "home")]) == 0
    note = json.loads(capsys.readouterr().out)["note"]
    assert "they are not used: noise is added" in note and "may read" not in note


class Refusing(Chips):
    """Chips that refuses to read as many fields on the target's mesh as a level has."""

    refused = 0

    def functional(self, fields, points, designs):
        if fields["temperature"].shape[1:] == (36, 24) and len(fields["temperature"]) == self.refused:
            raise ValueError("no such temperature")
        return super().functional(fields, points, designs)


def test_outputs_alone_teach_where_a_functional_refuses_an_interpolated_field(ended):
    campaign = wire(parse(CAMPAIGN, "plate.yaml"), settings_from({}, ended))
    (known,) = data_of(ended).lower
    assert len(known.X) != len(data_of(ended).X)
    problem = Refusing()
    vars(problem)["refused"] = len(known.X)
    (lower,) = observations(replace(campaign, problem=problem), trials_of(ended), None).lower
    assert known.read is not None and lower.read is None
    np.testing.assert_array_equal(lower.Y, known.Y)


def test_an_interrupted_campaign_that_goes_on_is_the_uninterrupted_one(ended, tmp_path):
    file, other = file_of(tmp_path), tmp_path / "other"
    settings = settings_from({}, other)
    campaign, ledger = wire(read_campaign(file), settings), open_ledger(settings.ledger, create=True)
    created(ledger, campaign, file)
    lease = ledger.acquire(campaign.name)
    while len(ledger.trials(campaign.name)) < 10:
        passed = make_pass(Ref(str(other), campaign.name, lease.model_dump()))
        if passed.decision.wait and not passed.approved:
            pause(campaign, ledger, passed)
    ledger.release(lease)
    _stored.cache_clear()
    finish(file, other, tmp_path)
    found = [
        [(trial.level, trial.design, trial.outputs, trial.origin.remarks) for trial in trials_of(home)]
        for home in (ended, other)
    ]
    assert found[0] == found[1] and len(found[0]) > 10

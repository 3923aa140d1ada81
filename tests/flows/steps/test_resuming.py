"""An interrupted training: its checkpoint's names, and what resumes from it."""

import numpy as np
import pytest
import torch

from fieldcraft.flows.steps import train
from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.physics.operators import laplace

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (12, 2))
DATA = Observations(
    X=X,
    y=X[:, 0] * X[:, 1],
    maximize=False,
    noise_sd=0.05,
    physics=Physics(laplace(2), RNG.uniform(-1, 1, (16, 2)), np.zeros(2), np.ones(2)),
)
AUTO = Auto(candidates=("additive_gp", "physics_informed/basis"))


class Killed(Exception):
    """The process ends."""


def fit(folder, reports=None):
    """AUTO's posterior, from what is in the folder; killed after so many reports."""
    partial, left = train.Unfinished(folder, DATA.digest), reports

    def report(step, metrics, checkpoint):
        nonlocal left
        partial.report(step, metrics, checkpoint)
        left = None if left is None else left - 1
        if left == 0:
            raise Killed

    return AUTO.fit(DATA, np.random.default_rng(1), partial.load(), report), partial.curve


@pytest.fixture(autouse=True)
def _every_report_is_saved(monkeypatch):
    monkeypatch.setattr(train, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(train, "SAVE_SHARE", 1e9)


def test_a_training_whose_steps_repeat_goes_on_wherever_it_was_killed(tmp_path):
    whole, curve = fit(tmp_path / "whole")
    steps = [point["step"] for point in curve]
    assert len(set(steps)) < len(steps) == 4
    with pytest.raises(Killed):
        fit(tmp_path / "killed", reports=3)
    again, curve = fit(tmp_path / "killed")
    Z = torch.tensor(np.random.default_rng(8).uniform(-1, 1, (5, 2)))
    assert (again.name, again.scores) == (whole.name, whole.scores)
    assert all(map(torch.equal, again.mean_var(Z), whole.mean_var(Z)))
    assert [point["step"] for point in curve][:3] == steps[:3]


def test_a_checkpoint_of_other_data_is_not_resumed_and_not_in_the_way(tmp_path):
    def checkpoint():
        return {"theta": torch.zeros(1)}

    train.Unfinished(tmp_path, "0" * 64).report(1, {}, checkpoint)
    other = train.Unfinished(tmp_path, DATA.digest)
    assert other.load() is None
    other.report(1, {}, checkpoint)
    assert train.Unfinished(tmp_path, DATA.digest).load() is not None

"""What teaches a process of levels beside their outputs: an emulator, and the fields of their runs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fieldcraft.models.levels.process import Foreseen, LevelsPosterior, Term
from fieldcraft.models.observations import Emulator, LevelResults, Observations, Scaling
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.emulated_gp import EmulatedGP
from fieldcraft.models.surrogates.multilevel_gp import MultilevelGP
from fieldcraft.physics.space import Continuous, SearchSpace

RNG = np.random.default_rng(5)
SPACE = SearchSpace((Continuous("a", -1.0, 1.0), Continuous("b", -1.0, 1.0)))
X0, X1, X2, Z = (RNG.uniform(-1, 1, (n, 2)) for n in (12, 7, 5, 40))
FINE = (np.arange(200) + 0.5) / 200
SCALES = np.array([0.8, 1.1])
TERMS = (
    Term(0, 0.7, 0.3, SCALES, 0.01, 0.2),
    Term(1, 0.9, 0.3, np.array([1.2, 0.7]), 0.02, -0.1),
    Term(None, 1.4, 0.2, np.array([0.6, 0.9]), 0.005, 0.4),
)
SHARES = np.cumprod([0.7, 0.9, 1.4])
AT = np.repeat([0, 1, 2], [12, 7, 5])
PLAIN = Scaling(0.0, 1.0, 1.0)


def wave(X):
    return np.cos(2 * X[:, 0] - X[:, 1])


def process(terms=TERMS, targets=None, foreseen=None):
    X = np.vstack([X0, X1, X2])
    values = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 if targets is None else targets
    return LevelsPosterior("matern52", terms, torch.tensor(X), torch.tensor(AT), torch.tensor(values), PLAIN, foreseen)


def moments(made, X=Z):
    with torch.no_grad():
        return [each.numpy() for each in made.mean_var(torch.tensor(X))]


def test_an_emulator_enters_each_level_by_the_product_of_its_factors():
    foreseen = Foreseen(Emulator(wave, lambda: 0.1), PLAIN, X0)
    made = process(foreseen=foreseen)
    without = (replace(TERMS[0], rho=0.0), *TERMS[1:])
    left = process(without, made.targets.numpy() - SHARES[AT] * wave(made.X.numpy()))
    (mean, variance), (rest, own) = moments(made), moments(left)
    np.testing.assert_allclose(mean, rest + SHARES[2] * wave(Z), atol=1e-12)
    np.testing.assert_allclose(variance, own + (SHARES[2] * 0.1) ** 2, atol=1e-12)


def test_slopes_are_those_of_differences():
    made, step = process(foreseen=Foreseen(Emulator(wave, lambda: 0.1), PLAIN, X0)), 1e-5
    found = made.moment_slopes(torch.tensor(Z))
    np.testing.assert_allclose([found.mean, found.variance], moments(made), atol=1e-12)
    for j, move in enumerate(step * np.eye(2)):
        ahead, behind = moments(made, Z + move), moments(made, Z - move)
        np.testing.assert_allclose(found.by_mean[:, j], (ahead[0] - behind[0]) / (2 * step), atol=1e-4)
        np.testing.assert_allclose(found.by_variance[:, j], (ahead[1] - behind[1]) / (2 * step), atol=1e-4)
    points = torch.tensor(Z, requires_grad=True)
    for one, slopes in zip(made.mean_var(points), (found.by_mean, found.by_variance), strict=True):
        (automatic,) = torch.autograd.grad(one.sum(), points, retain_graph=True)
        np.testing.assert_allclose(automatic.numpy(), slopes, atol=1e-4)


def test_levels_that_an_emulator_foresees_are_alike():
    small = [replace(term, size=0.01) for term in TERMS]
    alone = process((replace(small[0], rho=0.0), *small[1:])).likeness
    made = process(tuple(small), foreseen=Foreseen(Emulator(wave), PLAIN, X0))
    w = np.array([[1, 0, 0], [0.9 * 1.4, 1.4, 1]])
    joint = 0.01 * w @ w.T + np.outer(SHARES[[0, 2]], SHARES[[0, 2]]) * np.var(wave(X0))
    assert made.likeness == pytest.approx(joint[0, 1] / np.sqrt(joint[0, 0] * joint[1, 1]))
    assert alone < 0.8 < made.likeness


def heap(X, S):
    """A heap on a line whose place and whose height follow the design, in kelvin, shape (n, cells)."""
    return (8 + np.sin(5 * X[:, 1:])) * np.exp(-(((S - 0.5 - 0.3 * X[:, :1]) / 0.1) ** 2))


def level(number, X, *, read=True):
    """A level that sees the heap at few places; its field is interpolated to those of the target, but for a little."""
    seen = heap(X, (np.arange(9) + 0.5) / 9).max(axis=1, keepdims=True)
    exact = heap(X, FINE).max(axis=1, keepdims=True) + 0.05 * (1 - number)
    return LevelResults(number, (0.1, 0.3)[number], X, seen, exact if read else None)


def data(emulator=None, *, read=True, first=X0):
    emulators = () if emulator is None else (Emulator(emulator),)
    lower = level(0, first, read=read), level(1, X1, read=read)
    known = {"levels": (0.1, 0.3), "lower": lower, "emulators": emulators, "exact": True, "space": SPACE}
    return Observations(X2, heap(X2, FINE).max(axis=1), maximize=False, **known)


def near(X):
    return 0.8 * heap(X, FINE).max(axis=1) + 0.4 * X[:, 0] ** 2


def fit(data, surrogate=None):
    return (surrogate or MultilevelGP()).fit(data, np.random.default_rng(0), None, no_report)


def error(posterior):
    mean = posterior.scaling.to_physical(moments(posterior)[0])
    return np.sqrt(np.mean((mean - heap(Z, FINE).max(axis=1)) ** 2))


def test_an_emulator_and_levels_tell_more_than_either():
    made = fit(data(near))
    assert made.foreseen is not None and "level 0 is 1.2" in made.remarks["levels"]
    assert error(made) < 0.5 * error(fit(data())) and error(made) < 0.5 * error(fit(data(near), EmulatedGP()))


def test_the_jitter_of_an_emulator_is_the_least_noise_of_the_cheapest_level():
    plain = fit(data(near)).terms[0]
    known = data(near)
    known = replace(known, emulators=(replace(known.emulators[0], measured=lambda: 0.03),))
    made = fit(known)
    floor = made.terms[0].rho ** 2 * made.foreseen.jitter
    assert made.terms[0].noise == floor > 10 * plain.noise


def test_a_useless_emulator_leaves_the_levels_as_they_are():
    made = fit(data(lambda X: np.sin(40 * X[:, 0] + 9 * X[:, 1])))
    np.testing.assert_array_equal(moments(made), moments(fit(data())))
    assert made.foreseen is None and "emulator" not in made.remarks["levels"]


def test_outputs_read_from_fields_on_the_targets_mesh_teach_more_than_those_of_coarse_cells():
    made, outputs = fit(data()), fit(data(read=False))
    assert error(made) < 0.5 * error(outputs)
    assert "read on the mesh of the target" in made.remarks["levels"]
    assert "read on the mesh" not in outputs.remarks["levels"]


def test_outputs_that_were_read_wrongly_are_left_out():
    wrong = tuple(replace(each, read=wave(9 * each.X)[:, None]) for each in data().lower)
    made, outputs = fit(replace(data(), lower=wrong)), fit(data(read=False))
    np.testing.assert_array_equal(moments(made), moments(outputs))


def test_without_a_result_of_a_level_the_emulator_is_of_the_target():
    made = fit(replace(data(near), lower=(), X=X0, y=heap(X0, FINE).max(axis=1)))
    said = made.remarks["levels"]
    assert said.startswith("none has a result: the target alone; it is 1.") and "times the emulator" in said


@pytest.mark.parametrize("read", [True, False])
def test_a_state_restores_what_is_known_beside_the_results(read):
    known = data(near, read=read)
    made = fit(known)
    again = MultilevelGP().restore(known, made.state())
    np.testing.assert_array_equal(moments(again), moments(made))
    assert again.remarks == made.remarks and again.metrics == made.metrics


def test_draws_have_the_moments():
    made, points = process(foreseen=Foreseen(Emulator(wave), PLAIN, X0)), torch.tensor(Z[:6])
    drawn = torch.stack([f(points) for f in made.draw(150, np.random.default_rng(1))]).detach()
    mean, variance = (torch.tensor(each) for each in moments(made, Z[:6]))
    assert ((drawn.mean(0) - mean).abs() < 4.5 * (variance / 150).sqrt()).all()
    assert ((drawn.var(0) / variance - 1).abs() < 4.5 * np.sqrt(2 / 150) + 0.1).all()


def test_outputs_that_were_read_are_part_of_the_digest_and_belong_to_their_output():
    changed = replace(data(), lower=(replace(data().lower[0], read=data().lower[0].read + 1), data().lower[1]))
    assert len({data().digest, changed.digest, data(read=False).digest}) == 3
    two = LevelResults(0, 0.1, X0, np.ones((12, 2)), np.arange(24.0).reshape(12, 2))
    np.testing.assert_array_equal(two.of_output(1).read, two.read[:, [1]])
    with pytest.raises(ValueError, match=r"read \(3, 2\) does not fit Y \(12, 2\)"):
        LevelResults(0, 0.1, X0, np.ones((12, 2)), np.ones((3, 2)))

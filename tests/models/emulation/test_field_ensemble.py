"""Networks from designs to fields: what each member sees and reads, and patterns that no other field has."""

from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.emulation.field_members import FieldMembers, LeftOut, shares
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.networks.ensembles import MisfitLoss
from fieldcraft.models.networks.perceptron import Network
from fieldcraft.models.observations import Observations, Scaling
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.field_ensemble import FieldEnsemble
from fieldcraft.models.surrogates.field_pod import FieldPod
from fieldcraft.physics.space import Continuous, SearchSpace

S = (np.arange(60) + 0.5) / 60
RNG = np.random.default_rng(3)
X, Z = RNG.uniform(-1, 1, (20, 2)), RNG.uniform(-1, 1, (300, 2))


def patterned(X):
    """Two smooth shapes and, where x > 0.4, stripes whose number and place change with the design, (n, 1, 60)."""
    smooth = (1.5 + X[:, :1]) + np.outer(1 / (1.3 + X[:, 1]), np.sin(np.pi * S))
    stripes = np.sin(40 * X[:, 1:] + 60 * (1 + X[:, :1]) * S)
    return (smooth + 8 * np.maximum(X[:, :1] - 0.4, 0) * stripes)[:, None]


def squared(fields, X):
    return (fields**2).mean(axis=2)


def data(fields=patterned, X=X, y=None):
    values = fields(X)
    digests = tuple(f"{i:064x}" for i in range(len(X)))
    known = Snapshots(values, digests, None, squared)
    return Observations(X, known.outputs(values, X) if y is None else y, maximize=False, exact=True, snapshots=known)


def fit(surrogate, known, seed=0):
    return surrogate.fit(known, np.random.default_rng(seed), None, no_report)


def predicted(posterior):
    mean, variance = (each.numpy() for each in posterior.mean_var(torch.tensor(Z)))
    return posterior.scaling.to_physical(mean), posterior.scaling.sd * np.sqrt(variance)


def test_every_trial_is_left_out_by_a_quarter_of_the_members_and_every_member_leaves_out_a_quarter():
    seen = shares(10, 8, 4, np.random.default_rng(0))
    assert (seen.sum(axis=0) == 6).all() and set((~seen).sum(axis=1)) == {2, 3}
    assert len({tuple(row) for row in seen.tolist()}) == 8


def test_a_network_does_not_depend_on_results_that_it_has_not_seen():
    network = Network(2, 5, 2)
    theta = network.initial(3, torch.Generator().manual_seed(0))
    targets = torch.tensor(RNG.normal(size=(3, len(X))))
    seen = torch.tensor(shares(len(X), 3, 3, np.random.default_rng(1)), dtype=torch.float64)
    other = targets + (1 - seen)
    losses = [MisfitLoss(network, torch.tensor(X), each, theta, 0.1, seen) for each in (targets, other)]
    for one, two in zip(losses[0].slope(theta), losses[1].slope(theta), strict=True):
        assert torch.equal(one, two)
    (rows, jacobian), step = losses[0].linearised(theta), 1e-6 * torch.ones_like(theta)
    assert torch.equal(rows, losses[1].rows(theta)) and (rows[seen == 0] == 0).all()
    rise = (losses[0].rows(theta + step) - losses[0].rows(theta - step)) / 2e-6
    torch.testing.assert_close(jacobian.along(torch.ones_like(theta)), rise, rtol=1e-6, atol=1e-7)
    assert losses[0].slope(theta)[1].norm() > 0


def test_a_member_reads_the_field_of_its_own_networks():
    network, modes = Network(2, 4, 1), RNG.normal(size=(3, 1, 60))
    theta = network.initial(2 * 3, torch.Generator().manual_seed(0))
    known = data().snapshots
    found = FieldMembers(known, modes.mean(axis=0), modes, network, theta, Scaling(2.0, 0.5, 1.0)).values(Z[:9])
    for member in range(2):
        moved = [network.value(theta[[3 * member + k]], torch.tensor(Z[:9]))[0].numpy() for k in range(3)]
        fields = modes.mean(axis=0) + np.einsum("kn,kfs->nfs", moved, modes)
        np.testing.assert_allclose(found[:, member], ((fields**2).mean(axis=(1, 2)) - 2.0) / 0.5, rtol=1e-12)


def test_the_moments_of_fields_are_those_of_the_members_own():
    network, modes, offset = Network(2, 4, 1), RNG.normal(size=(3, 1, 60)), RNG.normal(size=(1, 60))
    theta = network.initial(5 * 3, torch.Generator().manual_seed(0))
    members = FieldMembers(data().snapshots, offset, modes, network, theta, Scaling(0.0, 1.0, 1.0))
    found = members.moments(Z[:7])
    own = [network.value(theta[3 * m : 3 * m + 3], torch.tensor(Z[:7])).numpy() for m in range(5)]
    fields = np.stack([offset + np.einsum("kn,kfc->nfc", each, modes) for each in own])
    np.testing.assert_allclose(found[0], fields.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found[1], fields.std(axis=0, ddof=1), atol=1e-12)


def test_what_the_members_left_out_gives_the_variance_in_which_four_in_five_results_lie():
    rng = np.random.default_rng(0)
    seen = shares(200, 16, 4, rng).T
    values = np.where(seen, 1e6, rng.normal(0.0, 0.1, (200, 16)))  # what they have seen counts for nothing
    known = LeftOut.of(values, seen, rng.normal(0.0, 0.7, 200), 0.01)
    held = np.mean(np.abs(known.errors) <= 2 * np.sqrt(known.variance))
    assert held == pytest.approx(0.8, abs=0.006) and 0.1 < known.rest < 0.7**2
    assert LeftOut.of(values, seen, np.zeros(200), 0.01).rest == pytest.approx(1e-6)


def test_fields_whose_pattern_changes_kind_teach_it_more_than_a_mixture_of_modes():
    known = data()
    truth, smooth = squared(patterned(Z), Z)[:, 0], Z[:, 0] < 0.4
    posterior = fit(FieldEnsemble(), known)
    mean, sd = predicted(posterior)
    others = [predicted(fit(surrogate, known))[0] for surrogate in (ExactGP(), FieldPod())]
    errors = [np.sqrt(np.mean((each - truth)[smooth] ** 2)) for each in (mean, *others)]
    assert errors[0] < 0.7 * min(errors[1:])
    assert 0.85 <= np.mean(np.abs(mean - truth) < 2 * sd) <= 0.99


@pytest.fixture(scope="module")
def learnt():
    return fit(FieldEnsemble(), data(X=X[:10]))


def test_beside_a_design_that_is_believed_exact_results_leave_the_least_variance_undoubted(learnt):
    believed, away = torch.tensor(Z[:2]), torch.tensor([[0.9, -0.9], [-0.9, 0.9]], dtype=torch.float64)
    noisy = replace(learnt, believed=None)
    later, doubted = learnt.fantasize(believed), noisy.fantasize(believed)
    (mean, variance), (other, more) = later.mean_var(believed), doubted.mean_var(believed)
    assert torch.equal(mean, other)
    torch.testing.assert_close(variance, more - learnt.rest, rtol=0, atol=1e-5 * learnt.rest)
    assert (later.mean_var(away)[1] <= doubted.mean_var(away)[1]).all()
    again = later.fantasize(away)
    assert (again.within(torch.cat([believed, away])) < 1e-5 * learnt.rest).all()
    point = torch.tensor([[0.1, 0.2]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda X: later.within(X), point.requires_grad_(), eps=1e-5, atol=1e-5)


def test_a_batch_is_no_design_several_times(learnt):
    space = SearchSpace((Continuous("a", -1.0, 1.0), Continuous("b", -1.0, 1.0)))
    score = LogEI().score(learnt, data(X=X[:10]), torch.empty((0, 2), dtype=torch.float64), 3, np.random.default_rng(1))
    found = Multistart(n_samples=512).maximize(score, space, 3, np.random.default_rng(2)).X
    assert min(np.linalg.norm(found[i] - found[j]) for i in range(3) for j in range(i)) > 0.1


def test_fields_that_do_not_teach_leave_it_to_the_outputs_and_the_remark_says_why():
    # Of twins with opposite results each is foreseen by the other.
    twins = np.repeat(X[:10], 2, axis=0) + np.tile([[0.0], [1e-3]], (10, 1))
    known = data(lambda X: 2.0 + np.tile([1.0, -1.0], 10)[:, None, None] * S, twins)
    found = fit(FieldEnsemble(width=8, refinements=10), known)
    assert found.remarks["fields"].startswith("not used: half of the results were foreseen no nearer")
    restored = FieldEnsemble(width=8, refinements=10).restore(known, found.state())
    assert torch.equal(restored.mean_var(torch.tensor(Z))[0], found.mean_var(torch.tensor(Z))[0])
    assert restored.remarks == found.remarks
    with pytest.raises(ValueError, match="The fields are not used: half of the results"):
        fit(FieldEnsemble(width=8, refinements=10, stand_in=False), known)
    few, same = data(X=X[:3]), data(lambda X: np.ones((len(X), 1, 60)), y=X[:, 0])
    rounded = data(lambda X: 0.1 + 1e-16 * RNG.standard_normal((len(X), 1, 60)), y=X[:, 0])
    assert "there are 3 trials" in fit(FieldEnsemble(), few).remarks["fields"]
    for known in (same, rounded):
        assert "all are the same" in fit(FieldEnsemble(), known).remarks["fields"]


def test_auto_chooses_it_by_its_predictions_where_it_is_a_candidate():
    known = data(X=np.random.default_rng(5).uniform(-1, 1, (28, 2)))
    found = fit(Auto(candidates=("exact_gp", "field_pod", "field_ensemble")), known)
    assert found.name == "field_ensemble" and Auto(candidates=("field_ensemble",)).uses_fields
    assert found.scores["field_ensemble"] > 3 + max(found.scores[name] for name in ("field_pod", "exact_gp"))


def test_auto_lets_fields_propose_in_about_every_second_iteration_whatever_the_batch():
    designs = RNG.uniform(-1, 1, (400, 2))
    grown = [data(X=designs[:n]) for n in range(1, 401)]
    turns = [bool(Auto()._turn(known)) for known in grown]
    for batch in range(1, 9):
        taken = turns[4::batch]
        assert np.mean(taken) == pytest.approx(0.5, abs=0.07), batch
        assert max(len(list(run)) for _, run in groupby(taken)) <= (2 if batch == 1 else 9), batch
    assert not any(Auto(candidates=("exact_gp", "field_pod"))._turn(known) for known in grown)
    assert ["field_ensemble" in Auto()._names(known) for known in grown] == [n <= 50 for n in range(1, 401)]


def test_auto_says_whose_turn_it_is_and_who_predicts_better():
    X = np.random.default_rng(6).uniform(-1, 1, (28, 2))
    found = {n: fit(Auto(), data(X=X[:n])) for n in (12, 17, 18)}
    assert [found[n].name for n in found] == ["field_pod", "sampled_linear", "field_pod"]
    for n in (12, 18):
        assert found[n].scores["sampled_linear"] == max(found[n].scores.values())
        assert found[n].scores["field_pod"] > found[n].scores["field_ensemble"]
        said = "field_pod learns from the fields and has its turn: sampled_linear predicts better"
        assert found[n].remarks["turn"] == said and next(found[n].next_best()).instead_of == ""
    assert "turn" not in found[17].remarks
    assert found[17].scores["sampled_linear"] == max(found[17].scores.values())
    known, at = data(X=X[:12]), torch.tensor(Z)
    restored = Auto().restore(known, found[12].state())
    assert restored.name == "field_pod" and restored.remarks == found[12].remarks
    assert all(map(torch.equal, restored.mean_var(at), found[12].mean_var(at)))


@pytest.mark.parametrize(
    ("options", "said"), [({"members": 7}, "members is 7: give 8 or more"), ({"noise": 0.0}, "noise is 0.0")]
)
def test_numbers_out_of_range_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        FieldEnsemble(**options)

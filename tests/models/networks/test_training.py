import itertools
import math

import pytest
import torch
from matrices import Written

from fieldcraft.models.networks.least_squares import Schedule, State
from fieldcraft.models.networks.training import train
from fieldcraft.models.surrogate import no_report


class Problem:
    """Rows a function of theta; the Jacobian by automatic differentiation."""

    capturable = False

    def __init__(self, function, anchor, ridge=0.0):
        self.function, self.anchor, self.ridge = function, anchor, ridge

    def rows(self, theta):
        return torch.stack([self.function(row) for row in theta])

    def linearised(self, theta):
        jacobian = torch.stack([torch.func.jacrev(self.function)(row) for row in theta])
        return self.rows(theta), Written(jacobian)

    def slope(self, theta):
        theta = theta.detach().requires_grad_()
        squares = self.rows(theta).square().sum(-1)
        (slope,) = torch.autograd.grad(squares.sum(), theta)
        return squares.detach(), slope / 2


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def schedule(**given):
    return Schedule(**{"steps": 0, "rate": 0.1, "decay": 1.0, "refinements": 0, "report_every": 1, **given})


def run(problem, plan, state=None, report=no_report):
    begun = State.begin(problem.anchor) if state is None else state
    return train(problem, begun, plan, report, lambda kept: kept.tensors())


def curved(seed=1):
    A, b = numbers(6, 4, seed=seed), numbers(6, seed=seed + 1)
    return lambda theta: torch.tanh(A @ theta) - b


def test_adam_takes_the_steps_that_torch_takes():
    problem = Problem(curved(), numbers(1, 4, seed=9))
    ours = run(problem, schedule(steps=25)).theta
    theirs = problem.anchor.clone().requires_grad_()
    optimizer = torch.optim.Adam([theirs], lr=0.1)
    for _ in range(25):
        optimizer.zero_grad()
        problem.rows(theirs).square().sum().backward()
        optimizer.step()
    torch.testing.assert_close(ours, theirs.detach(), rtol=0, atol=1e-12)


def test_the_step_size_falls_exponentially_to_its_stated_share():
    problem = Problem(lambda theta: theta * 1e3, torch.full((1, 1), 1e6, dtype=torch.float64))
    seen = [problem.anchor]
    run(
        problem,
        schedule(steps=10, decay=0.01),
        report=lambda step, metrics, checkpoint: seen.append(checkpoint()["theta"]),
    )
    moves = [float(a - b) for a, b in itertools.pairwise(seen)]
    for step, move in enumerate(moves):
        assert move == pytest.approx(0.1 * 0.01 ** (step / 10), rel=1e-5)


def test_gauss_newton_reaches_the_closed_form_of_a_ridge_regression():
    A, b, anchor = numbers(5, 8), numbers(5, seed=2), numbers(1, 8, seed=3)
    problem = Problem(lambda theta: A @ theta - b, anchor, ridge=0.3)
    found = run(problem, schedule(refinements=60)).theta[0]
    exact = torch.linalg.solve(A.T @ A + 0.3 * torch.eye(8, dtype=torch.float64), A.T @ b + 0.3 * anchor[0])
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-9)


def test_gauss_newton_never_raises_a_loss_and_refuses_a_step_that_would():
    losses, dampings = [], []

    def keep(step, metrics, checkpoint):
        losses.append(metrics["loss"])
        dampings.append(float(checkpoint()["damping"]))

    problem = Problem(lambda theta: torch.atan(theta), torch.full((1, 1), 30.0, dtype=torch.float64))
    state = State.begin(problem.anchor)
    run(
        problem,
        schedule(refinements=60),
        State.of({**state.tensors(), "damping": torch.full((1,), 1e-9)}, problem.anchor),
        keep,
    )
    assert losses == sorted(losses, reverse=True)
    assert max(dampings) > 1e-9  # a bare Newton step from 30 overshoots, so some were refused
    assert losses[-1] < 1e-12


@pytest.mark.parametrize("cut", range(1, 16))
def test_a_training_interrupted_at_any_step_ends_in_the_same_bits(cut):
    plan = schedule(steps=8, refinements=8, decay=0.5)
    problem = Problem(curved(), numbers(3, 4, seed=9), ridge=0.01)
    kept = {}
    whole = run(problem, plan, report=lambda step, metrics, checkpoint: kept.update({step: checkpoint()}))
    resumed = run(problem, plan, State.of(kept[cut], problem.anchor))
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, resumed.tensors()[name]), name


def test_networks_trained_together_end_where_each_ends_alone():
    plan = schedule(steps=10, refinements=10)
    anchors = numbers(3, 4, seed=9)
    together = run(Problem(curved(), anchors), plan).theta
    for i in range(3):
        alone = run(Problem(curved(), anchors[i : i + 1]), plan).theta
        torch.testing.assert_close(together[i : i + 1], alone, rtol=0, atol=1e-9)


def test_a_training_that_overflows_begins_again_at_a_smaller_rate_and_says_how_often():
    # From -0.5 Adam's first step is upwards by the rate: e^2000 and e^500 squared overflow, e^125 squared does not.
    problem = Problem(lambda theta: torch.exp(theta) - 1, torch.full((1, 1), -0.5, dtype=torch.float64))
    seen = []
    state = run(
        problem, schedule(steps=5, rate=2000.0), report=lambda step, metrics, _: seen.append(metrics["restarts"])
    )
    assert state.restarts == 2
    assert seen[-1] == 2.0
    assert math.isfinite(float(state.loss))


def test_a_training_that_overflows_for_ever_is_refused_with_its_rate():
    problem = Problem(lambda theta: torch.exp(theta) - 1, torch.full((1, 1), -0.5, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"3 restarts at smaller rates did too: lower the rate \(1e\+30\)"):
        run(problem, schedule(steps=5, rate=1e30))


def overflowing(size):
    """Its gradient by theta_0 overflows from ``size`` on, where Adam's moments do."""
    return lambda theta: torch.cat([torch.exp(theta[:1] * size) - 1, theta[1:] - 0.5])


class Several(Problem):
    """A row function for each network."""

    def __init__(self, functions, anchor):
        super().__init__(None, anchor)
        self.functions = functions

    def rows(self, theta):
        return torch.stack([function(row) for function, row in zip(self.functions, theta, strict=True)])

    def linearised(self, theta):
        each = zip(self.functions, theta, strict=True)
        return self.rows(theta), Written(torch.stack([torch.func.jacrev(function)(row) for function, row in each]))


def test_networks_of_which_some_overflow_end_where_each_ends_alone_bit_for_bit():
    plan = schedule(steps=6, rate=2000.0, decay=0.5)
    anchors = torch.tensor([[-0.5, 0.1], [-0.5, 0.2], [-0.5, 0.3]], dtype=torch.float64)
    functions = [overflowing(size) for size in (1.0, 1e-4, 0.25)]
    kept = []
    together = run(Several(functions, anchors), plan, report=lambda step, metrics, at: kept.append((metrics, at())))
    assert together.failures.tolist() == [2, 0, 1]
    assert together.restarts == 3
    assert all(math.isfinite(metrics["loss"]) for metrics, _ in kept)
    for i, function in enumerate(functions):
        alone = run(Several([function], anchors[i : i + 1]), plan)
        assert torch.equal(together.theta[i : i + 1], alone.theta)
        assert torch.equal(together.loss[i : i + 1], alone.loss)
    for _, checkpoint in kept:
        resumed = run(Several(functions, anchors), plan, State.of(checkpoint, anchors))
        assert torch.equal(resumed.theta, together.theta)


def test_the_weights_that_the_last_adam_step_leaves_are_judged_and_their_loss_is_known():
    # The step of 0.6 from 0 passes 0.5, beyond which there is no number; a quarter of it does not.
    problem = Problem(lambda theta: torch.where(theta > 0.5, torch.nan, theta - 1), torch.zeros(1, 1).double())
    state = run(problem, schedule(steps=1, rate=0.6))
    assert state.restarts == 1
    assert float(state.loss) == pytest.approx(0.85**2, rel=1e-6)


def valley(theta):
    """Rosenbrock's rows, ten times as steep: their squares fall along a parabola."""
    return torch.stack([100 * (theta[1] - theta[0] ** 2), 1 - theta[0]])


def still(theta):
    """Rows whose squares fall to one and no further."""
    return torch.stack([theta[0], 1 + theta[1] ** 2])


def steps_of(problem, plan):
    """Steps until the end, the last state and every checkpoint."""
    kept = []
    state = run(problem, plan, report=lambda step, metrics, checkpoint: kept.append(checkpoint()))
    return len(kept), state, kept


def test_a_training_ends_ten_steps_after_its_loss_fell_by_the_share_for_the_last_time():
    problem = Problem(still, numbers(1, 2, seed=4))
    count, state, kept = steps_of(problem, schedule(refinements=100, share=0.1))
    losses = [float(each["loss"]) for each in kept]
    marks, last = [0], losses[0]
    for i, loss in enumerate(losses):
        if loss < 0.9 * last:
            marks, last = [*marks, i], loss
    assert count == marks[-1] + 11
    assert float(state.loss) == pytest.approx(1.0, rel=1e-2)
    assert steps_of(problem, schedule(refinements=100, share=1e-6))[0] > count
    assert not state.moving.any()


def test_a_loss_of_zero_to_rounding_ends_its_training_at_once():
    problem = Problem(lambda theta: torch.sin(theta), numbers(1, 3, seed=4))
    count, state, _ = steps_of(problem, schedule(refinements=100))
    assert count < 15
    assert float(state.loss) < 3e-24


@pytest.mark.parametrize("curved", [False, True])
def test_a_training_that_stalls_is_resumed_from_every_checkpoint_in_the_same_bits(curved):
    problem = Several([valley, still], torch.tensor([[-1.2, 1.0], [0.3, 0.6]], dtype=torch.float64))
    plan = schedule(steps=2, refinements=150, share=0.1, curved=curved)
    count, state, kept = steps_of(problem, plan)
    assert 12 < count < 152
    assert any(float(a["damping"][0]) < float(b["damping"][0]) for a, b in itertools.pairwise(kept))  # a refused step
    for checkpoint in kept[:: 1 if curved else 8]:
        resumed = run(problem, plan, State.of(checkpoint, problem.anchor))
        for name, tensor in state.tensors().items():
            assert torch.equal(tensor, resumed.tensors()[name]), name


def test_a_network_that_has_stalled_stays_while_others_go_on():
    anchors = torch.tensor([[0.3, 0.6], [-1.2, 1.0]], dtype=torch.float64)
    plan = schedule(refinements=60, share=0.1)
    count, alone, _ = steps_of(Several([still], anchors[:1]), plan)
    longer, both, _ = steps_of(Several([still, valley], anchors), plan)
    assert longer > count
    torch.testing.assert_close(both.theta[:1], alone.theta, rtol=0, atol=1e-12)


def test_a_checkpoint_that_counts_no_stalled_steps_is_gone_on_from():
    problem, plan = Problem(valley, numbers(1, 2, seed=5)), schedule(refinements=60, share=0.1)
    kept = steps_of(problem, plan)[2]
    earlier = {name: tensor for name, tensor in kept[3].items() if name not in ("mark", "stalled")}
    state = run(problem, plan, State.of(earlier, problem.anchor))
    assert state.step > 4
    assert float(state.loss) == pytest.approx(float(kept[-1]["loss"]), abs=1e-20)


def test_the_correction_is_half_the_second_derivative_along_the_step_through_the_damped_system():
    theta, damping = torch.tensor([[0.4, 0.16]], dtype=torch.float64), 10.0
    problem = Problem(valley, theta + 0.2, ridge=0.3)
    begun = State.of({**State.begin(theta).tensors(), "damping": torch.full((1,), damping).double()}, theta)
    found = run(problem, schedule(refinements=1, curved=True), begun).theta[0]
    J, rows = torch.func.jacrev(valley)(theta[0]), valley(theta[0])
    system = J.T @ J + (0.3 + damping) * torch.eye(2, dtype=torch.float64)
    move = -torch.linalg.solve(system, J.T @ rows + 0.3 * (theta - problem.anchor)[0])
    hessians = torch.func.jacfwd(torch.func.jacrev(valley))(theta[0])
    turn = -0.5 * torch.linalg.solve(system, J.T @ (hessians @ move @ move))
    assert float(turn.norm()) > 1e-3
    assert float(turn.norm()) < 0.375 * float(move.norm())
    torch.testing.assert_close(found, theta[0] + move + turn, rtol=0, atol=1e-11)
    plain = run(problem, schedule(refinements=1), begun).theta[0]
    torch.testing.assert_close(plain, theta[0] + move, rtol=0, atol=1e-12)


def test_the_correction_shortens_the_way_along_a_bent_valley():
    problem = Problem(valley, torch.tensor([[-1.2, 1.0]], dtype=torch.float64))
    plain, corrected = (steps_of(problem, schedule(refinements=200, curved=curved)) for curved in (False, True))
    assert float(corrected[1].loss) < 1e-20
    assert corrected[0] < 0.5 * plain[0]

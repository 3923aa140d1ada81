"""What a CUDA device changes and what it must not: ``make gpu``, on a machine that has one.

Everything is computed in float64 on either side, from the same weights by the same steps; only the order of sums
differs. On the CPU alone another order of the trials and collocation points, which reorders the same sums, moves a
posterior by at most 2e-8 of the results' standard deviation (13 digits for the networks alone; the rest is the search
for hyper-parameters, which a card has no part in). AGREE leaves a factor of 500 for longer sums and other roundings; a
lost row, a stale weight or float32 on the way (6e-8 a sum, amplified by the normal equations) would be far outside it.
"""

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.flows.wiring.tensors import as_dataset, as_state
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.maximizers.certified import Certified
from fieldcraft.models.numerics.devices import computing_on
from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.surrogate import Surrogate, no_report
from fieldcraft.models.surrogates.deep_ensemble import DeepEnsemble
from fieldcraft.models.surrogates.dngo import DNGO
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.neural_greedy import NeuralGreedy
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.models.surrogates.sampled_network import SampledNetwork
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.physics.operators import laplace
from fieldcraft.physics.space import Continuous, SearchSpace
from fieldcraft.storage.fields import load_group, save_group
from fieldcraft.storage.open_ledger import open_ledger

CARD = "cuda"
ROOT = Path(__file__).resolve().parents[2]
AGREE = 1e-5  # of the results' standard deviation, for means; of itself, for a standard deviation
SURROGATES = (
    DeepEnsemble(networks=3, width=16, refinements=20),
    NeuralGreedy(networks=2, width=16, steps=20, refinements=20),
    DNGO(width=20, depth=2, refinements=30),
    TangentNetwork(width=30, refinements=8),
    SampledNetwork(networks=2, width=30, refinements=8),
    PhysicsInformed(engine="trained", networks=2, width=12, depth=2, steps=60),
)
RNG = np.random.default_rng(8)
CENTER, HALF = np.array([2.0, 3.0]), np.array([1.5, 2.5])
X = RNG.uniform(-1, 1, (12, 2))
Z = torch.tensor(RNG.uniform(-1, 1, (7, 2)))
DATA = Observations(
    X=X,
    y=(CENTER + HALF * X)[:, 0] ** 2 - (CENTER + HALF * X)[:, 1] ** 2,
    maximize=False,
    noise_sd=0.1,
    physics=Physics(laplace(2), CENTER + HALF * RNG.uniform(-1, 1, (24, 2)), CENTER, HALF),
)
CAMPAIGN = """\
name: card
seed: 3
sense: minimize
problem: {kind: branin}
simulator: {kind: function}
dispatcher: {kind: inline}
algorithm:
  start: {n: 2}
  surrogate: {kind: deep_ensemble, networks: 2, width: 8, refinements: 5}
  acquisition: {kind: thompson}
  maximizer: {kind: multistart, n_samples: 64, n_starts: 2}
budget: {trials: 3}
"""


def fit(surrogate: Surrogate, choice: str, start=None, report=no_report):
    """Its posterior, and the types of device on which it was computed."""
    with computing_on(choice) as computing:
        return surrogate.fit(DATA, np.random.default_rng(5), start, report), computing.used


@pytest.fixture(scope="module", params=SURROGATES, ids=lambda surrogate: type(surrogate).__name__)
def surrogate(request):
    return request.param


@pytest.fixture(scope="module")
def on_card(surrogate):
    posterior, used = fit(surrogate, CARD)
    assert used == {CARD}
    return posterior


def agree(one, other) -> None:
    """Means and standard deviations of two posteriors agree."""
    (mean, variance), (known, spread) = one.mean_var(Z), other.mean_var(Z)
    assert float((mean - known).abs().max()) < AGREE * float(np.std(DATA.y))
    torch.testing.assert_close(variance.sqrt(), spread.sqrt(), rtol=AGREE, atol=AGREE * float(np.std(DATA.y)))


def test_the_posterior_is_that_of_the_cpu(surrogate, on_card):
    posterior, used = fit(surrogate, "cpu")
    assert used == {"cpu"}
    agree(on_card, posterior)


def test_all_that_leaves_a_fit_stands_on_the_cpu(surrogate):
    states = []
    posterior, _ = fit(surrogate, CARD, report=lambda step, metrics, checkpoint: states.append(checkpoint()))
    assert {tensor.device.type for state in [*states, posterior.state()] for tensor in state.values()} == {"cpu"}
    assert {part.device.type for part in posterior.mean_var(Z)} == {"cpu"}


def test_a_training_goes_on_from_a_checkpoint_of_the_card(surrogate, on_card):
    states = []
    fit(surrogate, CARD, report=lambda step, metrics, checkpoint: states.append(checkpoint()))
    again, _ = fit(surrogate, CARD, start=states[len(states) // 2])
    agree(again, on_card)


def test_a_checkpoint_of_the_card_is_restored_where_there_is_none(surrogate, on_card, tmp_path):
    save_group(tmp_path / "state", as_dataset(on_card.state()))
    save_group(tmp_path / "seen", as_dataset(dict(zip(("mean", "variance"), on_card.mean_var(Z), strict=True))))
    words = [sys.executable, __file__, str(tmp_path), str(SURROGATES.index(surrogate))]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def restored_without_card(folder: Path, index: int) -> None:
    """In a process that sees no card: the stored state gives the posterior that the card gave, to the bit."""
    assert not torch.cuda.is_available()
    posterior = SURROGATES[index].restore(DATA, as_state(load_group(folder / "state")))
    seen = as_state(load_group(folder / "seen"))
    mean, variance = posterior.mean_var(Z)
    assert torch.equal(mean, seen["mean"]), (mean, seen["mean"])
    assert torch.equal(variance, seen["variance"]), (variance, seen["variance"])


def test_an_operator_who_allows_the_cpu_alone_keeps_everything_off_the_card(surrogate):
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    fit(surrogate, "cpu")
    assert torch.cuda.max_memory_allocated() == before


def test_the_ledger_says_which_card_trained_a_model(tmp_path, monkeypatch):
    monkeypatch.delenv("FIELDCRAFT_DEVICE", raising=False)
    (file := tmp_path / "card.yaml").write_text(CAMPAIGN)
    ledger = open_ledger(tmp_path / "ledger.sqlite", create=True)
    created(ledger, wire(read_campaign(file), settings_from(home=tmp_path)), file)
    lease = ledger.acquire("card")
    while not make_pass(Ref(str(tmp_path), "card", lease.model_dump())).decision.finished:
        pass
    (model,) = [product for product in ledger.products("card") if product.step == "train"]
    assert model.payload["trained"]["device"] == f"cuda ({torch.cuda.get_device_name()})"


def test_the_certificate_of_the_card_is_that_of_the_cpu():
    """Boxes are bounded 8,192 at once instead of 256, so the searches differ; what both prove may not."""
    space = SearchSpace((Continuous("a", -1.0, 1.0), Continuous("b", -1.0, 1.0)))
    posterior = ExactGP(restarts=0).fit(DATA, np.random.default_rng(5), None, no_report)
    score = UCB().score(posterior, DATA, torch.empty(0, 2, dtype=torch.float64), 1, np.random.default_rng(0))
    found = {
        device: Certified(device=device).maximize(score, space, 1, np.random.default_rng(0)).certificates[0]
        for device in ("cpu", CARD)
    }
    assert {certificate.status for certificate in found.values()} == {"optimal"}
    (cpu, card), gap = found.values(), Certified().gap
    assert math.isclose(cpu.value, card.value, abs_tol=gap)
    assert max(cpu.value, card.value) <= min(cpu.bound, card.bound) + 1e-9


def test_training_is_faster_on_the_card(capsys):
    surrogate = DeepEnsemble(networks=32, width=256, refinements=10)
    seconds = {}
    for choice in (CARD, "cpu"):
        fit(DeepEnsemble(networks=2, width=16, refinements=2), choice)  # begins what begins once
        began = time.perf_counter()
        fit(surrogate, choice)  # its state is on the CPU, so the card has ended
        seconds[choice] = time.perf_counter() - began
    ratio = seconds["cpu"] / seconds[CARD]
    with capsys.disabled():
        print(f"\n32 networks of 256 x 2: CPU {seconds['cpu']:.2f} s, card {seconds[CARD]:.2f} s, ratio {ratio:.1f}")
    assert ratio > 1


if __name__ == "__main__":
    restored_without_card(Path(sys.argv[1]), int(sys.argv[2]))

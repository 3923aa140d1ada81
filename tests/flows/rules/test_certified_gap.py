"""The stop rule ``certified_gap``: what a certificate says is left to be gained, and when that ends a campaign."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from small import SMALL, finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.rules.stopping import stop_reason
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps import acquire
from fieldcraft.flows.wiring.build import rewire, wire
from fieldcraft.flows.wiring.context import Site
from fieldcraft.flows.wiring.observations import observations, seen_by
from fieldcraft.flows.wiring.tensors import as_state
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import CertificateRecord, TrialState

LOOSE = 1e9  # in the objective's unit: any proof is good enough


def specification(acquisition: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Branin without noise, each design with a proof."""
    data = {**yaml.safe_load(SMALL), "noise": None, "budget": {"trials": 8}, "dispatcher": {"kind": "inline"}}
    data["algorithm"] |= {"start": {"n": 6}, "acquisition": acquisition, "maximizer": {"kind": "certified"}}
    return {**data, **keys}


def site(folder: Path, data: dict[str, Any]) -> Site:
    """The site of a campaign that has run to its end."""
    folder.mkdir(exist_ok=True)
    (folder / "small.yaml").write_text(yaml.safe_dump(data))
    finish(folder / "small.yaml", folder / "home")
    return opened(folder / "home")


def opened(home: Path) -> Site:
    settings = settings_from({}, home)
    ledger = open_ledger(settings.ledger)
    return Site(rewire(ledger.campaign("small").spec, settings), ledger, fields_at(settings.fields))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Site]:
    """Campaigns that a loose rule ended at their first proof, by acquisition."""
    folder, rule = tmp_path_factory.mktemp("stopped"), {"stop": {"certified_gap": LOOSE}}
    ways = {"ucb": {"kind": "ucb", "beta": 4.0}, "log_ei": {"kind": "log_ei"}}
    return {name: site(folder / name, specification(way, **rule)) for name, way in ways.items()}


def proof(at: Site) -> CertificateRecord:
    found = at.ledger.trial("small-0007").origin.certificate
    assert found is not None and found.improvement is not None
    return found


def predicted(at: Site) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and standard deviation of value over a dense grid, and the best mean at a trial; in the value's own unit."""
    product = at.ledger.product("small", 1, "train")
    assert product is not None and product.reference is not None
    seen = seen_by(product, at.ledger.summaries("small"), at.ledger.result_summaries("small"))
    data = observations(at.campaign, seen, None)
    posterior = at.campaign.algorithm.restore(data, as_state(at.fields.read(product.reference)))
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 201)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    with torch.no_grad():
        mean, variance = (part.numpy() for part in posterior.mean_var(torch.as_tensor(grid)))
        best = posterior.mean_var(torch.as_tensor(data.X))[0].min().item()
    scaling = posterior.scaling
    return scaling.to_physical(mean), scaling.sd * np.sqrt(variance), float(scaling.to_physical(best))


def test_no_confidence_bound_of_a_dense_grid_is_below_what_a_proof_leaves_to_be_gained(stopped):
    mean, sd, best = predicted(stopped["ucb"])
    found, on_grid = proof(stopped["ucb"]), float(np.max(best - (mean - 2.0 * sd)))
    scale = stopped["ucb"].ledger.trials("small")[:6]
    spread = np.std([trial.outputs["value"] for trial in scale], ddof=1)
    assert on_grid <= found.improvement <= on_grid + (0.01 + 0.01) * spread


def test_no_expected_improvement_of_a_dense_grid_is_above_what_a_proof_leaves_to_be_gained(stopped):
    from scipy.stats import norm

    mean, sd, best = predicted(stopped["log_ei"])
    z = (best - mean) / sd
    expected = float(np.max(sd * (z * norm.cdf(z) + norm.pdf(z))))
    assert expected <= proof(stopped["log_ei"]).improvement <= 1.03 * expected  # the gap is 0.01 of the logarithm


@pytest.mark.parametrize("acquisition", ["ucb", "log_ei"])
def test_a_proof_that_little_is_left_ends_the_campaign_and_nothing_more_is_sent(stopped, acquisition):
    at = stopped[acquisition]
    gain = proof(at).improvement
    assert at.ledger.campaign("small").finished == (
        "certified gap: in iteration 1 no design can be expected to improve on the best believed value by more than "
        f"{gain:.3g}"
    )
    trials = at.ledger.trials("small")
    assert [trial.state for trial in trials] == [*[TrialState.COMPLETED] * 6, TrialState.REJECTED]
    assert trials[-1].attempt == 0


def test_a_proof_that_much_is_left_ends_nothing(stopped, tmp_path):
    gain = proof(stopped["ucb"]).improvement
    data = specification({"kind": "ucb", "beta": 4.0}, stop={"certified_gap": gain * 0.99}, budget={"trials": 7})
    assert site(tmp_path, data).ledger.campaign("small").finished == "budget: 7 of 7 trials"


def test_what_is_left_is_shown_traced_and_on_the_page(stopped, tmp_path, capsys):
    at = stopped["ucb"]
    home, gain = str(at.campaign.settings.home), proof(at).improvement
    assert main(["show", "small-0007", "--home", home]) == 0
    assert f"; no design can be expected to improve on the best by more than {gain:.3g}" in capsys.readouterr().out
    assert main(["trace", "small-0007", "--home", home]) == 0
    assert f"improvement    {gain}" in capsys.readouterr().out
    assert main(["report", "small", "--html", str(tmp_path / "page.html"), "--home", home]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "<h2>Proof of the proposals</h2>" in page and "Gap by iteration" in page
    assert "<dt>certified</dt><dd>100%<span>1 of 1 searches closed their gap</span>" in page
    assert f"<dt>left to be gained</dt><dd>{gain:.3g}<span>at most, by the last proof" in page
    assert "<td>optimal (gap closed)</td><td>exact</td>" in page
    assert "Bounds of the acquisition itself" in page


def test_a_proof_of_readings_that_were_corrected_since_does_not_hold(stopped, tmp_path):
    at = opened(shutil.copytree(stopped["log_ei"].campaign.settings.home, tmp_path / "home"))
    assert str(stop_reason(at, at.ledger.trials("small"))).startswith("certified gap: in iteration 1")
    first = at.ledger.trial("small-0001")
    (result,) = at.ledger.results(first.id)
    at.ledger.correct(first.id, first.expect, result.id, {"value": 0.1}, None, "ana", "read wrongly", {})
    assert stop_reason(at, at.ledger.trials("small")) is None


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"maximizer": {"kind": "multistart"}}, "the maximizer 'multistart' has none. Use the maximizer certified, or"),
        ({"acquisition": {"kind": "pi"}}, "acquisition 'pi' does not say how much is left to be gained. Use ucb or"),
    ],
)
def test_a_rule_that_nothing_can_prove_is_refused_with_what_can(words, complaint):
    data = specification({"kind": "ucb"}, stop={"certified_gap": 0.01})
    data["algorithm"] |= words
    with pytest.raises(InputError, match=rf"stop\.certified_gap: 0\.01 .*{complaint}"):
        wire(parse(data, "test"), settings_from({}))


def test_a_certificate_of_an_earlier_version_is_read_and_says_nothing_of_what_is_left():
    old = {"bound": 1.0, "gap": 0.0, "status": "optimal", "bound_of": "exact", "nodes": 3}
    assert CertificateRecord.model_validate(old).improvement is None


def test_a_proof_beside_designs_that_nobody_has_read_does_not_say_what_is_left(stopped):
    at = stopped["ucb"]
    assert at.ledger.trial("small-0007").state is TrialState.REJECTED
    _, (origin, second), _ = acquire._chosen(at, 1, 2)
    assert origin.certificate is not None and origin.certificate.improvement is None
    assert second.certificate is not None and second.certificate.improvement is None

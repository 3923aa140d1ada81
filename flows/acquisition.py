"""Step 6, acquire: posterior and pending trials become designs, each with its origin."""

from typing import TYPE_CHECKING

import numpy as np

from flows.collocation import points_of
from flows.environment import environment_of
from flows.progress import tell
from flows.sites import ACTOR, Site
from flows.streams import Use, stream
from flows.wiring import as_state, observations
from storage.records import PENDING, Origin, Product, Proposal, Trial, TrialState, digest_of

if TYPE_CHECKING:
    from models.surrogate import Posterior


def begin(site: Site, iteration: int, q: int) -> tuple[Trial, ...]:
    """Propose the next designs of the initial sequence."""
    proposed = len([trial for trial in site.ledger.trials(site.name) if trial.iteration < iteration])
    rng = stream(site.campaign.spec.seed, 0, Use.INITIAL)
    X = site.campaign.algorithm.begin(site.campaign.space, proposed, q, rng)
    origin = _origin(site, iteration, "initial", site.campaign.spec.algorithm.start.proposer.kind)
    return _propose(site, iteration, X, [origin] * len(X))


def acquire(site: Site, iteration: int, q: int) -> tuple[Trial, ...]:
    """Propose the designs that the iteration's model scores best, from its stored checkpoint."""
    product = site.ledger.product(site.name, iteration, "train")
    assert product is not None and product.reference is not None  # the pass trains before it acquires
    campaign, trials = site.campaign, site.ledger.trials(site.name)
    seen = [trial for trial in trials if trial.id in set(product.payload["trials"])]
    data = observations(campaign, seen, points_of(site, iteration))
    posterior = campaign.algorithm.restore(data, as_state(site.fields.read(product.reference)))
    waiting = [trial.design for trial in trials if trial.state in PENDING]
    pending = campaign.space.encode(waiting) if waiting else np.empty((0, campaign.space.dimension))
    rng = stream(campaign.spec.seed, iteration, Use.ACQUIRE)
    found = campaign.algorithm.propose(posterior, data, pending, campaign.space, q, rng)
    mean, sd = _prediction(posterior, found.X)
    base = _origin(site, iteration, "model", campaign.spec.algorithm.sentence, product)
    origins = [
        base.model_copy(
            update={"slot": slot, "acquisition": float(found.value[slot]), "mean": mean[slot], "sd": sd[slot]}
        )
        for slot in range(q)
    ]
    return _propose(site, iteration, found.X, origins)


def _prediction(posterior: "Posterior", X: np.ndarray) -> tuple[list[float], list[float]]:
    """Predicted mean and standard deviation of the objective at X (q, d), in its unit."""
    import torch

    with torch.no_grad():
        mean, variance = posterior.mean_var(torch.as_tensor(X))
    scaling = posterior.scaling
    return scaling.to_physical(mean.numpy()).tolist(), (scaling.sd * np.sqrt(variance.numpy())).tolist()


def _origin(site: Site, iteration: int, kind: str, words: str, product: Product | None = None) -> Origin:
    payload = product.payload if product else {}
    return Origin.model_validate(
        {
            "kind": kind,
            "algorithm": words,
            "seed": site.campaign.spec.seed,
            "iteration": iteration,
            "slot": 0,
            "model": product.ref if product else None,
            "data_digest": payload.get("data_digest"),
            "collocation": payload.get("collocation"),
            "environment": digest_of(environment_of(site.campaign.problem, site.campaign.settings.plugins)),
            "reproducible": not any(trial.state is TrialState.FAILED for trial in site.ledger.trials(site.name)),
        }
    )


def _propose(site: Site, iteration: int, X: np.ndarray, origins: list[Origin]) -> tuple[Trial, ...]:
    designs = site.campaign.space.decode(X)
    for design in designs:
        site.campaign.space.check(design)
    proposals = [
        Proposal(design=design, origin=origin.model_copy(update={"slot": slot}))
        for slot, (design, origin) in enumerate(zip(designs, origins, strict=True))
    ]
    trials = site.ledger.propose(site.name, iteration, proposals, ACTOR)
    tell("proposed", trials=trials)
    return trials

"""Step 6, acquire: choose designs from posterior and pending trials, each with its origin."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcraft.flows.analysis.learnt import standing
from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.machinery.stopwatch import Clock
from fieldcraft.flows.products import Acquired, Trained
from fieldcraft.flows.steps.collocate import points_of
from fieldcraft.flows.wiring.context import ACTOR, Site
from fieldcraft.flows.wiring.levels.affordable import affordable
from fieldcraft.flows.wiring.levels.tried import encoded, levels_of, remarks_of, repeats_noted, start_places, unseen
from fieldcraft.flows.wiring.observations import as_read, data_of, infeasible, observations, seen_by
from fieldcraft.flows.wiring.physics.emulators import emulators_of
from fieldcraft.flows.wiring.physics.networks import in_words, network_at
from fieldcraft.flows.wiring.physics.predicted_fields import predicted_fields
from fieldcraft.flows.wiring.tensors import as_state
from fieldcraft.flows.wiring.warm.kept import earlier_at, first_designs
from fieldcraft.models.numerics.scores import scores_of
from fieldcraft.physics.space import Design, SearchSpace
from fieldcraft.storage.origins import PredictionRecord
from fieldcraft.storage.records import (
    CertificateRecord,
    Origin,
    Product,
    Proposal,
    RegretRecord,
    Trial,
    TrialState,
    TrialSummary,
)

if TYPE_CHECKING:
    import xarray as xr
    from torch import Tensor

    from fieldcraft.models import maximizer
    from fieldcraft.models.algorithm import Algorithm
    from fieldcraft.models.observations import Observations
    from fieldcraft.models.surrogate import Posterior


def begin(site: Site, iteration: int, q: int) -> tuple[Trial, ...]:
    """Propose the next q designs of the initial sequence; imported trials take no place in it.

    Unless results are noisy, a design that already has a trial is replaced by the nearest that has none.
    """
    campaign, trials = site.campaign, site.ledger.summaries(site.name)
    network = network_at(campaign, site.ledger)
    if network is None and campaign.spec.emulator is not None:
        raise ValueError("The network of the emulator has not been trained: make a whole pass.")
    emulators = emulators_of(campaign.problem, campaign.space, network)
    first = first_designs(campaign, earlier_at(campaign, site.ledger))
    origin, origins = _origin(site, iteration, "initial", trials), list[Origin]()
    designs = list[np.ndarray]()
    for level, n in start_places(campaign, trials, iteration, q):
        same = [trial for trial in trials if trial.level == level]
        proposed = sum(trial.iteration < iteration and not trial.imported for trial in same)
        taken = None if campaign.noisy else encoded(campaign.space, [trial.design for trial in same])
        rng, maximize = stream(campaign.spec.seed, 0, Use.INITIAL), campaign.objective.maximize
        X = campaign.algorithm.begin(campaign.space, proposed, n, rng, taken, emulators, maximize=maximize, first=first)
        designs.append(X)
        origins += [origin.model_copy(update={"level": level})] * n
    return _propose(site, iteration, np.vstack(designs), origins)


def acquire(site: Site, iteration: int, q: int) -> tuple[Trial, ...]:
    """Propose the designs that the iteration's model scores best, or that a rival suggests.

    The time taken and the fields that the model predicts, if it knows any, are recorded before the designs are, as the
    product of this step.
    """
    clock, fields = Clock(), None
    if site.campaign.spec.algorithm.peer is None:
        X, origins, fields = _chosen(site, iteration, q)
    else:
        X, origins = _asked(site, iteration, q)
    reference = None
    if fields is not None:
        labels = {"campaign": site.name, "iteration": iteration}
        reference = site.fields.write(f"{site.name}-predicted-{iteration}", fields, labels)
    site.ledger.note(site.name, iteration, "acquire", Acquired(designs=q, **clock.passed).payload(), reference)
    return _propose(site, iteration, X, origins)


def _chosen(site: Site, iteration: int, q: int) -> tuple[np.ndarray, list[Origin], "xr.Dataset | None"]:
    """Designs (q, d) from the iteration's stored model, with their origins and predicted fields."""
    from fieldcraft.models.numerics.devices import computing_on

    product = site.ledger.product(site.name, iteration, "train")
    assert product is not None  # the pass trains before it acquires
    campaign, trials = site.campaign, site.ledger.summaries(site.name)
    seen, data, state = _learnt(site, product)
    pending, *lower = (unseen(campaign.space, trials, seen, level) for level in (None, *range(len(campaign.levels))))
    rng = stream(campaign.spec.seed, iteration, Use.ACQUIRE)
    with computing_on(campaign.settings.device, len(data)):
        posterior = campaign.algorithm.restore(data, state)
        open_to = affordable(site, trials, q) if campaign.levels else ()
        known = replace(data, lower=tuple(each for each in data.lower if each.level in open_to))
        # Counted by iteration: the same before and after an interruption, and whatever became of them.
        before = sum(trial.iteration < iteration and not trial.imported for trial in trials)
        found = campaign.algorithm.propose(posterior, known, pending, campaign.space, q, rng, lower, before)
        foreseen = _predictions(campaign.objective.outputs, posterior, found.X)
        regret, unproven = _regret(posterior, campaign.space)
        fields = foreseen_fields(site, posterior, campaign.space.decode(found.X))
    base = _origin(site, iteration, "model", trials, Trained.of(product).data_digest, product)
    told = {name: text for name, text in Trained.of(product).remarks.items() if name == "partial"}
    remarks = {**base.remarks, **remarks_of(campaign, posterior), **told, **found.remarks, **unproven}
    base = base.model_copy(update={"remarks": remarks, "scores": scores_of(posterior.metrics), "regret": regret})
    worth = [{"acquisition": float(found.value[slot]), **foreseen[slot]} for slot in range(q)]
    # Later places stand beside designs that nobody has read, and so does the first where some are pending.
    gain = None if len(pending) else _gain(campaign.algorithm, posterior, data, found)
    gains = [gain, *[None] * (q - 1)]
    proven = [_proven(each, base, left) for each, left in zip(found.certificates or (), gains, strict=False)]
    origins = [base.model_copy(update=a | b) for a, b in zip(worth, proven or [{}] * q, strict=True)]
    origins = [origin.model_copy(update={"level": at}) for origin, at in zip(origins, levels_of(found), strict=True)]
    noted = [
        origin.model_copy(update={"remarks": {**origin.remarks, **note}})
        for origin, note in zip(origins, found.notes or ({},) * q, strict=True)
    ]
    return found.X, repeats_noted(noted, found.X, campaign.space, seen), fields


def _learnt(site: Site, product: Product) -> tuple[Sequence[TrialSummary], "Observations", Mapping[str, "Tensor"]]:
    """Trials, training data and state of a model."""
    assert product.reference is not None  # a training keeps its checkpoint
    results = site.ledger.result_summaries(site.name)
    seen = seen_by(product, site.ledger.summaries(site.name), results)
    network = network_at(site.campaign, site.ledger)
    earlier = earlier_at(site.campaign, site.ledger)
    data = data_of(site.campaign, product, seen, points_of(site, product.iteration), network, earlier, results)
    return seen, data, as_state(site.fields.read(product.reference))


def foreseen_again(site: Site, product: Product, designs: Sequence[Design]) -> "xr.Dataset | None":
    """Fields that the model of a training predicts of the designs that it proposed, to the bit as it did then."""
    from fieldcraft.models.numerics.devices import computing_on

    _, data, state = _learnt(site, product)
    with computing_on(site.campaign.settings.device, len(data)):
        return foreseen_fields(site, site.campaign.algorithm.restore(data, state), designs)


def foreseen_fields(site: Site, posterior: "Posterior", designs: Sequence[Design]) -> "xr.Dataset | None":
    """Fields that a model predicts of the designs of an iteration, by slot, in single precision; None if of none."""
    campaign = site.campaign
    found = predicted_fields(campaign.problem, posterior, campaign.space.encode(designs))
    return None if found is None else found.rename(design="slot").astype(np.float32)


def _gain(
    algorithm: "Algorithm", posterior: "Posterior", data: "Observations", found: "maximizer.Candidates"
) -> float | None:
    """Most that a design can be expected to improve on the least posterior mean at the observed points.

    Taken from the proof of the first place, in the objective's unit. None where there is no proof, or its bound is of
    an approximation or is not one of the improvement.
    """
    from fieldcraft.models.acquisition import Improving

    first = found.certificates[0] if found.certificates else None
    if first is None or first.bound_of != "exact" or not isinstance(algorithm.acquisition, Improving):
        return None
    return posterior.scaling.sd * algorithm.acquisition.improvement(first.bound, posterior, data)


def _regret(posterior: "Posterior", space: SearchSpace) -> tuple[RegretRecord | None, dict[str, str]]:
    """Proven bound of the best result's regret, if the model knows lower bounds of the objective.

    Where a result refutes these there is none, and a remark that says so.
    """
    from fieldcraft.models.certified.regret import Refuted, regret_bound
    from fieldcraft.models.surrogate import BoundedBelow

    minorants = posterior.minorants if isinstance(posterior, BoundedBelow) else None
    try:
        found = None if minorants is None else regret_bound(minorants, space)
    except Refuted as error:
        return None, {"certificate": f"none: {error}"}
    if minorants is None or found is None:
        return None, {}
    proven = RegretRecord(
        lower=found.lower, regret=found.regret, best=minorants.best, status=found.status, nodes=found.nodes
    )
    return proven, {}


def _proven(certificate: "maximizer.Certificate", base: Origin, gain: float | None) -> dict[str, Any]:
    """A design's certificate for the ledger; a search that ended by its time limit is not reproducible."""
    kept = CertificateRecord(
        bound=certificate.bound,
        gap=certificate.gap,
        status=certificate.status,
        bound_of=certificate.bound_of,
        nodes=certificate.nodes,
        improvement=gain,
    )
    return {"certificate": kept, "reproducible": base.reproducible and certificate.status != "time_limit"}


def _asked(site: Site, iteration: int, q: int) -> tuple[np.ndarray, list[Origin]]:
    """Designs (q, d) of the campaign's rival, which predicts nothing, with their origins."""
    campaign, trials = site.campaign, site.ledger.summaries(site.name)
    seen = as_read(trials, standing(site.ledger.result_summaries(site.name)))
    data = observations(campaign, seen, None, [trial.actual for trial in infeasible(trials)])
    rng = stream(campaign.spec.seed, iteration, Use.ACQUIRE)
    X = campaign.algorithm.suggest(data, unseen(campaign.space, trials, seen), campaign.space, q, rng)
    origin = _origin(site, iteration, "model", trials, data.digest)
    return X, repeats_noted([origin] * q, X, campaign.space, seen)


def _predictions(outputs: Sequence[str], posterior: "Posterior", X: np.ndarray) -> list[dict[str, Any]]:
    """Entries of the origins of designs X (q, d): predicted mean and standard deviation of the objective, in its unit.

    Of several objectives also those of the others, and the probability of feasibility where constraints are unknown.
    """
    from fieldcraft.models.feasibility.constrained import about_objective, chances
    from fieldcraft.models.pareto.posterior import SeveralObjectives

    beliefs = about_objective(posterior)
    if not isinstance(beliefs, SeveralObjectives):
        return [{"mean": mean, "sd": sd} for mean, sd in _moments(posterior, X)]
    first, *others = (_moments(part, X) for part in beliefs.parts)
    feasible = chances(posterior, X)
    return [
        {
            "mean": mean,
            "sd": sd,
            "further": {
                name: PredictionRecord(mean=own[slot][0], sd=own[slot][1])
                for name, own in zip(outputs[1:], others, strict=True)
            },
            "feasible": None if feasible is None else float(feasible[slot]),
        }
        for slot, (mean, sd) in enumerate(first)
    ]


def _moments(posterior: "Posterior", X: np.ndarray) -> list[tuple[float, float]]:
    """Predicted mean and standard deviation of one objective at each of X (q, d), in its unit."""
    import torch

    with torch.no_grad():
        mean, variance = posterior.mean_var(torch.as_tensor(X))
    scaling = posterior.scaling
    means, sds = scaling.to_physical(mean.numpy()).tolist(), (scaling.sd * np.sqrt(variance.numpy())).tolist()
    return list(zip(means, sds, strict=True))


def _origin(
    site: Site,
    iteration: int,
    kind: str,
    trials: Sequence[TrialSummary],
    data_digest: str | None = None,
    product: Product | None = None,
) -> Origin:
    part, network = site.campaign.spec.algorithm, network_at(site.campaign, site.ledger)
    said = {} if network is None else {"network": in_words(network, Trained.of(product).metrics if product else {})}
    return Origin.model_validate(
        {
            "kind": kind,
            "algorithm": part.start.proposer.kind if kind == "initial" else part.in_words,
            "seed": site.campaign.spec.seed,
            "iteration": iteration,
            "slot": 0,
            "model": product.ref if product else None,
            "data_digest": data_digest,
            "collocation": Trained.of(product).collocation if product else None,
            "environment": site.campaign.environment,
            "remarks": said,
            "reproducible": not any(trial.state is TrialState.FAILED for trial in trials),
        }
    )


def _propose(site: Site, iteration: int, X: np.ndarray, origins: list[Origin]) -> tuple[Trial, ...]:
    designs = site.campaign.space.decode(X)
    for design in designs:
        site.campaign.space.check(design)
    proposals = [
        Proposal(
            design=design,
            origin=origin.model_copy(update={"slot": slot}),
            cost=site.campaign.cost(design, origin.level),
        )
        for slot, (design, origin) in enumerate(zip(designs, origins, strict=True))
    ]
    trials = site.ledger.propose(site.name, iteration, proposals, ACTOR)
    tell("proposed", trials=trials)
    return trials

"""Observations of a surrogate: the results that it learns from, or has seen, as arrays."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fieldcraft.flows.analysis.feasibility import is_infeasible
from fieldcraft.flows.analysis.incomplete import Incomplete
from fieldcraft.flows.analysis.learnt import counting, learnt_by
from fieldcraft.flows.analysis.noise import stated_sds
from fieldcraft.flows.products import Trained
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.fit.derived import composite_of
from fieldcraft.flows.wiring.fit.partial import partial_results
from fieldcraft.flows.wiring.levels.results import field_of, lower_results, of_target
from fieldcraft.flows.wiring.physics.emulators import emulators_of
from fieldcraft.flows.wiring.physics.equations import physics_at
from fieldcraft.flows.wiring.physics.gradients import gradients_of, uses_gradients
from fieldcraft.flows.wiring.physics.networks import NetworkFields
from fieldcraft.flows.wiring.physics.readings import sparse_fields_of, uses_readings
from fieldcraft.flows.wiring.physics.snapshots import snapshots_of, uses_fields
from fieldcraft.physics.collocation import CollocationPoints
from fieldcraft.storage.records import Product, Result, ResultSummary, Trial, TrialSummary, digest_of

if TYPE_CHECKING:
    from fieldcraft.models.observations import EarlierResults, Observations

T = TypeVar("T", Trial, TrialSummary)
R = TypeVar("R", Result, ResultSummary)


def successful(trials: Sequence[T]) -> list[T]:
    """Trials with a result of the target, without which no surrogate can learn, by number."""
    return [trial for trial in trials if trial.counts]


def as_read(trials: Sequence[TrialSummary], results: Mapping[str, ResultSummary]) -> list[TrialSummary]:
    """Trials with the outputs of these results, by number; a trial without a result, or retracted, is left out."""
    read = [(trial, results[trial.id]) for trial in trials if trial.id in results]
    return [
        trial._replace(outputs=result.outputs, ran=result.ran, field=result.field)
        for trial, result in read
        if result.verdict != "retraction"
    ]


def seen_by(product: Product, trials: Sequence[TrialSummary], results: Iterable[ResultSummary]) -> list[TrialSummary]:
    """Trials that a trained model saw, with the results that it saw, even if they were corrected since."""
    model = Trained.of(product)
    if model.seen is None and model.results is None:
        named = set(model.trials)
        return [trial for trial in trials if trial.id in named]
    return as_read(trials, learnt_by(model, results))


def saw_all(product: Product, trials: Sequence[TrialSummary], results: Iterable[ResultSummary]) -> bool:
    """True if a trained model saw every result that counts now, and every infeasible design."""
    model = Trained.of(product)
    if set(model.failed or ()) != {trial.id for trial in infeasible(trials)}:
        return False
    now = sorted(result.id for result in counting(results).values())
    if model.seen is None:
        return sorted(set(model.results or ())) == now
    return model.seen.digest == digest_of(now)


def data_of(
    campaign: Campaign,
    product: Product,
    seen: Sequence[Trial | TrialSummary],
    points: CollocationPoints | None,
    network: NetworkFields | None = None,
    earlier: "tuple[EarlierResults, ...]" = (),
    results: Sequence[ResultSummary] = (),
) -> "Observations":
    """Observations of a trained model: these trials, these collocation points and the infeasible designs of that time.

    A model of an earlier version, without constraints, has learnt the objective alone. One of a version that did not
    learn from the standard deviations of results (all of the campaign's are given) has none of them. Parts of results
    are those that it saw, even if the rest has come since.
    """
    model = Trained.of(product)
    until = math.inf if model.seen is None else model.seen.until
    sds = stated_sds(result for result in results if result.id <= until) if model.weighed else None
    failed = list((model.failed or {}).values())
    in_part = [
        Incomplete(result.trial, result.id, model.partial[result.trial]["design"], result.outputs, result.sd)
        for result in results
        if result.id == model.partial.get(result.trial, {}).get("result")
    ]
    data = observations(campaign, seen, points, failed, network, earlier, sds, in_part)
    return data.objective if model.failed is None else data


def infeasible(trials: Sequence[T]) -> list[T]:
    """Trials of the target without a result because their designs are infeasible, by number."""
    return [trial for trial in trials if is_infeasible(trial)]


def observations(
    campaign: Campaign,
    trials: Sequence[Trial | TrialSummary],
    points: CollocationPoints | None,
    failed: Sequence[Mapping[str, Any]] = (),
    network: NetworkFields | None = None,
    earlier: "tuple[EarlierResults, ...]" = (),
    sds: Mapping[str, Mapping[str, float]] | None = None,
    in_part: Sequence[Incomplete] = (),
) -> "Observations":
    """Observations from which a surrogate learns.

    Args:
        campaign: The campaign.
        trials: Its trials, at all levels; those without outputs are left out, and designs are as they were really run.
        points: Collocation points, in physical units; None for none.
        failed: Designs that are infeasible.
        network: Trained network of the campaign's emulator; None where the emulator is the problem's own.
        earlier: Results of the earlier campaigns with which it begins.
        sds: Standard deviations that results state, by trial and output, in the outputs' units. A result that states
            none has that of the problem's output. None to leave out both.
        in_part: Trials that are out of which some outputs are measured. With several objectives these teach the models
            of those outputs, unless models learn from the fields of whole results.

    Raises:
        ValueError: the campaign's emulator is a network, and none is given.
    """
    if network is None and campaign.spec.emulator is not None:
        raise ValueError(f"The emulator of {campaign.name} is a network that has not been trained: run a pass first.")
    from fieldcraft.models.observations import Aim, Observations

    done = of_target([trial for trial in trials if trial.outputs is not None])
    known = campaign.known_physics
    physics = None if points is None or known is None else physics_at(known, campaign.space, points)
    m, names = len(campaign.objective.outputs), (*campaign.objective.outputs, *campaign.objective.constraints)
    outputs = np.array([[(trial.outputs or {})[name] for name in names] for trial in done]).reshape(-1, len(names))
    designs, fields = [trial.actual for trial in done], [field_of(trial) for trial in done]
    X = campaign.space.encode(designs)
    snapshots = snapshots_of(campaign, fields, X, outputs, network) if uses_fields(campaign) else None
    return Observations(
        X=X,
        y=outputs[:, 0],
        constraints=outputs[:, m:],
        failed=campaign.space.encode(failed) if failed else np.empty((0, campaign.space.dimension)),
        maximize=campaign.objective.maximize,
        noise_sd=None if campaign.spec.noise is None or campaign.spec.noise.fitted else campaign.noise_sd,
        exact=not campaign.noisy,
        exact_constraints=not campaign.noisy_constraints,
        constraint_sds=campaign.constraint_sds,
        physics=physics,
        images=campaign.space.images,
        columns=campaign.space.columns,
        space=campaign.space,
        emulators=emulators_of(campaign.problem, campaign.space, network),
        snapshots=snapshots,
        gradients=gradients_of(campaign, designs, fields, outputs[:, 0].tolist()) if uses_gradients(campaign) else None,
        readings=sparse_fields_of(campaign, fields, X) if uses_readings(campaign) else None,
        aims=tuple(Aim(goal.maximize, goal.reference) for goal in campaign.objective.goals),
        further=outputs[:, 1:m],
        earlier=earlier,
        sds=np.empty((0, 0)) if sds is None else _sds(campaign, done, names, sds),
        composite=composite_of(campaign, done, sds),
        levels=tuple(level.cost for level in campaign.levels),
        lower=lower_results(campaign, trials, names, snapshots, network),
        partial=partial_results(campaign, in_part, names) if snapshots is None else None,
    )


def _sds(
    campaign: Campaign,
    trials: Sequence[Trial | TrialSummary],
    names: Sequence[str],
    stated: Mapping[str, Mapping[str, float]],
) -> np.ndarray:
    """Standard deviation of each result of these outputs, shape (n, outputs); NaN where none is known."""
    usual = {output.name: math.nan if output.sd is None else output.sd for output in campaign.problem.outputs}
    rows = [[stated.get(trial.id, {}).get(name, usual[name]) for name in names] for trial in trials]
    return np.array(rows, dtype=np.float64).reshape(-1, len(names))

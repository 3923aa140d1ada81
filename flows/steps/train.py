"""Step 5, train: fit a posterior to the completed trials and store it as a checkpoint; interrupted trainings resume.

The training is done in the pass or, where the operator's settings say so, by a flow run on another machine
(``flows.steps.remote_training``).
"""

import shutil
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fieldcraft.flows.analysis.incomplete import Incomplete, incomplete
from fieldcraft.flows.analysis.learnt import standing
from fieldcraft.flows.analysis.noise import stated_sds
from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.machinery.stopwatch import Clock
from fieldcraft.flows.products import Seen, Trained, Training
from fieldcraft.flows.rules.final_model import give_up, subject
from fieldcraft.flows.steps.collocate import points_of
from fieldcraft.flows.steps.leases import trainer_held
from fieldcraft.flows.steps.recommend import recommended
from fieldcraft.flows.steps.remote_training import Awaited, ask
from fieldcraft.flows.wiring.context import Site, site_of, unfinished
from fieldcraft.flows.wiring.environment import environment_of
from fieldcraft.flows.wiring.fit.partial import partial_remark, taught
from fieldcraft.flows.wiring.levels.results import of_target
from fieldcraft.flows.wiring.levels.tried import remarks_of
from fieldcraft.flows.wiring.observations import as_read, infeasible, observations
from fieldcraft.flows.wiring.physics.networks import accuracy, network_at
from fieldcraft.flows.wiring.physics.stated_noise import unused_sds
from fieldcraft.flows.wiring.tensors import as_dataset, as_state
from fieldcraft.flows.wiring.warm.kept import earlier_at
from fieldcraft.storage.fields import FieldError, load_group, save_group
from fieldcraft.storage.ledger import LedgerError
from fieldcraft.storage.records import FieldRef, Product, TrialSummary

if TYPE_CHECKING:
    import torch

    from fieldcraft.models.numerics.devices import Computing
    from fieldcraft.models.observations import Observations

SAVE_EVERY_S = 1.0  # an unfinished training loses about this much work; the numbers do not depend on it
SAVE_SHARE = 0.05  # of the time at most goes into saving
CURVE_POINTS = 200  # kept of a training curve, evenly thinned


@dataclass(frozen=True)
class Lesson:
    """Training data of an iteration's model.

    Args:
        data: The data in the surrogate's form.
        trials: The trials with outputs, with their designs as run, by number.
        seen: The results with these outputs.
        failed: Infeasible trials, by number.
        known: Trials that are out of which some outputs are in the data, by number.
    """

    data: "Observations"
    trials: Sequence[TrialSummary]
    seen: Seen
    failed: Sequence[TrialSummary]
    known: Sequence[Incomplete] = ()


@dataclass(frozen=True)
class Trainer:
    """The process that trains.

    Args:
        who: ``pass``, or the name of the flow run.
        fallback: Reason why a pass trains although the settings ask for a flow run.
    """

    who: str = "pass"
    fallback: str | None = None


def train(site: Site, iteration: int) -> Product | Awaited | None:
    """Fit the surrogate to all completed trials of earlier iterations and store its checkpoint, here or remotely.

    Returns:
        The model; the awaited training if it is remote; None for a rival, which has no model.
    """
    if site.campaign.spec.algorithm.surrogate is None:
        return None
    if (known := site.ledger.product(site.name, iteration, "train")) is not None:
        return known
    lesson = lesson_of(site, iteration)
    if site.campaign.settings.train is None:
        return _here(site, iteration, lesson, None)
    answer = ask(site, iteration, lesson.data.digest)
    if isinstance(answer, Awaited):
        tell("training elsewhere", iteration=iteration, what=answer.what, state=answer.state)
        return answer
    # The flow run may have ended well between the look at the ledger and the question.
    return site.ledger.product(site.name, iteration, "train") or _here(site, iteration, lesson, answer.reason)


def train_last(site: Site, iteration: int) -> Product | Awaited | None:
    """Train the final model of a campaign as ``train`` does; if the surrogate fails, record that and return None.

    The model would only recommend the best design, so the campaign does not wait for the surrogate to be mended. If a
    result is corrected meanwhile, the training is tried again.
    """
    of = subject(site.ledger, site.name)
    try:
        return train(site, iteration)
    except (FieldcraftError, LedgerError, FieldError, OSError):  # of the stores and the settings: a later pass repeats
        raise
    except Exception as error:  # the outermost edge of a surrogate, whatever it raises
        give_up(site, iteration, of, f"{type(error).__name__}: {error}")
        shutil.rmtree(site.work / unfinished(iteration), ignore_errors=True)
        return None


def train_outside(home: str, name: str, iteration: int, data_digest: str, who: str) -> Product | str:
    """Train a model in a process that makes no pass; passes find it in the ledger.

    The process writes under the trainer's lease, because the pass that asked for it has ended. A pass that stops
    waiting and trains the model itself takes that lease over, so that nothing that comes late is written. Both models
    would be the same: a model follows from the data, the seed's address, the device and the number of threads.

    Args:
        home: The stores' folder.
        name: Campaign.
        iteration: Iteration of the model.
        data_digest: Digest of the requested training data.
        who: Name of the trainer for the record.

    Returns:
        The model, or the reason in one line why there is none: nothing is written if the data have changed.

    Raises:
        storage.ledger.LeaseHeld: another process trains this campaign's model.
        storage.ledger.LeaseLost: a pass has stopped waiting.
        ValueError: the surrogate cannot be trained on these data.
    """
    ledger = site_of(home, name, None).ledger
    with trainer_held(ledger, name) as lease:
        site = site_of(home, name, lease.model_dump())
        if (known := site.ledger.product(name, iteration, "train")) is not None:
            return known
        lesson = lesson_of(site, iteration)
        if lesson.data.digest != data_digest:
            return f"the results are others since this was asked for (digest {lesson.data.digest[:12]})"
        model = _fitted(site, iteration, lesson, Trainer(who))
        if lesson_of(site, iteration).data.digest != data_digest:
            return "the results have changed during the training, and a pass asks again"
        return model.noted(site)


def lesson_of(site: Site, iteration: int) -> Lesson:
    """Training data of an iteration's model, from the ledger's present state."""
    results, trials = site.ledger.result_summaries(site.name), site.ledger.summaries(site.name)
    counting = standing(results)
    learnt, failed = as_read(trials, counting), infeasible(trials)
    network = network_at(site.campaign, site.ledger)
    ruled_out = [trial.actual for trial in failed]
    earlier, sds = earlier_at(site.campaign, site.ledger), stated_sds(results)
    parts = incomplete(site.ledger, site.name, trials) if site.campaign.objective.goals else []
    known = [each for each in parts if taught(site.campaign, each)]
    points = points_of(site, iteration)
    data = observations(site.campaign, learnt, points, ruled_out, network, earlier, sds, known)
    until = max((result.id for result in results), default=0)
    seen = Seen.of([counting[trial.id].id for trial in learnt], until)
    return Lesson(data, learnt, seen, failed, [] if data.partial is None else known)


def _here(site: Site, iteration: int, lesson: Lesson, fallback: str | None) -> Product:
    """Train within the pass.

    If another process may be training the model, the trainer's lease is taken, so that its writes are refused.
    """
    if fallback is None and site.ledger.trainer(site.name) is None:
        return _fitted(site, iteration, lesson, Trainer()).noted(site)
    if fallback is not None:
        tell("training here", iteration=iteration, reason=fallback)
    with trainer_held(site.ledger, site.name, break_lease=True):
        return _fitted(site, iteration, lesson, Trainer(fallback=fallback)).noted(site)


@dataclass(frozen=True)
class _Model:
    """A stored model that the ledger does not refer to yet."""

    iteration: int
    made: Trained
    reference: FieldRef
    unfinished: "Unfinished"

    def noted(self, site: Site) -> Product:
        """Record it in the ledger, unless the iteration has a model."""
        product = site.ledger.note(site.name, self.iteration, "train", self.made.payload(), self.reference)
        self.unfinished.forget()
        told = {"metrics": self.made.metrics, "seconds": self.made.seconds}
        tell("trained", campaign=site.name, iteration=self.iteration, trials=self.made.count, **told)
        return product


def _fitted(site: Site, iteration: int, lesson: Lesson, trainer: Trainer) -> _Model:
    """Fit the surrogate, resuming an interrupted training, and store the checkpoint."""
    from fieldcraft.models.numerics.devices import computing_on

    clock, settings, data = Clock(), site.campaign.settings, lesson.data
    with computing_on(settings.device, len(data)) as computing:
        partial = Unfinished(site.work / unfinished(iteration), data.digest, computing.kind)
        rng = stream(site.campaign.spec.seed, iteration, Use.TRAIN)
        posterior = site.campaign.algorithm.fit(data, rng, partial.load(), partial.report)
    reference = site.fields.write(f"{site.name}-model-{iteration}", as_dataset(posterior.state()))
    collocation = site.ledger.product(site.name, iteration, "collocate")
    points = collocation.reference if collocation else None
    surrogate, trained = site.campaign.spec.algorithm.surrogate, training_of(trainer, computing)
    spent = clock.passed
    made = Trained(
        surrogate=surrogate.model_dump(mode="json") if surrogate else None,
        data_digest=data.digest,
        seen=lesson.seen,
        failed={trial.id: dict(trial.actual) for trial in lesson.failed},
        collocation=points.digest if points else None,
        metrics={name: float(value) for name, value in {**posterior.metrics, **emulated(site, data)}.items()},
        curve=partial.curve[:: max(1, len(partial.curve) // CURVE_POINTS)],
        environment=environment_of(site.campaign.problem, site.campaign.settings.plugins),
        trained=trained,
        remarks={
            **remarks_of(site.campaign, posterior),
            **unused_sds(data, posterior.remarks),
            **partial_remark(site.campaign, lesson.known),
            **_remarks(trained),
        },
        weighed=True,
        partial={each.trial: {"result": each.result, "design": dict(each.design)} for each in lesson.known},
        recommended=None
        if site.campaign.objective.goals
        else recommended(
            posterior,
            data,
            of_target(lesson.trials),
            site.campaign.objective.constraints,
            exact=not site.campaign.noisy_constraints,
        ),
        seconds=spent["seconds"],
        cpu_seconds=spent["cpu_seconds"],
    )
    return _Model(iteration, made, reference, partial)


def emulated(site: Site, data: "Observations") -> dict[str, float]:
    """Loss of the network of a campaign's emulator, and its accuracy on these data; empty without one."""
    network = network_at(site.campaign, site.ledger)
    if network is None:
        return {}
    told = accuracy(network, site.campaign.problem, data.X, data.y)
    return {"emulator_loss": float(network.state["loss"]), **told}


def training_of(trainer: Trainer, computing: "Computing") -> Training:
    """Record of the machine and the process that trained a model just now."""
    return Training(
        by=trainer.who,
        host=socket.gethostname(),
        device=computing.device,
        threads=computing.threads,
        fallback=trainer.fallback,
    )


def _remarks(trained: Training) -> dict[str, str]:
    """Remarks on a remote training, or on one that should have been remote."""
    place = f"on {trained.host}, {trained.device}"
    if trained.fallback:
        return {"trained": f"in the pass {place}: {trained.fallback}"}
    return {} if trained.by == Trainer().who else {"trained": f"by {trained.by} {place}"}


class Unfinished:
    """The checkpoint of a training that may be interrupted.

    It is used again only for the same data and the same type of device. Two processes may use it at once, one of which
    may no longer write a model: files that vanish are no error.
    """

    def __init__(self, folder: Path, data_digest: str, device: str = "cpu") -> None:
        self.whole, self.data_digest = folder, data_digest
        self.folder = folder if device == "cpu" else folder / device
        self.next_save = time.monotonic() + SAVE_EVERY_S
        self.curve: list[dict[str, float]] = []

    def report(
        self, step: int, metrics: Mapping[str, float], checkpoint: "Callable[[], dict[str, torch.Tensor]]"
    ) -> None:
        """Append to the curve, and save the state at intervals."""
        self.curve.append({"step": step, **metrics})
        began = time.monotonic()
        if began < self.next_save:
            return
        dataset = as_dataset(checkpoint()).assign_attrs(data=self.data_digest, step=step, curve=self.curve)
        older = self._saved()
        # Steps repeat, after a restart and from one candidate of `auto` to the next; the curve only grows.
        save_group(self.folder / f"{len(self.curve):09d}", dataset)
        for path in older:
            shutil.rmtree(path, ignore_errors=True)
        ended = time.monotonic()
        self.next_save = ended + max(SAVE_EVERY_S, (ended - began) / SAVE_SHARE)

    def load(self) -> "dict[str, torch.Tensor] | None":
        """Load the latest sound state for these data, or None; delete damaged states and those of other data."""
        for path in reversed(self._saved()):
            try:
                dataset = load_group(path)
            except FieldError:  # damaged: even where it seems to be of a newer format
                shutil.rmtree(path, ignore_errors=True)
                continue
            if dataset.attrs["data"] == self.data_digest:
                self.curve = list(dataset.attrs["curve"])
                tell("training resumed", step=dataset.attrs["step"])
                return as_state(dataset)
            shutil.rmtree(path, ignore_errors=True)
        return None

    def forget(self) -> None:
        """Delete it: the finished model is stored."""
        shutil.rmtree(self.whole, ignore_errors=True)

    def _saved(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("[0-9]*") if path.is_dir())

"""Step 5, train: completed trials become a posterior, stored as a checkpoint; an interrupted training goes on.

It is done in the pass, or, where the operator's settings say so, by a flow run elsewhere
(``flows.steps.remote_training``).
"""

import shutil
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fieldcraft.flows.analysis.noise import noisy_constraints
from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.machinery.stopwatch import Clock
from fieldcraft.flows.products import Trained, Training
from fieldcraft.flows.rules.final_model import give_up, subject
from fieldcraft.flows.steps.collocate import points_of
from fieldcraft.flows.steps.leases import trainer_held
from fieldcraft.flows.steps.recommend import recommended
from fieldcraft.flows.steps.remote_training import Awaited, ask
from fieldcraft.flows.wiring.context import Site, site_of, unfinished
from fieldcraft.flows.wiring.environment import environment_of
from fieldcraft.flows.wiring.observations import as_read, infeasible, observations, standing
from fieldcraft.flows.wiring.tensors import as_dataset, as_state
from fieldcraft.storage.fields import FieldError, load_group, save_group
from fieldcraft.storage.ledger import LedgerError
from fieldcraft.storage.records import Brief, FieldRef, Product, Result

if TYPE_CHECKING:
    import torch

    from fieldcraft.models.observations import Observations

SAVE_EVERY_S = 1.0  # an unfinished training loses about this much work; the numbers do not depend on it
SAVE_SHARE = 0.05  # of the time at most goes into saving
CURVE_POINTS = 200  # kept of a training curve, evenly thinned


@dataclass(frozen=True)
class Lesson:
    """What the model of an iteration learns from.

    Args:
        data: As the surrogate sees it.
        trials: The trials with outputs, as they were really run, by number.
        results: The results that these outputs are, in that order.
        failed: Infeasible trials, by number.
    """

    data: "Observations"
    trials: Sequence[Brief]
    results: Sequence[Result]
    failed: Sequence[Brief]


@dataclass(frozen=True)
class Trainer:
    """Who trains.

    Args:
        who: ``pass``, or the flow run that does.
        fallback: Why a pass does it although the operator's settings say that a flow run should.
    """

    who: str = "pass"
    fallback: str | None = None


def train(site: Site, iteration: int) -> Product | Awaited | None:
    """Have the surrogate fitted to all completed trials of earlier iterations, and its checkpoint stored.

    Returns:
        The model; whom a later pass waits for, where it is trained elsewhere; None for a peer, which has none.
    """
    if site.campaign.algorithm.surrogate is None:
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
    """As ``train``, for the model that a campaign ends with; where the surrogate fails, that is noted, and None comes.

    It would only have said which design is best, so the campaign does not wait for it to be mended. A reading that was
    corrected meanwhile is another subject, and trained on again.
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
    """Train a model in a process that makes no pass, for the passes to find in the ledger.

    It writes under the trainer's lease, not under that of the pass that asked, which has ended: so a pass that stops
    waiting and trains itself takes that lease over, and nothing that comes late is written. What is written would be
    the same: the model follows from the data, the seed's address, the device and the number of threads.

    Args:
        home: The stores' folder.
        name: Campaign.
        iteration: Of the model.
        data_digest: What the model was asked to be trained on.
        who: Whatever trains, as the record shall name it.

    Returns:
        The model, or in one line why there is none: nothing is written of other data than was asked for.

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
            return f"the readings are others since this was asked for (digest {lesson.data.digest[:12]})"
        model = _fitted(site, iteration, lesson, Trainer(who))
        if lesson_of(site, iteration).data.digest != data_digest:
            return "the readings have changed during the training, and a pass asks again"
        return model.noted(site)


def lesson_of(site: Site, iteration: int) -> Lesson:
    """What the ledger says now that the model of an iteration learns from."""
    results, trials = standing(site.ledger.readings(site.name)), site.ledger.briefs(site.name)
    seen, failed = as_read(trials, results), infeasible(trials)
    data = observations(site.campaign, seen, points_of(site, iteration), [trial.actual for trial in failed])
    return Lesson(data, seen, [results[trial.id] for trial in seen], failed)


def _here(site: Site, iteration: int, lesson: Lesson, fallback: str | None) -> Product:
    """Train within the pass; whoever still trains elsewhere is fenced off, and whoever begins later gives way."""
    if fallback is None and site.ledger.trainer(site.name) is None:
        return _fitted(site, iteration, lesson, Trainer()).noted(site)
    if fallback is not None:
        tell("training here", iteration=iteration, reason=fallback)
    with trainer_held(site.ledger, site.name, break_lease=True):
        return _fitted(site, iteration, lesson, Trainer(fallback=fallback)).noted(site)


@dataclass(frozen=True)
class _Model:
    """A model that is stored and that the ledger does not mention yet."""

    iteration: int
    made: Trained
    reference: FieldRef
    unfinished: "_Unfinished"

    def noted(self, site: Site) -> Product:
        """Write it down, unless the iteration has one."""
        product = site.ledger.note(site.name, self.iteration, "train", self.made.payload(), self.reference)
        self.unfinished.forget()
        told = {"metrics": self.made.metrics, "seconds": self.made.seconds}
        tell("trained", iteration=self.iteration, trials=len(self.made.trials), **told)
        return product


def _fitted(site: Site, iteration: int, lesson: Lesson, trainer: Trainer) -> _Model:
    """Fit the surrogate, from where an interrupted training was, and store the checkpoint."""
    from fieldcraft.models.numerics.devices import computing_on

    clock, settings, data = Clock(), site.campaign.settings, lesson.data
    with computing_on(settings.device) as computing:
        partial = _Unfinished(site.work / unfinished(iteration), data.digest, computing.kind)
        rng = stream(site.campaign.spec.seed, iteration, Use.TRAIN)
        posterior = site.campaign.algorithm.fit(data, rng, partial.load(), partial.report)
    reference = site.fields.write(f"{site.name}-model-{iteration}", as_dataset(posterior.state()))
    collocation = site.ledger.product(site.name, iteration, "collocate")
    points = collocation.reference if collocation else None
    surrogate, trained = site.campaign.spec.algorithm.surrogate, _trained(trainer, computing.device)
    made = Trained(
        surrogate=surrogate.model_dump(mode="json") if surrogate else None,
        data_digest=data.digest,
        trials=[result.trial for result in lesson.results],
        results=[result.id for result in lesson.results],
        failed={trial.id: dict(trial.actual) for trial in lesson.failed},
        collocation=points.digest if points else None,
        metrics={name: float(value) for name, value in posterior.metrics.items()},
        curve=partial.curve[:: max(1, len(partial.curve) // CURVE_POINTS)],
        environment=environment_of(site.campaign.problem, site.campaign.settings.plugins),
        trained=trained,
        remarks={**posterior.remarks, **_remarks(trained)},
        recommended=recommended(
            posterior,
            data,
            lesson.trials,
            site.campaign.objective.constraints,
            exact=not noisy_constraints(site.campaign.data, people=site.campaign.dispatcher.by_people),
        ),
        **clock.passed,
    )
    return _Model(iteration, made, reference, partial)


def _trained(trainer: Trainer, device: str) -> Training:
    """Where and by whom a model was trained, just now and here."""
    import torch

    return Training(
        by=trainer.who,
        host=socket.gethostname(),
        device=device,
        threads=torch.get_num_threads(),
        fallback=trainer.fallback,
    )


def _remarks(trained: Training) -> dict[str, str]:
    """What is worth knowing of a training that was, or should have been, elsewhere."""
    place = f"on {trained.host}, {trained.device}"
    if trained.fallback:
        return {"trained": f"in the pass {place}: {trained.fallback}"}
    return {} if trained.by == Trainer().who else {"trained": f"by {trained.by} {place}"}


class _Unfinished:
    """The checkpoint of a training that may be interrupted: kept for the same data and the same type of device only.

    Two processes may meet here, one of which has lost its right to write a model: files that go are no error.
    """

    def __init__(self, folder: Path, data_digest: str, device: str = "cpu") -> None:
        self.whole, self.data_digest = folder, data_digest
        self.folder = folder if device == "cpu" else folder / device
        self.next_save = time.monotonic() + SAVE_EVERY_S
        self.curve: list[dict[str, float]] = []

    def report(
        self, step: int, metrics: Mapping[str, float], checkpoint: "Callable[[], dict[str, torch.Tensor]]"
    ) -> None:
        """Keep the curve, and the state now and then."""
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
        """The latest sound state for these data; None to begin anew. Damaged ones and those of other data go."""
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

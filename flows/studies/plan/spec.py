"""The study file as data: problems, algorithms, seeds, and the campaign of each cell."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from fieldcraft.flows.errors import Faults, InputError
from fieldcraft.flows.files.yaml_data import Page, read_page
from fieldcraft.flows.spec.base import (
    LABEL,
    NAME,
    TITLE,
    Batch,
    Finite,
    Part,
    Trials,
    at_most,
    faults_of,
    out_of_reach,
)
from fieldcraft.flows.spec.campaign_file import Budget, Component, Dispatch, Noise
from fieldcraft.flows.text import suggestion
from fieldcraft.models.named_algorithm import MIDDLE_FIRST

Label = Annotated[str, Field(pattern=LABEL)]
Metric = Literal["regret_and_violation", "feasible_regret", "cumulative_regret", "cumulative_violation"]
Seeds = Annotated[int, Field(ge=1, le=1000, strict=True)]
_WORDS = ("surrogate", "acquisition", "maximizer", "peer")
_LONGEST = 60  # characters of a campaign's name
_MOST_CELLS = 100_000  # each has a folder


class StudyStart(Part):
    """The designs before any model, the same for every algorithm that has no sequence of its own.

    Attributes:
        n: Number of designs.
        proposer: Sequence they are taken from. When left out it is the algorithm's, for most of them Sobol's; but none
            begins in the middle of the space, where many test functions have their optimum.
    """

    n: Trials
    proposer: Component | None = None


class StudyProblem(Part):
    """One problem of a study: the parts of a campaign file beside its algorithm.

    Attributes:
        label: Name of the problem in the study; its kind when left out.
        problem: The problem to optimise.
        simulator: The simulator of designs.
        sense: ``maximize`` or ``minimize``, for the objective; left out where the problem marks several
            objectives, whose hypervolume is then compared.
        space: Narrower bounds of the problem's variables.
        noise: Noise added to each result of the objective.
        start: The designs before any model.
        budget: Budget of each campaign.
        batch: Designs per iteration after the start.
        dispatcher: Dispatcher of the simulations: within the pass, unless they take long or must not be repeated.
        seeds: Number of campaigns of each algorithm; the study's number when left out.
        algorithms: Labels of the algorithms that run on it; all of them when left out.
    """

    label: Label | None = None
    problem: Component
    simulator: Component = Component(kind="function")
    sense: Literal["maximize", "minimize"] | None = None
    space: dict[str, tuple[Finite, Finite]] = Field(default_factory=dict)
    noise: Noise | None = None
    start: StudyStart
    budget: Budget
    batch: Batch = 1
    dispatcher: Dispatch = Dispatch(kind="inline", parallel=1000)
    seeds: Seeds | None = None
    algorithms: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """Its label, or its kind if it has none."""
        return self.label or self.problem.kind


class StudyAlgorithm(BaseModel):
    """One algorithm of a study: a campaign file's ``algorithm`` section, named or in parts, without a start.

    Attributes:
        label: Name of the algorithm in the study; its kind when left out.
        kind: Name of a named algorithm, if it is one.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    label: Label | None = None
    kind: str | None = None

    @model_validator(mode="after")
    def _complete_and_without_start(self) -> Self:
        given = self.model_extra or {}
        if self.label is None and self.kind is None:
            raise ValueError("neither a label nor a kind: give an algorithm in words a label")
        if "named" in given:
            raise ValueError("named is what the program notes beside expanded words: give its name as kind instead")
        if "start" in given:
            raise ValueError("start belongs to the problems of a study, so that all algorithms begin alike: move it")
        if self.kind is None and not any(given.get(word) for word in _WORDS):
            raise ValueError(
                "a label and nothing else: give a kind, or surrogate, acquisition and maximizer, or a rival (peer)"
            )
        return self

    @property
    def name(self) -> str:
        """Its label, or its kind if it has none."""
        return self.label or str(self.kind)


class Limit(Part):
    """Limit after which a study begins no more cells.

    Attributes:
        core_hours: CPU time of all its campaigns together, over all runs, in hours.
    """

    core_hours: Annotated[float, Field(gt=0), at_most(1e7, "that is a thousand years of a core")]


_Given = TypeVar("_Given", bound=tuple[Any, ...])


def _some(given: _Given) -> _Given:
    """Accept at least one item.

    Called after each item is valid, so that an invalid one is not reported as missing too.
    """
    if not given:
        raise ValueError("is empty. Give at least one")
    return given


class StudySpec(Part):
    """A complete study.

    Attributes:
        name: Name of the study and its folder.
        problems: The problems.
        algorithms: The algorithms that are compared.
        seeds: Campaigns of each algorithm on each problem, with the seeds 1, 2, ...
        reference: Label of the algorithm that the others are tested against; the first one when left out.
        metric: Metric for ranks and tests on problems with constraints (defined in
            ``flows.studies.scoring.violation``); regret_and_violation when left out. On other problems it is the
            regret.
        limit: Limit of the study; none when left out.
        experiment: Name of the MLflow experiment; the study's when left out.
    """

    name: str = Field(pattern=NAME)
    problems: Annotated[tuple[StudyProblem, ...], AfterValidator(_some)]
    algorithms: Annotated[tuple[StudyAlgorithm, ...], AfterValidator(_some)]
    seeds: Seeds = 5
    reference: str | None = None
    metric: Metric | None = None
    limit: Limit | None = None
    experiment: str | None = Field(default=None, pattern=TITLE)

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        for what, names in (("problem", self.problem_names), ("algorithm", self.algorithm_names)):
            if twice := [name for name, count in Counter(names).items() if count > 1]:
                raise ValueError(f"two {what}s are labelled {twice[0]!r}: give each its own label")
        for problem in self.problems:
            for name in problem.algorithms or ():
                self._require(name, f"problems.{problem.name}.algorithms")
            if problem.algorithms == ():
                raise ValueError(f"problems.{problem.name}.algorithms is empty: name some, or leave it out for all")
        if self.reference is not None:
            self._require(self.reference, "reference")
        count = sum((problem.seeds or self.seeds) * len(self.on(problem)) for problem in self.problems)
        if count > _MOST_CELLS:
            raise ValueError(f"the study has {count:,} campaigns, and may have {_MOST_CELLS:,}: leave out some")
        for cell in cells_of(self):
            if len(cell.name) > _LONGEST:
                raise ValueError(f"{cell.name!r} is over {_LONGEST} characters, as a campaign's name: shorten a label")
        return self

    def _require(self, name: str, where: str) -> None:
        known = self.algorithm_names
        if name not in known:
            hint = suggestion(name, known)
            raise ValueError(f"{where}: no algorithm is labelled {name!r}.{hint} Known: {', '.join(known)}")

    @property
    def problem_names(self) -> list[str]:
        """Labels of the problems, in the file's order."""
        return [problem.name for problem in self.problems]

    @property
    def algorithm_names(self) -> list[str]:
        """Labels of the algorithms, in the file's order."""
        return [algorithm.name for algorithm in self.algorithms]

    @property
    def tested(self) -> str:
        """Label of the algorithm that the others are tested against."""
        return self.reference or self.algorithm_names[0]

    @property
    def constrained_metric(self) -> Metric:
        """Metric that compares algorithms on problems with constraints."""
        return self.metric or "regret_and_violation"

    def on(self, problem: StudyProblem) -> list[StudyAlgorithm]:
        """The algorithms that run on a problem."""
        return [each for each in self.algorithms if problem.algorithms is None or each.name in problem.algorithms]


@dataclass(frozen=True)
class Cell:
    """One campaign of a study.

    Args:
        problem: Its problem.
        algorithm: Its algorithm.
        seed: Its seed.
    """

    problem: StudyProblem
    algorithm: StudyAlgorithm
    seed: int

    @property
    def name(self) -> str:
        """Name of the campaign, and of its folder."""
        return f"{self.problem.name}-{self.algorithm.name}-{self.seed}"

    @property
    def campaign(self) -> dict[str, Any]:
        """The campaign file as data."""
        of = self.problem.model_dump(
            mode="json",
            include={"problem", "simulator", "sense", "space", "noise", "budget", "batch", "dispatcher"},
            exclude_none=True,
        )
        words = self.algorithm.model_dump(mode="json", exclude={"label"}, exclude_none=True)
        start = self.problem.start.model_dump(mode="json", exclude_none=True)
        if self.algorithm.kind in MIDDLE_FIRST:
            start.setdefault("proposer", {"kind": "sobol"})
        return {"name": self.name, "seed": self.seed, **of, "algorithm": {**words, "start": start}}

    def began_as(self, known: Mapping[str, Any]) -> bool:
        """True if data is this campaign, perhaps as versions wrote it before any algorithm began in the middle."""
        now: dict[str, Any] = json.loads(json.dumps(self.campaign))
        start = now["algorithm"]["start"]
        if self.problem.start.proposer is None and known != now:
            start.pop("proposer", None)
        return known == now


def cells_of(study: StudySpec) -> list[Cell]:
    """All cells in the order in which they run: every problem's first seed, then every second one.

    After an early stop every seed that was begun, except the last one, is complete.
    """
    return list(_cells(study))


def _cells(study: StudySpec) -> Iterator[Cell]:
    counts = [problem.seeds or study.seeds for problem in study.problems]
    for seed in range(1, max(counts) + 1):
        for problem, count in zip(study.problems, counts, strict=True):
            if seed <= count:
                yield from (Cell(problem, algorithm, seed) for algorithm in study.on(problem))


def read_study(path: Path) -> tuple[StudySpec, Page]:
    """The study of a file, and the file as plain data (``flows.studies.running`` validates its campaigns).

    Raises:
        InputError: the file cannot be read, is not plain YAML data, or does not describe a study.
    """
    page = read_page(path, "study file", "studies/quick.yaml")
    with page.told():
        return study_of(page.data), page


def study_of(data: Mapping[str, Any]) -> StudySpec:
    """The study that data describe.

    Raises:
        InputError: they describe none.
    """
    if {"problem", "algorithm"} <= data.keys():
        raise InputError("problem: is a key of a campaign, and this is no study. Run it with fieldcraft run.")
    faults, spec = Faults(), None
    faults.found += out_of_reach(data, "algorithms")
    with faults.elsewhere():
        try:
            spec = StudySpec.model_validate(data)
        except ValidationError as error:
            raise InputError(*faults_of(error, "", _known_keys, data)) from None
    faults.tell()
    assert spec is not None  # it has no fault
    return spec


def _known_keys(place: Sequence[int | str]) -> list[str]:
    """The keys that exist in a place of the file."""
    parts: dict[str, type[BaseModel]] = {
        "problems": StudyProblem,
        "algorithms": StudyAlgorithm,
        "limit": Limit,
        "start": StudyStart,
        "noise": Noise,
        "budget": Budget,
        "dispatcher": Dispatch,
    }
    model: type[BaseModel] = StudySpec
    for part in place:
        model = parts.get(str(part), model)
    return list(model.model_fields)

"""Claims of papers as data: ``studies/claims/papers.yaml``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.yaml_data import read_page
from fieldcraft.flows.spec.base import Part, faults_of


class Compared(Part):
    """Campaigns by which a claim is judged.

    Attributes:
        study: Name of the study, whose results are ``studies/results/NAME.json``.
        methods: Labels of the method's variants, each judged by itself.
        baselines: Labels of what the paper compares with.
        problems: Labels of the problems.
    """

    study: str
    methods: tuple[str, ...] = Field(min_length=1)
    baselines: tuple[str, ...] = Field(min_length=1)
    problems: tuple[str, ...] = Field(min_length=1)


class Solvers(Part):
    """Rows of ``benchmarks/results/certified.json`` by which a claim on solvers is judged.

    Attributes:
        method: The method's row.
        baselines: Rows of what the paper compares with.
        dimensions: Numbers of variables that count.
    """

    method: str
    baselines: tuple[str, ...] = Field(min_length=1)
    dimensions: tuple[int, ...] = Field(min_length=1)


class Grown(Part):
    """Rows of ``benchmarks/results/growth.json`` by which a claim on time or memory is judged.

    Attributes:
        measure: What is counted, the least being the best.
        methods: The method's variants, each judged by itself.
        baselines: What the paper compares with.
    """

    measure: Literal["seconds", "megabytes"]
    methods: tuple[str, ...] = Field(min_length=1)
    baselines: tuple[str, ...] = Field(min_length=1)


class Reached(Part):
    """Cells of ``benchmarks/results/coco.json`` by which a claim on COCO's functions is judged.

    Attributes:
        methods: The method's variants, each judged by itself.
        baselines: What the paper compares with.
        dimensions: Numbers of variables that count.
    """

    methods: tuple[str, ...] = Field(min_length=1)
    baselines: tuple[str, ...] = Field(min_length=1)
    dimensions: tuple[int, ...] = Field(min_length=1)


class Tampered(Part):
    """Rows of ``benchmarks/results/tampering.json`` by which a claim on changed classifiers is judged.

    Attributes:
        study: Name of the study whose campaigns found the images.
        methods: Labels of the method's variants, each judged by itself.
        baselines: Labels of what the paper compares with.
        images: Number of images by which a classifier is told.
    """

    study: str
    methods: tuple[str, ...] = Field(min_length=1)
    baselines: tuple[str, ...] = Field(min_length=1)
    images: int = Field(ge=1, le=10)


class Claim(Part):
    """A claim of a paper: how it is judged, or what is lacking to judge it.

    Attributes:
        stated: What the paper says.
        where: Its table, figure or section.
        compared: The campaigns that judge it.
        solvers: The optima of acquisitions that judge it.
        grown: The time or memory of proposals that judges it.
        reached: The targets reached on COCO's functions that judge it.
        tampered: The changed classifiers that images tell, which judge it.
        lacks: Why it is not measured, or what that would take.
        differs: In what the measurement is not the paper's.
        because: Why it does not hold, or holds in part only.
    """

    stated: str
    where: str
    compared: Compared | None = None
    solvers: Solvers | None = None
    grown: Grown | None = None
    reached: Reached | None = None
    tampered: Tampered | None = None
    lacks: str | None = None
    differs: str | None = None
    because: str | None = None

    @model_validator(mode="after")
    def _judged_in_one_way(self) -> Self:
        ways = self.compared, self.solvers, self.grown, self.reached, self.tampered, self.lacks
        if sum(each is not None for each in ways) != 1:
            raise ValueError("give exactly one of compared, solvers, grown, reached, tampered and lacks")
        return self


class Paper(Part):
    """A paper and its claims.

    Attributes:
        title: Short name.
        source: The paper.
        claims: What it claims.
    """

    title: str
    source: str
    claims: tuple[Claim, ...]


class Erratum(Part):
    """Something that a paper prints and that does not hold.

    Attributes:
        where: The paper and the place.
        printed: What it prints.
        holds: What holds.
        check: The test that shows it, ``FILE::NAME``; None where the statement was judged by reading alone.
    """

    where: str
    printed: str
    holds: str
    check: str | None = None


class Reason(Part):
    """Reason why ``auto`` is behind a rival on a problem of a study.

    Attributes:
        study: Name of the study.
        problem: Label of the problem.
        why: The reason.
    """

    study: str
    problem: str
    why: str


class Claims(Part):
    """All papers with their claims and errata, and why ``auto`` is behind where it is."""

    papers: tuple[Paper, ...]
    errata: tuple[Erratum, ...]
    behind: tuple[Reason, ...] = ()


def read_claims(path: Path) -> Claims:
    """The claims of a file.

    Raises:
        InputError: the file cannot be read, is not plain YAML data, or does not hold claims.
    """
    page = read_page(path, "file of claims", "studies/claims/papers.yaml")
    with page.told():
        return _claims(page.data)


def _claims(data: Mapping[str, Any]) -> Claims:
    try:
        return Claims.model_validate(data)
    except ValidationError as error:
        raise InputError(*faults_of(error, "", lambda place: list(Claims.model_fields), data)) from None

"""docs/results.md is what the stored results say, and every claim names what exists."""

import json
import re
from itertools import product

import pytest
import yaml
from shown import ROOT, text_of

from fieldcraft.flows.studies.page.results_page import page
from fieldcraft.flows.studies.plan.claims import read_claims
from fieldcraft.flows.studies.plan.spec import read_study

CLAIMS = read_claims(ROOT / "studies" / "claims" / "papers.yaml")


@pytest.fixture(scope="module")
def made():
    return page(ROOT)


def test_the_page_is_the_one_that_the_stored_results_make(made):
    assert text_of("docs/results.md") == made


def test_every_claim_names_problems_and_algorithms_of_its_study():
    judged = [claim.compared for paper in CLAIMS.papers for claim in paper.claims if claim.compared]
    assert len(judged) > 10
    for about in judged:
        spec, _ = read_study(ROOT / "studies" / f"{about.study}.yaml")
        names = {problem.name: {each.name for each in spec.on(problem)} for problem in spec.problems}
        assert {*about.problems} <= names.keys(), about
        known = set.union(*(names[problem] for problem in about.problems))
        assert {*about.methods, *about.baselines} <= known, about


def test_every_claim_on_growth_names_methods_that_were_measured():
    rows = json.loads(text_of("benchmarks/results/growth.json"))["rows"]
    sizes = {n: {row["method"] for row in rows if row["trials"] == n} for n in {row["trials"] for row in rows}}
    judged = [claim.grown for paper in CLAIMS.papers for claim in paper.claims if claim.grown]
    assert len(judged) == 2
    for about in judged:
        assert all({*about.methods, *about.baselines} <= measured for measured in sizes.values()), about


def test_every_claim_on_changed_classifiers_names_methods_whose_images_were_tried_on_ten_seeds():
    rows = json.loads(text_of("benchmarks/results/tampering.json"))["rows"]
    judged = [claim.tampered for paper in CLAIMS.papers for claim in paper.claims if claim.tampered]
    assert len(judged) == 2
    for about in judged:
        spec, _ = read_study(ROOT / "studies" / f"{about.study}.yaml")
        for name in (*about.methods, *about.baselines):
            seeds = [row["seed"] for row in rows if (row["study"], row["method"]) == (about.study, name)]
            assert sorted(seeds) == [*range(1, spec.seeds + 1)], name


def test_every_claim_on_targets_names_algorithms_that_were_run_on_every_function():
    cells = json.loads(text_of("benchmarks/results/coco.json"))
    judged = [claim.reached for paper in CLAIMS.papers for claim in paper.claims if claim.reached]
    assert len(judged) == 1
    for about in judged:
        for name, d in product((*about.methods, *about.baselines), about.dimensions):
            assert {f"{name} {d} {function} 0" for function in range(1, 25)} <= cells.keys(), (name, d)


def test_every_reason_why_auto_is_behind_is_shown(made):
    for each in CLAIMS.behind:
        assert re.search(rf"(?m)^\| {each.study} \| {each.problem} \|.*\| {re.escape(each.why)} \|$", made), each
    assert ("Where `auto` is behind the best" in made) != ("`auto` is nowhere behind the best" in made)


def test_every_erratum_that_names_a_check_has_that_test():
    named = [erratum.check for erratum in CLAIMS.errata if erratum.check]
    assert len(named) > 8
    for check in named:
        file, _, name = check.partition("::")
        assert re.search(rf"(?m)^def {name}\(", text_of(file)), check


def test_what_does_not_hold_says_why(made):
    for part in re.split(r"(?m)^### ", made)[1:]:
        body = part.split("\n## ")[0]
        if "does not hold" in body or "holds in part" in body:
            assert "\nWhy: " in body, body.splitlines()[0]


def test_the_studies_of_the_papers_run_the_papers_options_beside_ours():
    for name in ("neural-bo", "neural-cbo", "pinn-bo", "sto-bnts"):
        study = yaml.safe_load(text_of(f"studies/{name}.yaml"))
        assert "paper" in {each.get("preset") for each in study["algorithms"]}, name

"""Fields in campaigns whose problem states no equation: who learns from them, and what is said of it."""

import json
import shutil

import bars
import numpy as np
import pytest
import torch
import xarray as xr
import yaml
from small import SEARCH, finish

import fieldcraft as fc
from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.run import pause
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse, read_campaign
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.flows.wiring.physics.snapshots import _stored, snapshots_of
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.field_pod import FieldPod
from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.parametric.statement import Field, Fields
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger

PROBLEM = '''
"""A profile that is to be like a wanted one; what makes it so is not known."""

from dataclasses import dataclass

import numpy as np

from fieldcraft import Axis, Continuous, Domain, Field, Fields, Output, Problem, SearchSpace


@dataclass(frozen=True)
class Profile(Problem):
    @property
    def space(self):
        return SearchSpace((Continuous("a", 0.0, 1.0, "V"), Continuous("b", 0.0, 1.0, "V")))

    @property
    def outputs(self):
        return (Output("misfit", "K^2"),)

    @property
    def fields(self):
        return Fields(Domain((Axis("s", 0.0, 1.0, "m"),)), (Field("rise", "K"),))

    def functional(self, fields, axes, designs):
        wanted = 0.3 + 0.4 * np.sin(np.pi * axes["s"])
        return ((fields["rise"] - wanted) ** 2).mean(axis=1, keepdims=True)
'''
MEAN = (
    PROBLEM.replace("class Profile", "class Mean")
    .replace('Output("misfit", "K^2")', 'Output("mean", "K")')
    .replace('((fields["rise"] - wanted) ** 2).mean', 'fields["rise"].mean')
)
PICTURED = (
    PROBLEM.replace("class Profile", "class Pictured")
    .replace("SearchSpace((", 'SearchSpace((Image("p", (2, 2), 0.0, 1.0), ')
    .replace("import numpy as np\n", "import numpy as np\n\nfrom fieldcraft.physics.images import Image\n")
)
COUNTED = (
    PROBLEM.replace("class Profile", "class Counted")
    .replace("SearchSpace((", 'SearchSpace((Integer("n", 1, 3), Categorical("glue", ("A", "B")), ')
    .replace("Continuous, Domain", "Categorical, Continuous, Integer, Domain")
    .replace("wanted = 0.3", 'wanted = 0.1 * designs["n"] + np.where(designs["glue"] == "B", 0.1, 0.0)')
)
MUTE = PROBLEM.replace("class Profile", "class Mute").partition("    def functional")[0]
SIMULATOR = '''
"""An instrument that gives a profile."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from fieldcraft import Simulator


@dataclass(frozen=True)
class Profile(Simulator):
    cells: int = 40

    idempotent = True

    def run(self, problem, design, rng):
        s = (np.arange(self.cells) + 0.5) / self.cells
        a, b = design["a"], design["b"]
        rise = np.sin(2 * a) * np.sin(np.pi * s) + a * b * np.exp(-s) + (b - 0.4) ** 2 * s
        return xr.Dataset({"rise": ("s", rise, {"units": "K"})}, {"s": ("s", s, {"units": "m"})})
'''
CAMPAIGN = {
    "name": "profile",
    "seed": 4,
    "sense": "minimize",
    "problem": {"kind": "profile"},
    "simulator": {"kind": "profile"},
    "algorithm": {
        "start": {"n": 5},
        "surrogate": {"kind": "field_pod"},
        "acquisition": {"kind": "log_ei"},
        "maximizer": SEARCH,
    },
    "dispatcher": {"kind": "inline"},
    "budget": {"trials": 8},
}


def rise(a, b, cells=40):
    s = (np.arange(cells) + 0.5) / cells
    values = np.sin(2 * a) * np.sin(np.pi * s) + a * b * np.exp(-s) + (b - 0.4) ** 2 * s
    return xr.Dataset({"rise": ("s", values, {"units": "K"})}, {"s": ("s", s, {"units": "m"})})


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    folder = tmp_path / "plugins"
    programs = {"problems/profile": PROBLEM, "problems/mean": MEAN, "problems/counted": COUNTED, "problems/mute": MUTE}
    programs["problems/pictured"] = PICTURED
    for name, program in {**programs, "simulators/profile": SIMULATOR}.items():
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(program)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(folder))
    return folder


def file_of(tmp_path, **changes):
    file = tmp_path / f"{changes.get('name', 'profile')}.yaml"
    file.write_text(yaml.safe_dump({**CAMPAIGN, **changes}))
    return file


def settings_of(home, plugins):
    return settings_from({"FIELDCRAFT_PLUGINS": str(plugins)}, home)


def wired(home, plugins, **changes):
    return wire(parse({**CAMPAIGN, **changes}, "profile.yaml"), settings_of(home, plugins))


def trials_of(home, plugins, name="profile"):
    return open_ledger(settings_of(home, plugins).ledger).trials(name)


def noted(file, home, capsys):
    assert main(["check", str(file), "--json", "--home", str(home)]) == 0
    return json.loads(capsys.readouterr().out)["note"]


def test_a_campaign_learns_from_fields_without_an_equation(tmp_path, plugins):
    home = tmp_path / "home"
    finish(file_of(tmp_path), home, plugins)
    trials = trials_of(home, plugins)
    assert (
        trials[-1]
        .origin.remarks["fields"]
        .startswith("7 fields in 3 modes; in the modes of the others three in four of them ")
    )
    data = observations(wired(home, plugins), trials, None)
    assert data.snapshots.predict is None and data.snapshots.values.shape == (8, 1, 40)
    np.testing.assert_allclose(data.snapshots.outputs(data.snapshots.values, data.X), data.y, rtol=1e-9)
    assert max(data.y[5:]) < min(data.y[:5])
    others = observations(wired(home, plugins, algorithm={"kind": "gp_ei"}), trials, None)
    assert others.snapshots is None


def test_fields_teach_where_variables_are_whole_numbers_and_choices(tmp_path, plugins):
    home, rng = tmp_path / "home", np.random.default_rng(3)
    words = {**CAMPAIGN["algorithm"], "start": {"n": 14}}
    changes = {"name": "counted", "problem": {"kind": "counted"}, "algorithm": words, "budget": {"trials": 15}}
    finish(file_of(tmp_path, **changes), home, plugins)
    campaign = wired(home, plugins, **changes)
    data = observations(campaign, trials_of(home, plugins, "counted"), None)
    np.testing.assert_allclose(data.snapshots.outputs(data.snapshots.values, data.X), data.y, rtol=1e-9)
    s = (np.arange(40) + 0.5) / 40

    def misfit(n, glue, a, b):
        wanted = 0.1 * n + (0.1 if glue == "B" else 0.0) + 0.4 * np.sin(np.pi * s)
        return float(((rise(a, b)["rise"].to_numpy() - wanted) ** 2).mean())

    X = campaign.space.sample(200, rng)
    truth = np.array([misfit(**design) for design in campaign.space.decode(X)])

    def error(surrogate):
        found = surrogate.fit(data, rng, None, no_report)
        with torch.no_grad():
            return np.sqrt(
                ((found.scaling.to_physical(found.mean_var(torch.tensor(X))[0].numpy()) - truth) ** 2).mean()
            )

    assert error(FieldPod()) < 0.5 * error(ExactGP())


def test_fields_compete_by_evidence(tmp_path, plugins):
    home = tmp_path / "home"
    finish(file_of(tmp_path, algorithm={"kind": "auto", "start": {"n": 5}}, budget={"trials": 7}), home, plugins)
    origin = trials_of(home, plugins)[-1].origin
    assert {"exact_gp", "field_pod"} <= origin.scores.keys() and "emulated_field" not in origin.scores


def test_an_interrupted_campaign_that_goes_on_is_the_uninterrupted_one(tmp_path, plugins):
    file, one, other = file_of(tmp_path), tmp_path / "one", tmp_path / "other"
    finish(file, one, plugins)
    settings = settings_of(other, plugins)
    campaign, ledger = wire(read_campaign(file), settings), open_ledger(settings.ledger, create=True)
    created(ledger, campaign, file)
    lease = ledger.acquire(campaign.name)
    while len(ledger.trials(campaign.name)) < 7:
        passed = make_pass(Ref(str(other), campaign.name, lease.model_dump()))
        if passed.decision.wait and not passed.approved:
            pause(campaign, ledger, passed)
    ledger.release(lease)
    _stored.cache_clear()
    finish(file, other, plugins)
    found = [
        [(trial.design, trial.outputs, trial.origin.remarks) for trial in trials_of(home, plugins)]
        for home in (one, other)
    ]
    assert found[0] == found[1]
    kept = [
        [
            (each.iteration, each.reference)
            for each in open_ledger(settings_of(home, plugins).ledger).products("profile")
        ]
        for home in (one, other)
    ]
    assert kept[0] == kept[1] and None not in dict(kept[0]).values()


def test_without_a_field_that_tells_the_outputs_of_every_trial_there_are_none(tmp_path, plugins):
    campaign = wired(tmp_path, plugins)
    store, designs = (
        fields_at(campaign.settings.fields),
        [{"a": 0.1, "b": 0.9}, {"a": 0.5, "b": 0.5}, {"a": 0.9, "b": 0.2}],
    )
    runs = [rise(**design) for design in designs]
    X, read = (
        campaign.space.encode(designs),
        np.array([list(campaign.problem.evaluate({}, each).values()) for each in runs]),
    )

    def found(last):
        digests = [store.write("profile", each).digest for each in (*runs[:2], last)]
        return snapshots_of(campaign, digests, X, read)

    assert found(runs[2]).values.shape == (3, 1, 40)
    finer = found(rise(**designs[2], cells=80))
    np.testing.assert_allclose(finer.values[2, 0], runs[2]["rise"], atol=1e-3)
    broken = runs[2]["rise"].copy()
    broken[7] = np.nan
    assert found(runs[2].assign(rise=broken)) is None
    assert found(runs[2].assign_coords(s=runs[2]["s"] * 0.9)) is None
    assert found(runs[2].assign(rise=1e3 * runs[2]["rise"])) is None
    assert found(xr.Dataset({"misfit": ((), float(read[2, 0]))})) is None


ONE_BY_ONE = {
    "fails": '        assert len(fields["rise"]) == 1, "one at a time"\n',
    "gives others": '        designs["a"] = designs["a"] * np.nan if len(designs["a"]) > 1 else designs["a"]\n',
}


@pytest.mark.parametrize("said", ONE_BY_ONE)
def test_a_functional_that_takes_designs_one_by_one_alone_is_named(said, tmp_path, plugins):
    head, body, end = PROBLEM.partition("    def functional(self, fields, axes, designs):\n")
    (plugins / "problems" / "profile.py").write_text(
        head + body + ONE_BY_ONE[said] + end.replace("return (", "return 0 * designs['a'] + (")
    )
    campaign = wired(tmp_path, plugins)
    store, designs = fields_at(campaign.settings.fields), [{"a": 0.1, "b": 0.9}, {"a": 0.5, "b": 0.5}]
    runs = [rise(**design) for design in designs]
    read = np.array([list(campaign.problem.evaluate(*each).values()) for each in zip(designs, runs, strict=True)])
    digests = [store.write("profile", each).digest for each in runs]
    with pytest.raises(ValueError, match=rf"Profile reads the results of each design alone, and for several.* {said}"):
        snapshots_of(campaign, digests, campaign.space.encode(designs), read)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ": the surrogate field_pod learns from them, where a few modes hold them."),
        (
            {"algorithm": {**CAMPAIGN["algorithm"], "surrogate": {"kind": "field_ensemble"}}},
            ": the surrogate field_ensemble learns from them, where they foresee results that they have not seen.",
        ),
        (
            {"algorithm": {"kind": "auto"}},
            ": the surrogate auto may learn from them, where a few modes hold them, or where they foresee results that "
            "they have not seen.",
        ),
        (
            {"algorithm": {"kind": "gp_ei"}},
            ", and they are not used: exact_gp x log_ei x multistart learns from results alone. field_pod and auto "
            "use them.",
        ),
        ({"noise": {"sd": 0.1}}, ", and they are not used: noise is added to the results, and fields have none of it."),
        (
            {"problem": {"kind": "pictured"}, "algorithm": {"kind": "auto"}},
            ", and they are not used: they teach where each variable has one value, which images have not: p.",
        ),
    ],
    ids=["field_pod", "field_ensemble", "auto", "gp_ei", "noise", "image"],
)
def test_check_says_who_learns_from_fields(changes, said, tmp_path, plugins, capsys):
    kind = changes.get("problem", CAMPAIGN["problem"])["kind"]
    told = noted(file_of(tmp_path, **changes), tmp_path, capsys)
    assert told == f"problem {kind!r} states fields (rise) and no equation of them{said}"


def test_check_says_who_learns_from_the_fields_of_an_equation_without_it(tmp_path, plugins, capsys):
    changes = {key: bars.BAR[key] for key in ("problem", "simulator")}
    told = noted(file_of(tmp_path, **changes), tmp_path, capsys)
    assert told.endswith(
        "states fields (deflection, moment) and an equation of them: the surrogate field_pod learns from them, where a "
        "few modes hold them."
    )
    assert "states fields" not in noted(file_of(tmp_path, **changes, algorithm={"kind": "gp_ei"}), tmp_path, capsys)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        ("branin", "and the problem states none"),
        ("pictured", "and they teach where each variable has one value, which images have not: p"),
        ("mute", "and the problem has no `functional` that reads its outputs from them"),
    ],
)
def test_a_surrogate_of_fields_is_refused_where_there_are_none(problem, reason, tmp_path, plugins, capsys):
    file = file_of(
        tmp_path, problem={"kind": problem}, simulator={"kind": "function" if problem == "branin" else "profile"}
    )
    assert main(["check", str(file), "--home", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "algorithm.surrogate: 'field_pod' learns from the fields of runs" in said and reason in said


def test_fields_from_before_are_imported_and_a_new_target_reads_them(tmp_path, plugins, capsys):
    home, folder = tmp_path / "home", tmp_path / "before"
    folder.mkdir()
    rows = []
    for n, (a, b) in enumerate(((0.1, 0.2), (0.3, 0.8), (0.6, 0.5), (0.9, 0.1), (0.7, 0.9))):
        bars.written(rise(a, b), folder / f"{n}.nc")
        rows.append({"a": a, "b": b, "field": f"{n}.nc"})
    file = file_of(tmp_path, budget={"trials": 1}, algorithm={**CAMPAIGN["algorithm"], "start": {"n": 1}})
    words = ["--home", str(home)]
    assert main(["import", str(file), str(bars.table(folder / "before.csv", rows)), *words]) == 0
    finish(file, home, plugins)
    assert trials_of(home, plugins)[-1].origin.remarks["fields"].startswith("5 fields in 3 modes")
    mean = file_of(tmp_path, name="mean", problem={"kind": "mean"}, algorithm={"kind": "gp_ei"})
    assert main(["retarget", "profile", str(mean), *words]) == 0
    assert trials_of(home, plugins, "mean")[0].outputs["mean"] == pytest.approx(float(rise(0.1, 0.2)["rise"].mean()))
    bars.written(rise(0.2, 0.2).assign(rise=rise(0.2, 0.2)["rise"].assign_attrs(units="mK")), folder / "0.nc")
    capsys.readouterr()
    other = file_of(tmp_path, name="other")
    assert main(["import", str(other), str(folder / "before.csv"), *words]) == 2
    assert "'rise' of the field is in 'mK', and the problem has it in 'K'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "message"),
    [((), "has the fields \\[\\]: give at least one"), (("u", "u"), "each its own name")],
    ids=["none", "twice"],
)
def test_statements_of_fields_that_cannot_be_are_refused(names, message):
    domain = Domain((Axis("s", 0.0, 1.0),))
    with pytest.raises(ValueError, match=message):
        Fields(domain, tuple(map(Field, names)))


@pytest.mark.parametrize("kind", ["field_pod", "field_ensemble", "auto"])
def test_the_field_of_a_new_design_is_predicted_with_its_units(tmp_path, plugins, kind):
    few = {"members": 8, "width": 8, "refinements": 10} if kind == "field_ensemble" else {}
    algorithm = {**CAMPAIGN["algorithm"], "surrogate": {"kind": kind, **few}}
    if kind == "auto":
        algorithm["surrogate"] = {"kind": "auto", "candidates": ["field_pod"]}
    home = tmp_path / "home"
    finish(file_of(tmp_path, algorithm=algorithm, budget={"trials": 7}), home, plugins)
    campaign = fc.campaign("profile", home=home)
    designs = [{"a": 0.55, "b": 0.35}, {"a": 0.2, "b": 0.8}]
    found = campaign.predict(designs, of="field")
    assert found.rise.dims == found.rise_sd.dims == ("design", "s") and found.sizes == {"design": 2, "s": 40}
    assert {found[name].attrs["units"] for name in ("rise", "rise_sd")} == {"K"} and found.s.attrs["units"] == "m"
    truth = np.stack([rise(**design).rise for design in designs])
    assert (found.rise_sd > 0).any() and np.isfinite(found.rise_sd).all()
    if kind != "field_ensemble":  # whose networks were hardly trained
        assert np.abs(found.rise - truth).max() < 0.3 * np.ptp(truth)
        assert (np.abs(found.rise - truth) <= 4 * found.rise_sd + 0.01).all()
    table = campaign.predict(designs)
    assert list(table) == ["mean", "sd"]


def test_the_field_that_a_proposed_design_was_to_have_is_kept_beside_the_one_that_it_had(tmp_path, plugins, capsys):
    home = tmp_path / "home"
    finish(file_of(tmp_path, batch=2, budget={"trials": 7}), home, plugins)
    settings, trial = settings_of(home, plugins), trials_of(home, plugins)[-1]
    ledger, store = open_ledger(settings.ledger), fields_at(settings.fields)
    kept = ledger.product("profile", trial.iteration, "acquire").reference
    with xr.open_zarr(store.path(kept) / "field.zarr") as opened:
        assert (opened.attrs["campaign"], opened.attrs["iteration"]) == ("profile", trial.iteration)
    found, simulated = store.read(kept), store.read(trial.field)
    assert found.sizes == {"slot": 2, "s": 40} and found.rise.dtype == np.float32
    assert found.rise.attrs["units"] == found.rise_sd.attrs["units"] == "K"
    assert np.abs(found.rise.sel(slot=trial.slot) - simulated.rise).max() < 0.1
    assert np.abs(found.rise.sel(slot=1 - trial.slot) - simulated.rise).max() > 1e-3  # another design's
    words = ["--home", str(home)]
    assert main(["trace", trial.id, "--json", *words]) == 0
    told = json.loads(capsys.readouterr().out)["acquisition"]["field"]
    assert told == {"digest": kept.digest, "slot": trial.slot}
    assert main(["doctor", *words]) == 0
    shutil.rmtree(store.path(kept))
    capsys.readouterr()
    assert main(["doctor", *words]) == 1 and kept.digest[:12] in capsys.readouterr().out
    assert main(["repair", "--yes", "--reason", "lost", *words]) == 0
    assert "predict the fields of iteration" in capsys.readouterr().out
    store.verify(kept)


def test_a_model_that_knows_no_field_says_so(tmp_path, plugins):
    home = tmp_path / "home"
    algorithm = {"start": {"n": 2}, "kind": "gp_ei"}
    finish(file_of(tmp_path, algorithm=algorithm, budget={"trials": 3}), home, plugins)
    campaign = fc.campaign("profile", home=home)
    with pytest.raises(
        InputError, match=r"latest model of profile \(.*exact_gp.*\) knows no field\. The surrogates emu"
    ):
        campaign.predict({"a": 0.5, "b": 0.5}, of="field")
    with pytest.raises(InputError, match="of='fields': choose 'objective' or 'field'"):
        campaign.predict({"a": 0.5, "b": 0.5}, of="fields")

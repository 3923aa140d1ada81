"""The campaign file: every wrong file is one clear error, and equal files have equal digests."""

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from small import SMALL

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.flows.spec.campaign_file import MAX_BYTES, differing, load_yaml, parse, read_campaign
from fieldcraft.flows.wiring.build import rewire, wire

CUT = '''\
"""A problem whose space is no box."""
from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, LinearConstraint, SearchSpace


@dataclass(frozen=True)
class Cut(Problem):
    """See the test."""

    space = SearchSpace((Continuous("x", 0.0, 1.0),), (LinearConstraint({"x": 1.0}, 0.5),))
    outputs = (Output("value"),)

    def function(self, design):
        return {"value": design["x"]}
'''


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_from({}, home=tmp_path / "home")


def changed(path: str, value: Any) -> dict[str, Any]:
    """The small campaign as data, with one dotted key set; a key set to ``...`` is taken out."""
    data = yaml.safe_load(SMALL)
    *folders, last = path.split(".")
    place = data
    for folder in folders:
        place = place.setdefault(folder, {})
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return data


def written(tmp_path: Path, content: str | bytes) -> Path:
    file = tmp_path / "campaign.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def test_the_small_campaign_is_read_as_it_is_written(tmp_path):
    spec = read_campaign(written(tmp_path, SMALL))
    assert (spec.name, spec.seed, spec.sense, spec.budget.trials) == ("small", 3, "minimize", 3)
    assert spec.noise is not None and spec.noise.sd == 0.5
    assert spec.algorithm.in_words == "exact_gp x log_ei x multistart"
    assert spec.dispatcher.kind == "local"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("sed", 1, "c.yaml: sed: unknown key 'sed'. Did you mean 'seed'?"),
        ("zzz", 1, "c.yaml: zzz: unknown key 'zzz'. Known: name, seed, sense"),
        ("algorithm.start.m", 1, "algorithm.start.m: unknown key 'm'. Known: proposer, n"),
        ("algorithm.surogate", {"kind": "exact_gp"}, "unknown key 'surogate'. Did you mean 'surrogate'?"),
        ("algorithm.collocation.resampel", True, "unknown key 'resampel'. Did you mean 'resample'?"),
        ("budget.trial", 3, "budget.trial: unknown key 'trial'. Did you mean 'trials'?"),
        ("noise.of_std", 0.1, "noise.of_std: unknown key 'of_std'. Did you mean 'of_sd'?"),
        ("stop.traget", 1.0, "unknown key 'traget'. Did you mean 'target'?"),
    ],
)
def test_a_misspelt_key_is_named_with_the_one_that_was_meant(path, value, message):
    with pytest.raises(InputError, match=re.escape(message)):
        parse(changed(path, value), "c.yaml")


def test_each_of_two_misspelt_keys_gets_its_own_suggestion():
    data = changed("algorithm.start.propser", {"kind": "sobol"})
    data["sed"] = 3
    with pytest.raises(InputError, match=r"unknown key 'propser'\. Did you mean 'proposer'") as caught:
        parse(data, "c.yaml")
    assert "unknown key 'sed'. Did you mean 'seed'?" in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("seed", ..., "seed: missing"),
        ("problem", ..., "problem: missing"),
        ("algorithm.start", ..., "algorithm.start: missing"),
        ("problem", {"knd": "branin"}, "problem.kind: missing"),
        ("seed", "three", "seed: Input should be a valid integer.*given: 'three'"),
        ("seed", -1, r"seed: Input should be greater than or equal to 0 \(given: -1\)"),
        ("seed", 2**63, "seed: 9223372036854775808 is out of reach, for a ledger keeps 63 bits"),
        ("seed", 1.5, "seed: .*integer.*given: 1.5"),
        ("seed", [1], r"seed: .*integer.*given: \[1\]"),
        ("name", 5, "name: .*string.*given: 5"),
        ("name", "../x", r"name: Give at most 60 letters .*given: '../x'"),
        ("name", "", "name: Give at most 60 letters of a to z"),
        ("sense", "max", "sense: Input should be 'maximize' or 'minimize'.*given: 'max'"),
        ("problem", "branin", "problem: .*given: 'branin'"),
        ("batch", 0, "batch: .*greater than or equal to 1"),
        ("budget", 3, "budget: .*given: 3"),
        ("budget.trials", 1, "budget.trials is 1 and algorithm.start.n is 2: the budget must cover the start"),
        ("budget.trials", 0, "budget.trials: .*greater than or equal to 1"),
        ("algorithm.start.n", 0, "algorithm.start.n: .*greater than or equal to 1"),
        ("algorithm.acquisition", ..., "no acquisition: give surrogate, acquisition and maximizer, or none"),
        ("algorithm.collocation.scheme", "grid", "scheme: Input should be 'sobol'.*given: 'grid'"),
        ("noise", {}, "exactly one of sd .*, of_sd .* and fitted"),
        ("noise", {"sd": 1.0, "of_sd": 1.0}, "exactly one of sd .*, of_sd .* and fitted"),
        ("noise.sd", -1.0, "noise.sd: .*greater than or equal to 0"),
        ("dispatcher.wall_time_s", 0, "wall_time_s: .*greater than 0"),
        ("approval", "humane", r"approval: Input should be 'auto', .* .given: 'humane'.\. Did you mean 'human'\?"),
        ("approval", {"after_first": 0}, "approval.first: Input should be greater than or equal to 1"),
        ("approval", {"policy": "after_first"}, "'after_first' and first is None: first is for after_first"),
        ("approval", {"policy": "human", "cost": 3.0}, "'human' and cost is 3.0: cost is for auto_below_cost"),
        ("approval", {"policy": "auto", "expires_h": 3.0}, "under the policy 'auto' there is none"),
        ("approval", {"auto_below_cost": 3, "after_first": 8}, "approval: auto_below_cost and after_first each name"),
        ("approval", {"policy": "human", "after_first": 8}, "approval: policy and after_first each name a policy"),
        ("budget", {"trials": 30, "unit": "EUR\nnext"}, r"budget.unit: Give a text without control .*'EUR.nnext'"),
        (
            "budget",
            {"trials": 30, "unit": "\u202eEUR"},
            "budget.unit: Give a text without control characters, on one line",
        ),
        ("budget", {"trials": 30, "unit": "E" * 21}, "budget.unit: .*at most 20 characters"),
        ("approval", {"after_frist": 3}, "approval.after_frist: unknown key 'after_frist'. Did you mean"),
        ("budget", {"trials": 30, "cost": 0}, "budget.cost: Input should be greater than 0"),
        ("stop", {"failure_rate": {"above": 1.5}}, "stop.failure_rate.above: Input should be less than 1"),
        ("space", {"x1": [5, 1]}, r"space.x1: \[5, 1\] is reversed. Give \[low, high\]"),
        ("space", {"x1": [1, 1]}, r"space.x1: \[1, 1\] leaves one value. Give \[low, high\]"),
        ("space", {"x1": [1]}, "space.x1"),
        ("space", {"x1": 3}, "space.x1: .*given: 3"),
        ("space", [1, 2], r"space: .*given: \[1, 2\]"),
        ("space", 5, "space: .*given: 5"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_its_place(path, value, message):
    with pytest.raises(InputError, match=f"^c.yaml: .*{message}"):
        parse(changed(path, value), "c.yaml")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("noise.sd", "noise.sd"),
        ("stop.target", "stop.target"),
        ("dispatcher.wall_time_s", "dispatcher.wall_time_s"),
        ("problem.margin", "problem.margin"),
        ("simulator.mesh.sizes", "simulator.mesh.sizes"),
    ],
)
def test_a_number_that_is_none_is_refused_wherever_it_stands(path, place, number):
    with pytest.raises(InputError, match=f"{place}: {number} is no number to work with"):
        parse(changed(path, number), "c.yaml")


def test_a_number_that_is_none_is_refused_inside_a_list():
    with pytest.raises(InputError, match=r"space.x1\[1\]: nan is no number"):
        parse(changed("space", {"x1": [0.0, float("nan")]}), "c.yaml")


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity"])
def test_a_number_that_is_none_is_refused_as_text_too(text):
    with pytest.raises(InputError, match=f"noise.sd: .*finite number.*given: '{text}'"):
        parse(changed("noise.sd", text), "c.yaml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- a\n- b\n", "holds a list, not a mapping"),
        ("just words\n", "holds a str, not a mapping"),
        ("", "holds nothing, not a mapping"),
        (SMALL + "batch: !!python/object/apply:os.system [ls]\n", "line 13 carries the tag 'tag:yaml.org,2002:python"),
        (SMALL + "batch: !!int 1\n", "line 13 carries the tag 'tag:yaml.org,2002:int'"),
        (SMALL + "batch: !mine 1\n", "line 13 carries the tag '!mine'"),
        ("!mine\n" + SMALL, "carries the tag '!mine'"),
        (SMALL.replace("sd: 0.5", "sd: &half 0.5"), "line 6 uses the anchor 'half'. Write the value out"),
        ("a: &a [1]\nb: *a\n", "line 1 uses the anchor 'a'"),
        ("a: *nowhere\n", "line 1 uses the anchor 'nowhere'"),
        (SMALL + "<<: {batch: 1}\n", "line 13: key << is not text"),
        (SMALL + "seed: 4\n", "line 13: key 'seed' is given twice"),
        (SMALL.replace("{n: 2}", "{n: 2, n: 3}"), "line 8: key 'n' is given twice"),
        ("1: a\n", "line 1: key 1 is not text. Quote it"),
        ("[a]: b\n", "line 1: key that is a sequence is not text"),
        ("true: b\n", "line 1: key true is not text"),
        ('a: b\nc: "x\\ud800"\n', "line 2 holds half of a letter"),
        ("a: [1, 2\n", "is not YAML: while parsing a flow sequence.*line 1"),
        ("a:\n\t- b\n", "is not YAML: .*cannot start any token"),
        ("a: 1\n---\nb: 2\n", "is not YAML: .*single document"),
        (f"seed: {'9' * 5000}\n", "line 1 holds a number with too many digits"),
        (f"a: 1\nseed: 0x{'f' * 5000}\n", "line 2 holds a number with too many digits"),
        (f"seed: 1{':0' * 300}.5\n", "line 1 holds 1:0.*, a number to the base 60 in YAML 1.1. Write the number out"),
        ("seed: 1:30\n", "line 1 holds 1:30, a number to the base 60 in YAML 1.1. Write the number out"),
        ("seed: 010\n", "line 1 holds 010, a number to the base 8 in YAML 1.1. Leave out the zero in front"),
        ("seed: -007\n", "line 1 holds -007, a number to the base 8"),
        ("a: " + "[" * 50_000, "is not YAML: .*nested too deeply"),
        ("a: 1\0", "is not YAML: .*special characters are not allowed"),
        (b"\x80\x81\xff\x00\x01", "is not UTF-8 text"),
        (bytes(range(256)) * 40, "is not UTF-8 text"),
        ("#" * (MAX_BYTES + 1), f"is over {MAX_BYTES} bytes"),
    ],
)
def test_a_file_that_is_not_plain_yaml_is_refused(tmp_path, content, message):
    file = written(tmp_path, content)
    with pytest.raises(InputError, match=f"(?s)^{re.escape(str(file))}: .*{message}") as caught:
        read_campaign(file)
    assert all("\n" not in fault and len(fault) < 400 for fault in caught.value.faults)


def test_words_that_yaml_1_1_takes_for_true_and_false_or_for_dates_are_words(tmp_path):
    text = "a: [yes, No, on, OFF, y, n, 2026-01-02, 1:x]\nb: [true, False]\nc: [1e-3, 1.5E3, 2e2, 0x1F, 1_000, +5, 7.]"
    assert load_yaml(written(tmp_path, text)) == {
        "a": ["yes", "No", "on", "OFF", "y", "n", "2026-01-02", "1:x"],
        "b": [True, False],
        "c": [0.001, 1500.0, 200.0, 31, 1000, 5, 7.0],
    }


def test_what_is_within_quotes_is_text_whatever_it_looks_like(tmp_path):
    assert load_yaml(written(tmp_path, "a: ['010', \"1:30\", 'true', '5', '~']")) == {
        "a": ["010", "1:30", "true", "5", "~"]
    }


def test_all_that_is_no_plain_data_is_told_at_once_each_with_its_line(tmp_path):
    file = written(tmp_path, "a: &x 1\nb: *x\nc: !t 2\nc: 3\nd: 010\n1: 2\n")
    with pytest.raises(InputError, match="line 1 uses the anchor 'x'") as caught:
        read_campaign(file)
    assert [fault.removeprefix(f"{file}: ")[:28] for fault in caught.value.faults] == [
        "line 1 uses the anchor 'x'. ",
        "line 2 uses the anchor 'x'. ",
        "line 3 carries the tag '!t':",
        "line 4: key 'c' is given twi",
        "line 5 holds 010, a number t",
        "line 6: key 1 is not text. Q",
    ]


def test_a_file_of_very_many_keys_is_refused_at_once_and_in_few_words(tmp_path):
    file = written(tmp_path, "".join(f"k{n}: 1\n" for n in range(40_000)))
    began = time.process_time()
    with pytest.raises(InputError, match=r"(?s)line 1: k0: unknown key 'k0'.*And 39995 more\.$") as caught:
        read_campaign(file)
    assert time.process_time() - began < 25  # 6 s of parsing; comparing each key with all before it took minutes
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    "path",
    ["seed", "batch", "budget.trials", "algorithm.start.n", "noise.sd", "dispatcher.attempts", "stop.no_improvement"],
)
def test_true_and_false_are_no_numbers(path):
    with pytest.raises(
        InputError, match=rf"{path}: true and false say nothing here: give a number, or quote the word.*given: True"
    ):
        parse(changed(path, True), "c.yaml")


def test_true_and_false_are_no_bounds_and_no_option_that_is_a_number(settings):
    with pytest.raises(InputError, match=r"space\.x1\.0: true and false.*given: False"):
        parse(changed("space", {"x1": [False, True]}), "c.yaml")
    data = changed("problem", {"kind": "heat", "margin": True})
    with pytest.raises(InputError, match=r"problem\.margin: True is no number"):
        wire(parse(data, "c.yaml"), settings)
    assert (
        parse(changed("algorithm.collocation", {"resample": False}), "c.yaml").algorithm.collocation.resample is False
    )


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("budget.wall_time_h", 1e308, r"1e\+308 is out of reach, for its square is no number"),
        ("budget.wall_time_h", 1e8, r"it may be 10,000,000 at most, for that is a thousand years.*given: 1"),
        ("budget.cost", 1e16, "at most, for beyond it sums lose single units"),
        ("budget.trials", 10**7, "it may be 1,000,000 at most, for every pass reads all trials.*given: 10000000"),
        ("algorithm.start.n", 10**7, "it may be 1,000,000 at most"),
        ("batch", 10**5, "it may be 10,000 at most, for one pass proposes them all"),
        ("dispatcher.parallel", 1e23, r"it is out of reach for a whole number.*given: 1e\+23"),
        ("dispatcher.wall_time_s", 1e9, "at most, for that is three years"),
        ("dispatcher.attempts", 2000, "it may be 1,000 at most, for what fails so often fails again"),
        ("dispatcher.backoff_s", 1e4, "at most, for a retry waits an hour at most"),
        ("approval", {"policy": "human", "expires_h": 1e6}, "at most, for that is eleven years"),
        ("noise.sd", 1e308, r"1e\+308 is out of reach"),
        ("noise.sd", 1e-320, "out of reach, for its square is no number any more. Give 0 or a number from 1e-100"),
        ("noise", {"of_sd": 1e4}, ".of_sd: it may be 1,000 at most, for no result would say anything"),
        ("stop.no_improvement", 10**8, "it may be 1,000,000 at most"),
        ("algorithm.surrogate.n_features", 99_999_999_999, "so many steps, samples or nodes end on no machine"),
        ("algorithm.maximizer.n_starts", 0, "0 improves no sample by gradients. Give at least 1"),
        ("simulator.steps", 2**63, "9223372036854775808 is out of reach, for a ledger keeps 63 bits"),
    ],
)
def test_an_amount_with_which_no_campaign_could_go_on_is_refused_at_once(path, value, message):
    with pytest.raises(InputError, match=f"{path}.*{message}"):
        parse(changed(path, value), "c.yaml")


def test_what_an_earlier_version_stored_is_read_though_a_file_may_not_say_it_any_more(settings):
    data = wire(parse(yaml.safe_load(SMALL), "c.yaml"), settings).data
    data["dispatcher"]["parallel"], data["budget"]["trials"] = 100_000, 5_000_000
    spec = rewire(data, settings).spec
    assert (spec.dispatcher.parallel, spec.budget.trials) == (100_000, 5_000_000)
    with pytest.raises(InputError, match="it may be 10,000 at most"):
        parse(data, "c.yaml")


def test_a_file_of_the_largest_size_is_read(tmp_path):
    assert read_campaign(written(tmp_path, SMALL + "#" * (MAX_BYTES - len(SMALL)))).name == "small"


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    assert read_campaign(written(tmp_path, "\ufeff" + SMALL)).name == "small"


def test_a_path_that_is_no_readable_file_is_named(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    reasons = {"nowhere": "No such file", "dangling": "No such file", "loop": "Too many levels", "": "Is a directory"}
    for name, reason in reasons.items():
        with pytest.raises(InputError, match=re.escape(f"{tmp_path / name}: cannot be read ({reason}")):
            load_yaml(tmp_path / name)


def test_a_file_without_the_right_to_read_it_is_named(tmp_path):
    file = written(tmp_path, SMALL)
    file.chmod(0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "it was read"
        try:
            if os.geteuid() == 0:  # nothing is forbidden to root
                os.setgroups([])
                os.setuid(65534)
            read_campaign(file)
        except InputError as error:
            said = str(error)
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 4096).decode().startswith(f"{file}: cannot be read (Permission denied)")
    os.close(reader)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("problem.kind", "branim", "No kind 'branim' in problems. Did you mean 'branin'? Known: "),
        ("problem.kind", "../problems/branin", "No kind '../problems/branin' in problems"),
        ("simulator.kind", "functoin", "No kind 'functoin' in simulators. Did you mean 'function'?"),
        ("algorithm.surrogate.kind", "exactgp", "in surrogates. Did you mean 'exact_gp'?"),
        ("algorithm.acquisition.kind", "logei", "in acquisitions. Did you mean 'log_ei'?"),
        ("algorithm.maximizer.kind", "multi_start", "in maximizers. Did you mean 'multistart'?"),
        ("algorithm.start.proposer", {"kind": "sobel"}, "in proposers. Did you mean 'sobol'?"),
        ("dispatcher.kind", "locl", "in dispatchers. Did you mean 'local'?"),
        ("dispatcher.paralel", 1, "dispatcher.paralel: unknown key 'paralel'. Did you mean 'parallel'?"),
        ("dispatcher.program", "solve", "dispatcher.program: unknown key 'program'. Known: kind, parallel, "),
        ("dispatcher.place", "here", "dispatcher.place: unknown key 'place'. Remove it."),
        ("problem.margn", 0.1, "problem.margn: unknown key 'margn'"),
        (
            "algorithm.surrogate.kernal",
            "rbf",
            "algorithm.surrogate.kernal: unknown key 'kernal'. Did you mean 'kernel'?",
        ),
        ("algorithm.surrogate.kernel", "cubic", "algorithm.surrogate.kernel: Input should be"),
        (
            "algorithm.maximizer.n_start",
            4,
            "algorithm.maximizer.n_start: unknown key 'n_start'. Did you mean 'n_starts'?",
        ),
        ("algorithm.maximizer.n_starts", -1, "n_starts"),
        (
            "algorithm.surrogate",
            {"kind": "physics_informed", "engine": "trained"},
            "needs an equation and problem 'branin' states none",
        ),
        (
            "algorithm",
            {"kind": "sto_bnts_linear", "acquisition": {"kind": "mes"}},
            "acquisition: 'mes' needs an exact Gaussian process, and the surrogate 'sampled_linear' gives none",
        ),
        (
            "algorithm",
            {"kind": "auto", "acquisition": {"kind": "knowledge_gradient"}},
            "'knowledge_gradient' needs an exact Gaussian process, and the surrogate 'auto' gives none",
        ),
        ("algorithm", {"kind": "gp_ts", "acquisition": {"kind": "jes", "n_sample": 4}}, "Did you mean 'n_samples'?"),
        (
            "algorithm",
            {"kind": "auto", "maximizer": {"kind": "certified"}},
            "maximizer: 'certified' bounds exact Gaussian processes, and the surrogate 'auto' is none",
        ),
        (
            "algorithm",
            {"kind": "gp_ts", "maximizer": {"kind": "certified"}},
            "'certified' bounds functions of mean and standard deviation, and the acquisition 'thompson' is none",
        ),
        (
            "algorithm",
            {"kind": "gp_ei", "maximizer": {"kind": "pk_miqp"}},
            "'pk_miqp' takes the confidence bound alone, and the acquisition 'log_ei' is another. Use ucb, or the",
        ),
        ("space", {"x1": [-50, 0]}, "space: "),
        ("space", {"x3": [0, 1]}, "space: "),
    ],
)
def test_what_only_a_kind_can_know_is_refused_with_the_suggestion(settings, path, value, message):
    spec = parse(changed(path, value), "c.yaml")
    with pytest.raises(InputError, match=re.escape(message)):
        wire(spec, settings)
    assert not settings.home.exists()


def test_an_acquisition_for_exact_processes_goes_with_one(settings):
    spec = parse(changed("algorithm.acquisition.kind", "jes"), "c.yaml")
    assert wire(spec, settings).spec.algorithm.in_words == "exact_gp x jes x multistart"


def test_a_rival_for_boxes_is_refused_where_a_linear_constraint_holds(tmp_path):
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "cut.py").write_text(CUT)
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(tmp_path)}, home=tmp_path / "home")

    def asked(kind):
        return parse({**changed("problem.kind", "cut"), "algorithm": {"kind": kind, "start": {"n": 2}}}, "c.yaml")

    with pytest.raises(InputError, match=r"algorithm.peer: .*known constraints .x <= 0.5.*passed on to optuna_tpe"):
        wire(asked("optuna_tpe"), settings)
    assert wire(asked("botorch_log_ei"), settings).spec.algorithm.in_words == "botorch_log_ei"


def test_an_option_that_is_no_number_is_refused_as_text_too(settings):
    data = changed("problem", {"kind": "heat", "margin": "nan"})
    with pytest.raises(InputError, match=r"problem\.margin: .*finite number.*given: 'nan'"):
        wire(parse(data, "c.yaml"), settings)


def test_the_digest_depends_on_what_is_said_and_not_on_the_order_or_the_defaults(settings):
    plain = wire(parse(yaml.safe_load(SMALL), "c.yaml"), settings)
    turned = {key: yaml.safe_load(SMALL)[key] for key in reversed(yaml.safe_load(SMALL))}
    turned["algorithm"] = dict(reversed(turned["algorithm"].items()))
    turned["algorithm"]["start"] = {"n": 2, "proposer": {"kind": "sobol"}}
    turned["dispatcher"] = {"attempts": 3, "kind": "local"}
    assert wire(parse(turned, "c.yaml"), settings).digest == plain.digest
    assert wire(parse(changed("seed", 4), "c.yaml"), settings).digest != plain.digest
    assert wire(parse(changed("algorithm.maximizer.n_starts", 3), "c.yaml"), settings).digest != plain.digest


@pytest.mark.parametrize(
    ("kind", "digest"),
    [("local", "2022b7b2aeea"), ("inline", "5f7ea8bbee03"), ("lab", "a9445bb6c8d9")],
)
def test_the_digest_is_what_it_was_when_dispatchers_had_no_options_of_their_own(settings, kind, digest):
    spec = {"name": "old", "seed": 1, "sense": "minimize", "problem": {"kind": "branin"}, "dispatcher": {"kind": kind}}
    spec |= {"algorithm": {"start": {"n": 2}}, "budget": {"trials": 2}}
    spec |= {} if kind == "lab" else {"simulator": {"kind": "function"}}
    assert wire(parse(spec, "old.yaml"), settings).digest.startswith(digest)


def test_the_digest_is_what_it_was_when_draws_were_searched_everywhere_alone(settings):
    heat = Path(__file__).parents[3] / "campaigns/heat.yaml"
    assert wire(read_campaign(heat), settings).digest.startswith("d231be0c00d3")
    spec = {
        "name": "old",
        "seed": 1,
        "sense": "minimize",
        "problem": {"kind": "hartmann"},
        "algorithm": {"kind": "gp_ts"},
    }
    spec |= {"simulator": {"kind": "function"}, "budget": {"trials": 20}}
    assert wire(parse(spec, "old.yaml"), settings).digest.startswith("18ce740d56e3")


def test_the_stored_specification_is_read_back_to_the_same_digest(settings):
    first = wire(parse(yaml.safe_load(SMALL), "c.yaml"), settings)
    again = wire(parse(first.data, "the ledger"), settings)
    assert (again.data, again.digest) == (first.data, first.digest)


def test_differing_names_changed_added_and_missing_keys_with_both_values():
    stored = {"seed": 1, "problem": {"kind": "heat", "boundary": 2}, "space": {"x": [0.1, 2.0]}}
    given = {"seed": 2, "problem": {"kind": "heat", "margin": 0.5}, "space": {"x": [0.1, 3.0]}}
    assert differing(stored, given) == [
        "problem.boundary: 2 -> (absent)",
        "problem.margin: (absent) -> 0.5",
        "seed: 1 -> 2",
        "space.x[1]: 2.0 -> 3.0",
    ]
    assert differing(stored, stored) == []


def test_what_is_null_is_absent_and_an_empty_text_can_be_seen():
    stored = {"algorithm": {"surrogate": None, "start": {"n": 2}}, "budget": {"unit": ""}, "noise": None}
    given = {"algorithm": {"surrogate": {"kind": "exact_gp"}, "start": {"n": 2}}, "budget": {"unit": "EUR"}}
    assert differing(stored, given) == [
        "algorithm.surrogate.kind: (absent) -> exact_gp",
        "budget.unit: '' -> EUR",
    ]


def test_a_fault_of_the_whole_file_has_no_empty_place():
    with pytest.raises(InputError, match=r"^c.yaml: budget.trials is 1 and"):
        parse(changed("budget.trials", 1), "c.yaml")


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("human", {"policy": "human"}),
        ({"after_first": 8}, {"policy": "after_first", "first": 8}),
        ({"auto_below_cost": 2.5, "expires_h": 3}, {"policy": "auto_below_cost", "cost": 2.5, "expires_h": 3.0}),
    ],
)
def test_an_approval_in_short_means_what_it_says_and_reads_back_as_written_out(short, long):
    spec = parse(changed("approval", short), "file")
    assert spec.approval.model_dump(exclude_none=True) == long
    assert parse(spec.model_dump(mode="json"), "file") == spec

"""The dispatcher ``command``: what a program is given and what is read from it; how it runs, tests/contracts say."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from fieldcraft.flows.dispatchers._templates import argument, filled, written
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.jobs.dispatcher import Failed, Job, Lost, NotSent
from fieldcraft.flows.jobs.job_folder import JobFolder
from fieldcraft.flows.jobs.programs import ProgramEnded, from_netcdf, run_program
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.rules.approved_code import covered
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import rewire, wire

PROBLEM = '''\
"""A place in a gas, and whether it is hot."""
from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Categorical, Continuous, SearchSpace


@dataclass(frozen=True)
class Gas(Problem):
    """See the test."""

    levels: tuple[str, ...] = ("N2", "Ar")
    name: str = "x"

    @property
    def space(self):
        return SearchSpace((Continuous(self.name, -1.0, 1.0, "m"), Categorical("gas", self.levels)))

    @property
    def outputs(self):
        return (Output("value", "K"),)
'''
SPEC: dict[str, Any] = {
    "name": "gas",
    "seed": 3,
    "sense": "maximize",
    "problem": {"kind": "gas"},
    "algorithm": {"start": {"n": 1}},
    "budget": {"trials": 2},
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a problem and a program ``solve``, which the operator lists."""
    (tmp_path / "plugins" / "problems").mkdir(parents=True)
    (tmp_path / "plugins" / "problems" / "gas.py").write_text(PROBLEM)
    program(tmp_path / "solve", "exit 0")
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    monkeypatch.setenv("FIELDCRAFT_PROGRAMS", str(tmp_path / "solve"))
    return tmp_path


def program(file: Path, script: str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def wired(place: Path, problem: dict[str, Any] | None = None, **options: Any) -> Any:
    dispatcher = {"kind": "command", "program": "solve", **options}
    spec = {**SPEC, "problem": {"kind": "gas", **(problem or {})}, "dispatcher": dispatcher}
    return wire(parse(spec, "gas.yaml"), settings_from(home=place / "home"))


def ran(place: Path, script: str, output: str = "result.json", form: str = "json", **order: Any) -> xr.Dataset:
    """What is read of a program that does as the script says, in the job's folder ``place/job``."""
    job = JobFolder(place / "job")
    job.path.mkdir(exist_ok=True)
    given: dict[str, Any] = {
        "argv": [str(program(place / "prog", script))],
        "input": {"file": "in.json", "text": "{}"},
        "output": {"file": output, "format": form},
        "exit_codes": {},
        **order,
    }
    return run_program(job, {"program": given, "outputs": {"value": "K"}})


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("x={x}", "x=0.1"),
        ("{x}{x}", "0.10.1"),
        ("{{x}} {{{x}}}", "{x} {0.1}"),
        ("{gas}", "{x} $(rm -rf /); `id` 'a' \"b\""),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_values_stand_in_their_places_and_are_never_read_again(template, text):
    values = {"x": "0.1", "gas": "{x} $(rm -rf /); `id` 'a' \"b\""}
    assert filled(template, values) == text


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a {", r"has a single '\{': write '\{\{' for a brace"),
        ("a }", r"has a single '\}'"),
        ("{y}", r"has a place \{y\}, for which there is no value"),
        ("{wdith}", r"Did you mean 'width'\?"),
        ("{x.__class__}", r"has a place \{x\.__class__\}"),
        ("{x!r}", r"has a place \{x!r\}"),
        ("{x:10}", r"has a place \{x:10\}"),
        ("{}", r"has a place \{\}"),
    ],
)
def test_a_place_that_is_no_name_of_a_value_is_refused(template, message):
    with pytest.raises(ValueError, match=message):
        filled(template, {"x": "1", "width": "2"})


def test_numbers_are_written_to_the_bit_and_texts_cannot_end_a_line():
    assert written({"x": 0.1 + 0.2, "n": 3, "gas": "N 2"}) == {"x": "0.30000000000000004", "n": "3", "gas": "N 2"}
    with pytest.raises(ValueError, match=r"gas is .N2.n--force., which holds a control character"):
        written({"gas": "N2\n--force"})


def test_a_text_cannot_become_an_option_and_a_negative_number_is_one():
    texts = frozenset({"gas"})
    assert argument("{x}", {"x": "-0.5"}, texts) == "-0.5"
    assert argument("--gas={gas}", {"gas": "--force"}, texts) == "--gas=--force"
    with pytest.raises(ValueError, match=r"would become '--force', which a program reads as an option: .*'--gas="):
        argument("{gas}", {"gas": "--force"}, texts)


def test_a_program_gets_each_value_as_one_argument_and_its_input_without_a_shell(place):
    arguments = ("{gas}", "--x={x}", "{input}", "{output}", "{key}", "{seed}", "a b")
    template = "x = {x}\ngas = {gas}\nlist = {{1}}\n"
    options = {"arguments": arguments, "input": {"file": "run.nml", "template": template}}
    dispatcher = wired(place, **options).dispatcher
    gas = "$(touch /tmp/never); N2 *"
    request = {"design": {"x": -0.25, "gas": gas}, "outputs": {"value": "K"}, "seed": 3, "iteration": 1, "slot": 2}
    order = dispatcher._filled(request["design"], "gas-0001-1", 77)
    script = 'for each in "$@"; do echo "<$each>"; done > said; cp run.nml seen; echo \'{"value": 2}\' > result.json'
    argv = [str(program(place / "prog", script)), *order["argv"]]
    fields = run_program(JobFolder(made(place / "job")), {**request, "program": {**order, "argv": argv}})
    said = (place / "job" / "files" / "said").read_text().splitlines()
    expected = [gas, "--x=-0.25", "run.nml", "result.json", "gas-0001-1", "77", "a b"]
    assert said == [f"<{each}>" for each in expected]
    assert (place / "job" / "files" / "seen").read_text() == f"x = -0.25\ngas = {gas}\nlist = {{1}}\n"
    assert float(fields["value"]) == 2.0 and fields["value"].attrs == {"units": "K"}


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_job_holds_exactly_what_will_run(place):
    dispatcher = wired(place, arguments=["{seed}", "{key}"], exit_codes={"3": "infeasible"}).dispatcher
    request = {"design": {"x": 0.5, "gas": "Ar"}, "outputs": {"value": "K"}, "seed": 3, "iteration": 1, "slot": 2}
    handle = dispatcher.submit(Job("gas-0001", "gas-0001-1", request))
    dispatcher.cancel(handle)
    seed = int(stream(3, 1, Use.SIMULATE, 2).integers(2**31))
    assert JobFolder(place / "home" / "work" / "gas" / handle["key"]).request["program"] == {
        "argv": [str(place / "solve"), str(seed), "gas-0001-1"],
        "input": {"file": "design.json", "text": json.dumps({"x": 0.5, "gas": "Ar"})},
        "output": {"file": "result.json", "format": "json"},
        "exit_codes": {"3": "infeasible"},
    }


@pytest.mark.parametrize(
    ("named", "listed", "message"),
    [
        ("solv", "solve", r"'solv' is not among the programs that the operator allows \(.*solve\)\. Ask for"),
        (
            "solve",
            "",
            r"'solve' is not among .* \(none\)\. Ask for its absolute path to be added to FIELDCRAFT_PROGRAMS",
        ),
        ("../solve", "solve", "'../solve' is not among"),
        ("solve", "solve:other/solve", "'solve' is the name of .* and of .*Give the absolute path"),
        ("gone", "solve:gone", "gone, which FIELDCRAFT_PROGRAMS lists, is no program that this account may run"),
        ("plugins", "plugins", "plugins, which FIELDCRAFT_PROGRAMS lists, is no program"),
    ],
)
def test_a_program_that_the_operator_does_not_allow_is_refused_before_a_campaign_begins(
    place, monkeypatch, named, listed, message
):
    program(place / "other" / "solve", "exit 0")
    monkeypatch.setenv("FIELDCRAFT_PROGRAMS", os.pathsep.join(str(place / each) for each in listed.split(":") if each))
    with pytest.raises(InputError, match=rf"dispatcher\.program: .*{message}"):
        wired(place, program=named)


def test_a_permission_that_was_withdrawn_stops_the_next_job_and_not_the_reading_of_the_campaign(place, monkeypatch):
    data = wired(place, program=str(place / "solve")).data
    monkeypatch.setenv("FIELDCRAFT_PROGRAMS", "")
    known = rewire(data, settings_from(home=place / "home"))
    request = {"design": {"x": 0.5, "gas": "Ar"}, "outputs": {"value": "K"}, "seed": 3, "iteration": 0, "slot": 0}
    with pytest.raises(NotSent, match=r"gas-0001: dispatcher\.program: .* is not among .* nothing is lost"):
        known.dispatcher.submit(Job("gas-0001", "gas-0001-1", request))
    assert not (place / "home" / "work").exists()
    with pytest.raises(InputError, match="FIELDCRAFT_PROGRAMS names 'solve', which is no absolute path"):
        settings_from({"FIELDCRAFT_PROGRAMS": "solve"})


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        ({}, {"argments": []}, r"dispatcher\.argments: unknown key 'argments'\. Did you mean 'arguments'\?"),
        ({}, {"input": {"fil": "a"}}, r"dispatcher\.input\.fil: unknown key 'fil'\. Did you mean 'file'\?"),
        ({}, {"input": {"file": "../a"}}, r"dispatcher\.input\.file: Give at most 100 letters .*given: '\.\./a'"),
        (
            {},
            {"output": {"file": "/etc/a"}},
            r"dispatcher\.output\.file: Give .* digits, -, \. and _, none of - and \. first",
        ),
        ({}, {"output": {"file": "-a"}}, r"dispatcher\.output\.file: Give .* none of - and \. first"),
        (
            {},
            {"arguments": ["-n", 4]},
            r"arguments\.1: Input should be a valid string \(given: 4\)\. Write '4', in quotes",
        ),
        ({}, {"output": {"format": "csv"}}, r"dispatcher\.output\.format: .*'json' or 'netcdf'"),
        ({}, {"output": {"file": "design.json"}}, "input.file and output.file are both 'design.json'"),
        ({}, {"exit_codes": {"0": "unknown"}}, r"dispatcher\.exit_codes\.0.*greater than or equal to 1"),
        ({}, {"exit_codes": {"3": "bad"}}, r"dispatcher\.exit_codes\.3: .*'transient', 'infeasible' or 'unknown'"),
        ({}, {"arguments": ["{y}"]}, r"dispatcher: '\{y\}' has a place \{y\}, for which there is no value"),
        ({}, {"arguments": ["{inpt}"]}, r"for which there is no value\. Did you mean 'input'\?$"),
        ({}, {"arguments": ["a\0b"]}, r"'a\\x00b' holds a null byte, which ends an argument: take it out\.$"),
        ({}, {"input": {"template": "{ x }"}}, r"has a place \{ x \}"),
        ({"levels": ["N2", "--force"]}, {"arguments": ["{gas}"]}, "would become '--force'"),
        ({"levels": ["N2", "a\nb"]}, {}, "gas is 'a.nb', which holds a control character"),
        ({"name": "seed"}, {}, "variable 'seed' bears the name of a place in templates"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_place(place, problem, options, message):
    with pytest.raises(InputError, match=message):
        wired(place, problem, **options)


def test_a_simulator_beside_a_program_is_refused_and_idempotence_and_noise_are_the_files(place):
    plain, told = wired(place), wired(place, idempotent=True, noisy=True)
    assert (plain.simulator, plain.idempotent, plain.noisy) == (None, False, False)
    assert (told.idempotent, told.noisy) == (True, True)
    assert plain.limits.attempt_seconds == 600.0 and not plain.dispatcher.by_people
    again = rewire(json.loads(json.dumps(told.data)), told.settings)
    assert (again.data, again.digest) == (told.data, told.digest)
    spec = {**SPEC, "simulator": {"kind": "function"}, "dispatcher": {"kind": "command", "program": "solve"}}
    with pytest.raises(InputError, match=r"'function' is given, .* nothing is simulated but by it\. Leave simulator"):
        wire(parse(spec, "gas.yaml"), told.settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "it is no JSON"),
        ('{"value": 1, "value": 2}', r"it is no JSON \(it gives 'value' twice\)"),
        ('{"value": 1, "Gr\u00f6\u00dfe": 2}'.encode("latin-1"), "it is not UTF-8 text"),
        ("[1]", r"it holds \[1\], not a mapping"),
        ("{}", r"it holds \{\}, not a mapping"),
        ('{"value": "2"}', "'value' is '2': give a number"),
        ('{"value": true}', "'value' is True: give a number"),
        ('{"value": null}', "'value' is None: give a number"),
        ('{"value": [1, 2]}', r"'value' has 1 dimensions and the dims \[\]: name each"),
        ('{"value": {"values": [[1], [1, 2]], "dims": ["x", "y"]}}', "numbers of one shape"),
        ('{"value": {"value": 1}}', "'value' has the keys value: give 'values'"),
        ('{"value": {"values": 1, "units": "degC"}}', "'value' is in 'degC', and the problem has it in 'K'"),
    ],
)
def test_an_output_that_is_not_what_was_agreed_fails_with_what_is_wrong(place, text, message):
    (place / "text").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ProgramEnded, match=f"prog ended well, but its output cannot be used: .*{message}") as ended:
        ran(place, f"cp {place}/text result.json")
    assert ended.value.kind == "unknown"


def test_arrays_with_dims_and_coordinates_become_fields(place):
    data = {"value": 2, "T": {"values": [[1, 2, 3], [4, 5, 6]], "dims": ["y", "x"], "units": "K"}}
    data["x"] = {"values": [0.0, 0.5, 1.0], "dims": ["x"], "units": "m"}
    (place / "text").write_text(json.dumps(data))
    fields = ran(place, f"cp {place}/text result.json")
    assert fields["T"].dims == ("y", "x") and float(fields["T"].sel(x=0.5)[1]) == 5.0
    assert (fields["x"].attrs, fields["value"].attrs, fields["value"].dtype) == ({"units": "m"}, {"units": "K"}, float)


def test_a_netcdf_file_becomes_the_same_fields_with_plain_attributes(place):
    T = (("x",), np.arange(3.0), {"units": "K", "range": np.array([0.0, 2.0]), "n": np.int64(3)})
    written_ = xr.Dataset({"T": T, "value": ((), 2.0)}, coords={"x": ("x", [0.0, 1.0, 2.0], {"units": "m"})})
    written_.to_netcdf(place / "made.nc", engine="h5netcdf")
    fields = ran(place, f"cp {place}/made.nc out.nc", output="out.nc", form="netcdf")
    assert fields.drop_attrs().identical(written_.drop_attrs())
    assert fields["T"].attrs == {"units": "K", "range": [0.0, 2.0], "n": 3}
    job = JobFolder(place / "job")
    job.path.mkdir(exist_ok=True)
    assert job.begin()
    job.save(fields, 1.0)
    assert job.load().identical(fields), "it can be stored as it is"
    (place / "text.nc").write_text("no netCDF")
    with pytest.raises(ValueError, match="it is no netCDF-4 file that can be read"):
        from_netcdf(place / "text.nc")


@pytest.mark.parametrize(
    ("script", "kind", "message"),
    [
        ("echo the mesh is twisted; exit 9", "unknown", "prog ended with exit code 9: it printed nothing"),
        ("exit 3", "infeasible", "prog ended with exit code 3"),
        ("kill -9 $$", "lost", "prog was killed by SIGKILL"),
        ("kill -40 $$", "lost", "prog was killed by signal 40"),
        ("exit 0", "unknown", "it wrote no file 'result.json'. Compare dispatcher.output.file"),
        ("ln -s /etc/hostname result.json", "unknown", "it wrote no file 'result.json'"),
    ],
)
def test_a_program_that_gives_no_fields_says_why(place, script, kind, message):
    with pytest.raises(ProgramEnded, match=message) as ended:
        ran(place, script, exit_codes={"3": "infeasible"})
    assert ended.value.kind == kind
    job = JobFolder(place / "job")
    ended.value.tell(job, 1.5)
    verdict = job.verdict()
    assert verdict == (Lost(str(ended.value)) if kind == "lost" else Failed(kind, str(ended.value), seconds=1.5))


def test_a_program_that_cannot_be_started_fails_with_the_systems_word(place):
    (place / "data").write_bytes(b"\x00\x01")
    (place / "data").chmod(0o755)
    for argv in ([str(place / "nowhere")], [str(place / "data")]):
        with pytest.raises(ProgramEnded, match=r"could not be started: (No such file|Exec format error)"):
            ran(place, "exit 0", argv=argv)


def test_the_program_itself_is_part_of_what_is_approved(place):
    made = wired(place)
    before = covered(made.spec, made.settings)
    assert set(before.run) == {"program solve"}, "nothing else is started"
    assert {"problems/gas.py", "flows/dispatchers/command.py", "program solve"} <= set(before.code.files)
    program(place / "solve", "exit 1")
    assert before.code.differing(covered(made.spec, made.settings).code) == ("program solve",)
    (place / "solve").chmod(0o644)
    with pytest.raises(InputError, match=r"is no program that this account may run"):
        covered(made.spec, made.settings)

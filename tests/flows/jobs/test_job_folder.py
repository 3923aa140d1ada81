"""The folder of a job: written once by whoever runs it, read alike by everybody."""

import os

import pytest
import xarray as xr

from fieldcraft.flows.jobs.dispatcher import Failed, Finished
from fieldcraft.flows.jobs.job_folder import JobFolder, process_of, read_json, write_json


def test_a_file_written_once_is_never_replaced_and_no_draft_is_left(tmp_path):
    assert read_json(tmp_path / "x.json") == {}
    write_json(tmp_path / "x.json", {"a": 1}, once=True)
    with pytest.raises(FileExistsError, match=r"x\.json"):
        write_json(tmp_path / "x.json", {"a": 2}, once=True)
    assert read_json(tmp_path / "x.json") == {"a": 1}
    write_json(tmp_path / "x.json", {"a": 3})
    assert read_json(tmp_path / "x.json") == {"a": 3}
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_of_a_log_that_is_one_endless_line_only_the_end_is_read(tmp_path):
    job = JobFolder(tmp_path)
    assert job.last_line() == "it printed nothing"
    job.log.write_text("." * 1_000_000 + "no licence")
    assert job.last_line().endswith("no licence") and len(job.last_line()) <= 2000
    job.log.write_text("first\nthe mesh is twisted\n\n")
    assert job.last_line() == "the mesh is twisted"


def test_of_all_who_would_begin_or_bar_a_job_the_first_has_it(tmp_path):
    begun, barred = JobFolder(tmp_path / "work" / "a"), JobFolder(tmp_path / "work" / "b")
    for job in (begun, barred):
        job.prepare({"key": job.path.name})
        assert (job.request, job.started, job.verdict()) == ({"key": job.path.name}, {}, None)
    assert begun.begin() and not begun.begin() and not begun.bar({}, "it died")
    assert {name: begun.started[name] for name in ("pid", "boot")} == {
        name: process_of(os.getpid())[name] for name in ("pid", "boot")
    }
    assert begun.verdict() is None
    assert barred.bar(process_of(os.getpid()), "it died") and not barred.begin()
    assert barred.verdict() == Failed("transient", "it died", cost=0.0, seconds=0.0)


def test_a_result_says_how_long_its_job_took_whatever_the_clock_says_when_it_is_read(tmp_path):
    job = JobFolder(tmp_path / "work" / "a")
    job.prepare({"key": "a"})
    assert job.begin()
    write_json(job.path / "started.json", {**job.started, "at": job.started["at"] + 3600.0})  # set back since
    job.save(xr.Dataset({"value": ((), 1.0, {"units": "K"})}), 12.5)
    assert job.verdict() == Finished(pytest.approx(12.5, abs=1e-3))

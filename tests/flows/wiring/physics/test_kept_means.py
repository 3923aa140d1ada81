"""Means over very many cells that are kept on the disk: the same bits, no field read again, no lost field believed."""

import json
import shutil
from dataclasses import replace

import bars
import numpy as np
import pytest

from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.physics.kept_means import loaded, place_of
from fieldcraft.flows.wiring.physics.snapshots import _stored, snapshots_of
from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.problems.bracket import Bracket
from fieldcraft.physics.problems.cantilever_profile import CantileverProfile
from fieldcraft.physics.simulators.stated_equation import StatedEquation
from fieldcraft.storage.fields import fields_at

PROBLEM = CantileverProfile()
DESIGNS = PROBLEM.space.decode(PROBLEM.space.sample(2, np.random.default_rng(3)))
X = PROBLEM.space.encode(DESIGNS)


class Site:
    """A campaign whose runs leave fields of so many cells, read as by a process that has read none."""

    def __init__(self, home, cells):
        self.campaign = wire(
            parse({**bars.BAR, "algorithm": {"kind": "emulated"}}, "bar.yaml"), settings_from({}, home)
        )
        runs = [StatedEquation(cells).run(PROBLEM, design, np.random.default_rng(0)) for design in DESIGNS]
        self.outputs = np.array([list(PROBLEM.evaluate({}, each).values()) for each in runs])
        self.store = fields_at(self.campaign.settings.fields)
        self.refs = [self.store.write("bar", each) for each in runs]

    def read(self):
        _stored.cache_clear()
        return snapshots_of(self.campaign, [ref.digest for ref in self.refs], X, self.outputs)

    @property
    def means(self):
        return sorted((self.campaign.settings.work / ".means").glob("[!.]*"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("made")
    return home, Site(home, 10_400).read().values


@pytest.fixture
def site(made, tmp_path):
    shutil.copytree(made[0], tmp_path / "home")
    return Site(tmp_path / "home", 10_400)


def test_a_process_that_has_read_no_field_takes_the_means_that_are_kept(made, site):
    for ref in site.refs:
        shutil.rmtree(site.store.path(ref) / "field.zarr")
    assert made[1].shape == (2, 2, 10_000)
    np.testing.assert_array_equal(site.read().values, made[1])


def test_damaged_means_are_taken_anew_and_what_a_kill_left_is_cleared(made, site):
    before = site.means
    left = before[0].parent / ".staging" / "means-4194304-1"  # no process has this number
    left.mkdir(parents=True)
    for place in before:
        chunk = max(place.rglob("*"), key=lambda file: file.stat().st_size)
        chunk.write_bytes(chunk.read_bytes()[:-1] + b"\0")
    np.testing.assert_array_equal(site.read().values, made[1])
    for ref in site.refs:
        shutil.rmtree(site.store.path(ref) / "field.zarr")
    assert site.means == before and not left.exists()
    np.testing.assert_array_equal(site.read().values, made[1])


def test_means_of_a_newer_version_are_left_to_it_and_fields_teach_without(made, site):
    for place in site.means:
        manifest = place / "manifest.json"
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": 99}))
    before = [(place / "manifest.json").read_text() for place in site.means]
    np.testing.assert_array_equal(site.read().values, made[1])
    assert [(place / "manifest.json").read_text() for place in site.means] == before


def test_a_place_that_the_disk_will_not_name_keeps_nothing(tmp_path):
    assert loaded(tmp_path / ("a" * 300) / "b", PROBLEM.parametric) is None


def test_a_lost_field_teaches_nothing_although_its_means_are_kept(site):
    shutil.rmtree(site.store.path(site.refs[1]))
    assert site.read() is None


def test_where_the_disk_refuses_fields_teach_without(made, site):
    shutil.rmtree(site.campaign.settings.work)
    site.campaign.settings.work.write_text("no folder")
    np.testing.assert_array_equal(site.read().values, made[1])


def test_few_cells_are_read_where_they_are_stored(tmp_path):
    site = Site(tmp_path, 100)
    assert site.read().values.shape == (2, 2, 100) and site.means == []


def test_the_place_tells_over_what_means_are_taken(tmp_path):
    stated = PROBLEM.parametric
    (axis,) = stated.domain.axes
    longer = replace(stated, domain=Domain((Axis(axis.name, axis.low, 2 * axis.high, axis.unit),)))
    places = [place_of(tmp_path, "ab" * 32, each, cells) for each in (stated, longer) for cells in (None, (9,), (8,))]
    assert len(set(places)) == 6 and place_of(tmp_path, "cd" * 32, stated, None) not in places
    assert place_of(tmp_path, "ab" * 32, Bracket().parametric, None) is None

"""What ``in_one_flow`` returns or raises where a real Prefect server has lost its flow run meanwhile."""

from collections.abc import Iterator

import pytest
from remote_workers import PrefectSite, prefect_site

from fieldcraft.flows.campaign import in_one_flow
from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.machinery.progress import listening


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectSite]:
    with prefect_site(tmp_path_factory.mktemp("prefect")) as made:
        yield made


def test_passes_count_though_their_flow_run_was_deleted_in_prefect_and_that_is_told(site):
    told = []
    with listening(lambda event, details: told.append((event, dict(details)))):
        assert in_one_flow("gone", lambda: site.delete("gone") or "passed") == "passed"
    assert told == [("unshown", {"problem": "the flow run was deleted there"})]
    assert site.runs("gone") == []


@pytest.mark.parametrize("error", [FieldcraftError("evaluate failed"), KeyboardInterrupt()])
def test_an_error_within_is_the_one_that_is_raised_though_the_flow_run_was_deleted(site, error):
    def fail() -> None:
        site.delete("lost")
        raise error

    with pytest.raises(type(error)) as found:
        in_one_flow("lost", fail)
    assert found.value is error

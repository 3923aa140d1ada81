"""The contract of the ledger stands once: every back end keeps each promise as it is written, and repeats none."""

import inspect

import pytest

from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.ledger.custody import Custody
from fieldcraft.storage.ledger.queries import Queries
from fieldcraft.storage.ledgers.postgresql import PostgresLedger
from fieldcraft.storage.ledgers.sqlite import SqliteLedger

PROMISES = {
    name: promise
    for part in (Queries, Custody, Ledger)
    for name, promise in vars(part).items()
    if inspect.isfunction(promise) and not name.startswith("_")
}


def parameters(function):
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("backend", [SqliteLedger, PostgresLedger])
@pytest.mark.parametrize("name", PROMISES)
def test_each_promise_is_kept_with_its_parameters_and_described_in_the_contract_alone(backend, name):
    promise, kept = PROMISES[name], getattr(backend, name)
    assert kept is not promise, "a protocol's own method does nothing"
    assert parameters(kept) == parameters(promise)
    assert promise.__doc__ and kept.__doc__ is None


@pytest.mark.parametrize("backend", [SqliteLedger, PostgresLedger])
def test_a_back_end_offers_nothing_beside_the_contract_but_the_name_of_its_place(backend):
    assert {name for name in dir(backend) if not name.startswith("_")} == {*PROMISES, "shown"}


def test_no_promise_is_made_twice():
    parts = [vars(part).keys() & PROMISES.keys() for part in (Queries, Custody, Ledger)]
    assert sum(map(len, parts)) == len(PROMISES)
    assert len(PROMISES) > 50

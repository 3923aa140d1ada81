"""The statement under every change of a trial, where the look before it has come too early."""

import pytest
from sqlalchemy import create_engine, insert

from fieldcraft.storage.ledger import StaleTrial
from fieldcraft.storage.ledgers.operations.compare_and_swap import swap
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import get_trial, insert_trial
from fieldcraft.storage.records import UNLIMITED, CampaignRecord, Origin, TrialState, digest_of

CAMPAIGN = CampaignRecord(
    name="heat", spec={}, digest=digest_of({}), limits=UNLIMITED, environment={}, created=0.0, finished=None
)
ORIGIN = Origin(kind="initial", algorithm="sobol", seed=7, iteration=0, slot=0)


def test_a_row_that_was_changed_after_it_was_read_is_not_written():
    """As where two transactions read one row before either writes, which SQLite's lock never lets happen."""
    engine = create_engine("sqlite://")
    schema.metadata.create_all(engine)
    with engine.connect() as connection:
        connection.execute(insert(schema.campaigns).values(CAMPAIGN.model_dump(mode="json")))
        design = {"design": {"x": 0.5}, "origin": ORIGIN, "cost": 1.0}
        read = insert_trial(connection, CAMPAIGN, 1, 0, 0, state=TrialState.PROPOSED, **design)
        rejected = swap(connection, read, TrialState.REJECTED)
        with pytest.raises(StaleTrial, match="no longer PROPOSED at version 1: it is REJECTED at version 2"):
            swap(connection, read, TrialState.APPROVED)
        assert get_trial(connection, read.id) == rejected

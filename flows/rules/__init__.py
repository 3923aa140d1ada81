"""Pure questions about the ledger for steps, people and views: stop, retry, budget, approval, final model."""

"""Pure questions about the ledger that steps, people and views ask: stop, retry, budget, approval, final model."""

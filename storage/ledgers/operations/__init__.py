"""Operations of the ledger's transactions, one file for each concern."""

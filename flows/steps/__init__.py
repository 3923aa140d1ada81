"""One pass: harvest, dispatch, decide, collocate, train, acquire, approve; ``one_pass`` calls them in order."""

"""Studies: problems x algorithms x seeds, each cell an ordinary campaign, compared by regret."""

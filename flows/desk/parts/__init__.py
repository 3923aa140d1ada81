"""Parts of pages as data: the table of trials, the card of a proposal, the code of a work order."""

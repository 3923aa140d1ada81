"""The page of a campaign: one self-contained HTML file without scripts and without requests to the network."""

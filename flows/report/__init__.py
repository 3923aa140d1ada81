"""The page of a campaign: one self-contained HTML file, without requests to the network."""

"""Pages of a campaign: one self-contained HTML file, with no script in it and no request to anywhere."""

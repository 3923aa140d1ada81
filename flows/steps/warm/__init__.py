"""Start of a campaign from earlier ones."""

"""Pages of the desk, a router for each subject."""

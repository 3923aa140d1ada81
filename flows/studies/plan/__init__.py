"""The study file and the folder in which a study lies."""

"""The study file and the folder of a study."""

"""Flows: the pass, which combines physics, models and storage, and the commands and views for people."""

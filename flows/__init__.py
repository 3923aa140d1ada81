"""Flows: the pass that knows physics, models and storage, and what a person sees of it."""

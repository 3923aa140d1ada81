"""Processes of a simulator's levels, and the level at which a design is to be run."""

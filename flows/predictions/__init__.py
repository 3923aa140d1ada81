"""Predictions of stored models: of any design, of a design that a person made, asked here or of a process apart."""

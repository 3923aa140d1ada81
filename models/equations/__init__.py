"""Rows of differential equations, linear or not, and of what is known at the sides of their domains."""

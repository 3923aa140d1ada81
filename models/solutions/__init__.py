"""Exact solutions of linear equations, and beliefs about objectives that are made of them."""

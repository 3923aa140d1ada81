"""Beliefs under constraints: constrained posterior, success classifier, pending points, ADMM."""

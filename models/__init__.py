"""Surrogates, acquisitions, maximizers and proposers: mathematics in encoded coordinates, minimising."""

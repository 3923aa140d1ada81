"""Devices, seeds, limits, digests, point sets."""

"""Servers, leases, webhooks, progress, profiling, random streams: knows no campaign component."""

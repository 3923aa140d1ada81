"""Servers, leases, webhooks, progress, profiling and random streams; none of them knows a campaign component."""

"""Decisions of people: approve, reject, edit, prioritise, retry, abandon, cancel."""

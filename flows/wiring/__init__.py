"""The one border: a specification becomes components, records become arrays."""

"""A process that begins with the results of an earlier campaign."""

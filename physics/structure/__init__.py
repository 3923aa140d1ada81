"""Structure of a search space beside numbers in intervals: levels, vectors, conditions, exchanges."""

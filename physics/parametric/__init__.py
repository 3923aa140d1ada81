"""Physics with the design as a parameter: the equation of a problem's fields, and its solution on a grid."""

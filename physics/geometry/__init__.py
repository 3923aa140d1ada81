"""Sets of designs: boxes, lines, polytopes, mixtures, quadrics, and how many designs there are."""

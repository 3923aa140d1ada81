"""Several objectives: beliefs about each, the front of what is believed, and the improvement of its hypervolume."""

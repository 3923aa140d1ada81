"""Parts of observations: the scaling of results, and the physics that is known of the objective."""

"""What records amount to, with no torch and no solver: best design, feasibility, noise."""

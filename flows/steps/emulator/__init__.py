"""The network of a campaign as its emulator: its collocation points, and its training."""

"""Learning from cheap predictions of the outputs, which an emulator gives for any design."""

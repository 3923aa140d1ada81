"""Earlier campaigns that a campaign begins with."""

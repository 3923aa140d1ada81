"""The commands, by what they are for; ``flows.cli`` puts them together."""

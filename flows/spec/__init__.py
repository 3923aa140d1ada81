"""The campaign file: YAML in, canonical JSON and digest out; the directory registry of kinds."""

"""Physics of a problem and the surrogates that learn from it: equations of the objective, and emulators."""

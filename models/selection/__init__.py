"""Choice among surrogates by predictive evidence (``auto``)."""

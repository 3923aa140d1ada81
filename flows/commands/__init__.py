"""Commands of ``fieldcraft``, grouped by purpose; ``flows.cli`` puts them together."""

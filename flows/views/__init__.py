"""Views of a campaign for people, as data, text, table or chart."""

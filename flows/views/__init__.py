"""What a person sees of a campaign, as data, text, table or chart."""

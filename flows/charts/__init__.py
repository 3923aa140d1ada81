"""Charts of a campaign as Plotly figures, for the report, the desk and the notebook alike."""

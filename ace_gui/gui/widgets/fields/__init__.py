"""Input controls: fields, buttons, segments."""

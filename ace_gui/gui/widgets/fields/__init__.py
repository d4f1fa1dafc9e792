"""What a person sets: fields, buttons, segments."""

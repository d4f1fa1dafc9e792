"""What the window knows: no widget, no process."""

"""Tours of the window: coach marks in turn; the tutorial; the demo."""

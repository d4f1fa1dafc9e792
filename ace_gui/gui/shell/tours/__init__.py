"""Tours of the window with coach marks: the tutorial and the demo."""

"""The layout of the window: the input column, the workspaces and their cards."""

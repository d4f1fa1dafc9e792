"""How the window shares its room: the column of inputs, the workspaces, their cards."""

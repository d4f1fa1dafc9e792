"""The open project: opening by dialog or drop, saving, leaving."""

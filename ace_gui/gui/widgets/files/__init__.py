"""File dialogs, and actions for written files."""

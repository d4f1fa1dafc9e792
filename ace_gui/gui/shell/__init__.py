"""The window as a whole: layout, actions, menus, dialogs."""

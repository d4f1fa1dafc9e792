"""Read-only widgets: texts, formulas, icons, empty states."""

"""Layout: columns, cards, tabs, collapsible sections."""

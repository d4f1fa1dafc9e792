"""How widgets are arranged: columns, cards, tabs, folds."""

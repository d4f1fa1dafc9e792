"""What is open: opening it by dialogs and drops, saving it, leaving it."""

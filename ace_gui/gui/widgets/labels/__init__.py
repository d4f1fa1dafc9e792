"""What is only read: words, formulas, icons, empty places."""

"""Model files on disk: opened by their headers, read and written one tensor at a time."""

"""The Compare workspace: several methods, or two merges layer by layer."""

"""From a finished store to a model folder."""

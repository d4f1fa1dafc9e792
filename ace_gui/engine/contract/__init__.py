"""What the engine and its owner say to each other: plain values, free of torch."""

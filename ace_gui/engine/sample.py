def sample_accuracies():
    yield from ()

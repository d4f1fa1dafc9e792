from ace_gui.gui.plots.frame.axes import block_spans


def test_a_block_goes_from_its_first_layer_to_the_next_one() -> None:
    assert block_spans([(0, "0"), (2, "1")], 5) == [((-0.5, 1.5), "0"), ((1.5, 4.5), "1")]


def test_there_may_be_no_layers() -> None:
    """As of two merges when something else was opened."""
    assert block_spans([], 0) == []
    assert block_spans([], 3) == []

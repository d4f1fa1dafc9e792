from ace_gui.engine.streaming import packed


def test_consecutive_items_are_packed_up_to_a_size() -> None:
    assert list(packed([3, 1, 4, 1, 5, 9, 2], int, 5)) == [[3, 1], [4, 1], [5], [9], [2]]
    assert list(packed([0, 0, 7], int, 5)) == [[0, 0], [7]]  # empty items first
    assert list(packed([], int, 5)) == []

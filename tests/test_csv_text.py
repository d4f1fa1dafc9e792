"""Tables as CSV: a name out of a file is never a formula."""

import csv

import pytest

from ace_gui.formatting import csv_text


@pytest.mark.parametrize("first", "=+-@\t\r")
@pytest.mark.parametrize("rest", ["cmd|' /C calc'!A0", "1+1", "", "layer.weight"])
def test_no_text_is_a_formula(first: str, rest: str) -> None:
    (found,) = csv.reader([csv_text([[first + rest, "weight"]])], strict=True)
    assert found == [f"'{first}{rest}", "weight"]


@pytest.mark.parametrize("value", [-1.5, -3, "-1.5", "+2e-3", "a=b", "", None, "layer-1", "-inf"])
def test_other_values_stay(value: object) -> None:
    (found,) = csv.reader([csv_text([[value, "x"]])], strict=True)
    assert found == ["" if value is None else str(value), "x"]

import pytest

from ace_gui.engine.cluster.address import Address
from ace_gui.errors import ClusterError


def test_addresses() -> None:
    assert Address.of("local:4") == Address(workers=4)
    assert Address.of("auto") == Address(url="auto")
    assert Address.of("ray://head.example:10001").url == "ray://head.example:10001"


@pytest.mark.parametrize(
    "text",
    ["", "local", "local:", "local:0", "local:-1", "local:99999", "4", "ray://", "ray://host",
     "http://host:1", "ray://host:1/../x", "local:2\n", "ray://a b:1"],
)  # fmt: skip
def test_what_is_none(text: str) -> None:
    with pytest.raises(ClusterError, match="is not a cluster; give"):
        Address.of(text)

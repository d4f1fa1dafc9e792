"""The operation that torch does not document: whether this release has it as it is called here."""

from pathlib import Path

import pytest
import torch

from ace_gui.linalg import products


@pytest.fixture
def operation() -> None:
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        pytest.skip("this build of torch has no oneDNN beside MKL")


@pytest.mark.usefixtures("operation")
def test_this_release_has_it_with_the_arguments_that_it_is_called_with() -> None:
    """Merges would be right without it, and slower: a new release must not lose it unseen."""
    schema = torch.ops.mkldnn._linear_pointwise.default._schema
    assert [(argument.name, str(argument.type)) for argument in schema.arguments] == [
        ("X", "Tensor"),
        ("W", "Tensor"),
        ("B", "Optional[Tensor]"),
        ("attr", "str"),
        ("scalars", "List[Optional[number]]"),
        ("algorithm", "Optional[str]"),
    ]
    assert products._usable()


@pytest.mark.usefixtures("operation")
@pytest.mark.parametrize(("n", "k", "m"), [(1, 1, 1), (3, 70, 5), (33, 65, 129), (257, 31, 2)])
def test_it_is_the_documented_product(n: int, k: int, m: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(n, k, generator=generator), torch.randn(m, k, generator=generator)
    exact = x.double() @ w.double().T
    error = (products.linear(x, w) - exact).norm() / exact.norm()
    public = (torch.nn.functional.linear(x, w) - exact).norm() / exact.norm()
    assert error <= 2 * public + 1e-7


@pytest.mark.parametrize("problem", [AttributeError, RuntimeError, TypeError])
def test_a_release_without_it_is_noticed(
    problem: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(*_: object) -> None:
        raise problem

    monkeypatch.setattr(products, "linear", absent)
    assert not products._usable()


def test_one_that_computes_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "linear", lambda x, _: x + 1)
    assert not products._usable()


@pytest.mark.parametrize(("said", "taken"), [("GenuineIntel", True), ("AuthenticAMD", False)])
def test_whose_processor_it_is(
    said: str, taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor\t: 0\nvendor_id\t: {said}\n", encoding="ascii")
    monkeypatch.setattr(products, "Path", lambda _: info)
    monkeypatch.delenv("PROCESSOR_IDENTIFIER", raising=False)
    assert products._by_intel() == taken
    monkeypatch.setattr(products, "Path", lambda _: tmp_path / "none")
    assert not products._by_intel()
    monkeypatch.setenv("PROCESSOR_IDENTIFIER", f"Family 6, {said}")
    assert products._by_intel() == taken

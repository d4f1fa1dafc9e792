"""The devices of this machine, by the names that torch gives them."""

from __future__ import annotations

import torch

from ace_gui.engine.contract.events import DeviceInfo
from ace_gui.errors import ResourceError
from ace_gui.machine import processors


def use_threads(wanted: int | None) -> None:
    """Let torch compute with so many threads; None: as it chooses, within a container's share."""
    torch.set_num_threads(wanted or min(torch.get_num_threads(), processors()))


def available_devices() -> tuple[DeviceInfo, ...]:
    """Every device a merge can run on, the processor first."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = tuple(
        DeviceInfo(name=f"cuda:{index}", title=torch.cuda.get_device_name(index))
        for index in range(count)
    )
    return (DeviceInfo(name="cpu", title="Processor (CPU)"), *gpus)


def resolve_device(name: str) -> torch.device:
    """The device of that name; ``auto`` is the first GPU, or else the processor.

    Raises ResourceError for a device this machine does not have.
    """
    names = [device.name for device in available_devices()]
    if name == "auto":
        return torch.device(names[1] if len(names) > 1 else "cpu")
    wanted = "cuda:0" if name == "cuda" else name
    if wanted not in names:
        raise ResourceError(
            f"There is no device {name!r} on this machine; available: {', '.join(names)}."
        )
    return torch.device(wanted)

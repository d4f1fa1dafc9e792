"""What this version and this machine offer: methods and devices."""

from __future__ import annotations

from ace_gui.engine.capabilities import available_devices, method_info
from ace_gui.engine.contract.events import DeviceInfo, MethodInfo
from ace_gui.methods import METHODS


def list_methods() -> tuple[MethodInfo, ...]:
    """Every merge method, with its title, formula, parameters and citation.

    >>> [each.title for each in ace_gui.list_methods()][:2]
    ['ACE-Merging', 'WUDI-Merging']
    """
    return tuple(method_info(name) for name in METHODS)


def devices() -> tuple[DeviceInfo, ...]:
    """The devices that can compute: the processor, and GPUs.

    >>> ace_gui.devices()[0].name
    'cpu'
    """
    return available_devices()

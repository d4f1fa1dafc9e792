"""Makes the bill of materials of a release, as CycloneDX JSON, from the lock alone.

Run ``python packaging/make_sbom.py FILE``. It needs no network: names, versions, hashes and what
needs what stand in ``requirements.lock``. What only development needs is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from lock_file import PROJECT, Locked, needed_by, read_lock, wanted_directly
from packageurl import PackageURL

from ace_gui import __version__


def main() -> None:
    """Write the file."""
    out = Path(sys.argv[1])
    out.write_text(sbom(read_lock()), encoding="utf-8")
    print(f"{out}: the bill of materials")


def sbom(locked: Collection[Locked]) -> str:
    """The bill of materials of the application, as JSON text."""
    direct = wanted_directly()
    shipped = needed_by(direct, locked)
    bom = Bom()
    application = _component(PROJECT, __version__, ComponentType.APPLICATION)
    bom.metadata.component = application
    components = {package: _package(package) for package in locked if package.name in shipped}
    for package, component in components.items():
        bom.components.add(component)
        needed = [found for other, found in components.items() if package.name in other.via]
        bom.register_dependency(component, needed)
    bom.register_dependency(
        application, [found for package, found in components.items() if package.name in direct]
    )
    return JsonV1Dot6(bom).output_as_string(indent=1)


def _package(package: Locked) -> Component:
    component = _component(package.name, package.version, ComponentType.LIBRARY)
    for digest in package.hashes:
        component.properties.add(Property(name="ace:file:sha256", value=digest))
    if len(package.hashes) == 1:
        component.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=package.hashes[0]))
    if package.marker:
        component.properties.add(Property(name="ace:marker", value=package.marker))
    return component


def _component(name: str, version: str, kind: ComponentType) -> Component:
    address = PackageURL(type="pypi", name=name, version=version)
    return Component(name=name, version=version, type=kind, bom_ref=str(address), purl=address)


if __name__ == "__main__":
    main()

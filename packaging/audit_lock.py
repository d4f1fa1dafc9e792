"""Asks a vulnerability service about every version in the lock, for all platforms at once.

Run ``python packaging/audit_lock.py``. Exit status 1 where something is known against a version.
Where no service can be reached it says so and ends with 0, or with 1 under ``--required`` (for a
release). It sends names and versions, nothing else.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from lock_file import Locked, read_lock

SERVICE = os.environ.get("ACE_AUDIT_SERVICE", "https://api.osv.dev/v1/querybatch")
KNOWN_BAD = ("jinja2", "2.4.1")
"""Something must be known against it, or the service did not really answer."""


def main() -> None:
    """Ask, print, and exit."""
    locked = read_lock()
    try:
        found = advisories(locked, SERVICE)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"The lock was NOT audited: {SERVICE} cannot be reached from here ({error}).")
        sys.exit("--required" in sys.argv)
    for package, names in found.items():
        print(f"{package}: {', '.join(names)}")
    print(f"{len(locked)} versions audited, {len(found)} with advisories.")
    sys.exit(bool(found))


def advisories(locked: Sequence[Locked], service: str) -> dict[str, list[str]]:
    """Names of advisories by ``package==version``. Raises OSError or ValueError without answer."""
    asked = [KNOWN_BAD, *((package.name, package.version) for package in locked)]
    queries = [
        {"package": {"ecosystem": "PyPI", "name": name}, "version": version}
        for name, version in asked
    ]
    results = _answer(service, {"queries": queries})["results"]
    if len(results) != len(asked) or not results[0].get("vulns"):
        raise ValueError("it does not answer as a vulnerability service does")
    return {
        f"{name}=={version}": [entry["id"] for entry in result["vulns"]]
        for (name, version), result in zip(asked[1:], results[1:], strict=True)
        if result.get("vulns")
    }


def _answer(service: str, question: Mapping[str, Any]) -> Any:
    request = urllib.request.Request(
        service,
        data=json.dumps(question).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as response:
        return json.loads(response.read(20_000_000))


if __name__ == "__main__":
    main()

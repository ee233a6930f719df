"""Draw docs/reference/openapi.json: `python -m holdfast.web.document`."""

from __future__ import annotations

import json
import sys

from holdfast.web.app import create_app
from holdfast.web.settings import WebSettings


def render() -> str:
    """The document as it is committed."""
    return json.dumps(create_app(WebSettings()).openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())

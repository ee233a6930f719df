"""No request that the document allows, and none that it does not, is answered otherwise than it says.

`make fuzz` takes five minutes for it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.console.conftest import Shop
from tests.web.conftest import Serve
from tests.web.fuzzing import fuzz

SECONDS = int(os.environ.get("HOLDFAST_FUZZ_S", "25"))


@pytest.mark.timeout(SECONDS + 150)
def test_no_answer_is_undocumented_and_none_is_a_failure_of_ours(
    serve: Serve, shop: Shop, tmp_path: Path
) -> None:
    shop.submit("a", "b", "c", payload={"password": "x"})
    shop.submit("child", wait_for=["a"], resource_keys=["smtp"], singleton_key="k", tags=["eu"])
    shop.dead("d", "e")
    shop.running("r")
    shop.ended("over")
    done = fuzz(serve().address, SECONDS, tmp_path)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]

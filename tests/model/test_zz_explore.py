import os
from hypothesis import HealthCheck, Phase, settings, seed
from hypothesis.stateful import run_state_machine_as_test
from tests.model.machine import Machine
def test_explore(conn):
    class M(Machine): pass
    M.conn = conn
    run_state_machine_as_test(M, settings=settings(max_examples=int(os.environ.get("N","40")), stateful_step_count=50, derandomize=os.environ.get("R") is None, database=None, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,) if not os.environ.get("S") else (Phase.generate,Phase.shrink), report_multiple_bugs=False))

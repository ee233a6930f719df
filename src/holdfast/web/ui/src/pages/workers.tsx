import { useData } from "../lib/data";
import { term } from "../lib/query";
import { jobAt, jobsAt } from "../lib/router";
import type { Worker } from "../lib/types";
import { moment } from "../lib/words";
import { Ago, Badge, Empty, For, Loading, Num, Page, Trouble } from "../parts/small";

/** Whether nobody expects to hear of it again: the server says so, or all of its leases have lapsed. */
function isLost(worker: Worker): boolean {
  return worker.status === "lost" || (worker.jobs > 0 && worker.lapsed === worker.jobs);
}

function from(worker: Worker): string {
  const place = [worker.host, worker.pid && `pid ${worker.pid}`].filter(Boolean).join(", ");
  return [place, worker.version && `Holdfast ${worker.version}`, worker.started_at && `since ${moment(worker.started_at)}`].filter(Boolean).join("; ");
}

function Standing({ worker }: { worker: Worker }) {
  if (isLost(worker)) {
    return (
      <Badge tone="bad" icon="cross" title="nothing was heard of it for long; its jobs go to others">
        Lost
      </Badge>
    );
  }
  if (worker.lapsed > 0) {
    return (
      <Badge tone="warn" icon="alert" title="some of its leases lapsed">
        Late
      </Badge>
    );
  }
  return worker.jobs > 0 ? (
    <Badge tone="running" icon="play">
      Working
    </Badge>
  ) : (
    <Badge tone="good" icon="check">
      Idle
    </Badge>
  );
}

export function WorkersPage() {
  const data = useData<{ workers: Worker[] }>("/api/workers", { restMs: 5000 });
  const found = data.value.value?.workers;
  const order = (each: Worker): number => (isLost(each) ? 1 : 0);
  const sorted = [...(found ?? [])].sort((one, other) => order(other) - order(one) || one.worker_id.localeCompare(other.worker_id));
  return (
    <Page title="Workers" about="Who runs jobs, what each of them runs now, and who has not been heard of.">
      <Trouble problem={data.error.value} again={() => void data.refresh()} />
      {!found && !data.error.value && <Loading />}
      {found?.length === 0 && (
        <Empty title="No worker is at work.">
          Start one: <code>holdfast worker shop:hf</code>
        </Empty>
      )}
      {sorted.length > 0 && (
        <div class="table-box">
          <table class="workers">
            <thead>
              <tr>
                <th>Worker</th>
                <th>Standing</th>
                <th class="right">Jobs</th>
                <th class="wide">Queues</th>
                <th class="right" title="how long ago it claimed a job, extended a lease or said it is there">Last beat</th>
                <th class="right wide" title="how long its oldest job is held">Oldest</th>
                <th>Runs now</th>
              </tr>
            </thead>
            <tbody>
              {sorted.map((worker) => (
                <tr key={worker.worker_id}>
                  <th scope="row" class="cut id" title={from(worker)}>
                    <a href={jobsAt(`state:RUNNING,CANCELLING ${term("worker", worker.worker_id)}`)}>{worker.worker_id}</a>
                  </th>
                  <td>
                    <Standing worker={worker} />
                  </td>
                  <td class="right">
                    <Num value={worker.jobs} />
                    {worker.capacity != null && <span class="faint num">/{worker.capacity}</span>}
                  </td>
                  <td class="cut wide">{worker.queues.join(", ")}</td>
                  <td class="right nowrap">
                    <Ago at={worker.seen_at} />
                  </td>
                  <td class="right nowrap wide">
                    <For from={worker.oldest_at} />
                  </td>
                  <td class="says cut">
                    {worker.job_ids.map((id) => (
                      <a key={id} class="tag" href={jobAt(id)}>
                        {id}
                      </a>
                    ))}
                    {worker.jobs > worker.job_ids.length && <span class="faint"> and {worker.jobs - worker.job_ids.length} more</span>}
                    {worker.jobs === 0 && <span class="faint">–</span>}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Page>
  );
}

import { setNumber, setPaused } from "../lib/acting";
import { useData } from "../lib/data";
import { stateTerm, term } from "../lib/query";
import { jobsAt } from "../lib/router";
import { may } from "../lib/settings";
import type { Queue } from "../lib/types";
import { since } from "../lib/words";
import { EditableNumber } from "../parts/number";
import { Icon } from "../parts/icon";
import { Badge, Empty, For, Loading, Num, Page, Trouble } from "../parts/small";

const SLOW_S = 60;

function Standing({ queue }: { queue: Queue }) {
  if (queue.paused_at) {
    return (
      <Badge tone="warn" icon="pause" title={`since ${queue.paused_at}`}>
        Paused
      </Badge>
    );
  }
  if (queue.oldest_due_at && since(queue.oldest_due_at) > SLOW_S) {
    return (
      <Badge tone="warn" icon="clock" title="the first job in line waits for long">
        Behind
      </Badge>
    );
  }
  if (queue.held) {
    return (
      <Badge tone="running" icon="play">
        Working
      </Badge>
    );
  }
  return (
    <Badge tone="good" icon="check">
      {queue.due ? "Ready" : "Idle"}
    </Badge>
  );
}

function Row({ queue, most }: { queue: Queue; most: number }) {
  const full = queue.due + queue.delayed >= queue.counted_to;
  const of = term("queue", queue.queue);
  const at = (states: string[], more = ""): string => jobsAt([stateTerm(states), of, more].filter(Boolean).join(" "));
  const depth = queue.due + queue.delayed + queue.blocked;
  return (
    <tr>
      <th scope="row" class="cut id">
        <a href={jobsAt(of)}>{queue.queue}</a>
      </th>
      <td>
        <Standing queue={queue} />
      </td>
      <td class="depth wide">
        <meter min={0} max={Math.max(most, 1)} value={depth} aria-label={`Depth of ${queue.queue}`} />
      </td>
      <td class="right">
        <a class="quiet" href={jobsAt(`status:READY ${of}`)}>
          <Num value={queue.due} capped={full} />
        </a>
      </td>
      <td class="right wide">
        <Num value={queue.delayed} capped={full && queue.delayed > 0} />
      </td>
      <td class="right wide">
        <Num value={queue.blocked} capped={queue.blocked >= queue.counted_to} />
      </td>
      <td class="right">
        <a class="quiet" href={at(["RUNNING", "CANCELLING"])}>
          <Num value={queue.held} />
        </a>
      </td>
      <td class="right dead">
        <a class="quiet" href={at(["DEAD"])}>
          <Num value={queue.dead} capped={queue.dead >= queue.counted_to} />
        </a>
      </td>
      <td class="right nowrap">
        <For from={queue.oldest_due_at} />
      </td>
      {queue.max_running !== undefined && (
        <td class="right wide">
          <EditableNumber
            value={queue.max_running}
            what={`Limit of ${queue.queue}`}
            none="none"
            may={may("admin")}
            onSet={(value) => void setNumber("queues", queue.queue, value, queue.max_running ?? null)}
          />
        </td>
      )}
      <td class="right">
        {may("operator") && (
          <button
            type="button"
            class="button small"
            aria-label={`${queue.paused_at ? "Resume" : "Pause"} ${queue.queue}`}
            onClick={() => void setPaused(queue.queue, !queue.paused_at)}
          >
            <Icon name={queue.paused_at ? "play" : "pause"} /> <span>{queue.paused_at ? "Resume" : "Pause"}</span>
          </button>
        )}
      </td>
    </tr>
  );
}

export function QueuesPage() {
  const data = useData<{ queues: Queue[] }>("/api/queues");
  const lines = data.value.value?.queues;
  const most = Math.max(1, ...(lines ?? []).map((each) => each.due + each.delayed + each.blocked));
  const limited = lines?.some((each) => each.max_running !== undefined);
  return (
    <Page title="Queues" about="Every queue that has a live job or is paused.">
      <Trouble problem={data.error.value} again={() => void data.refresh()} />
      {!lines && !data.error.value && <Loading />}
      {lines?.length === 0 && <Empty title="No queue has a live job, and none is paused." />}
      {lines && lines.length > 0 && (
        <div class="table-box">
          <table class="queues">
            <thead>
              <tr>
                <th>Queue</th>
                <th>Standing</th>
                <th class="wide">Depth</th>
                <th class="right" title="could run now">Due</th>
                <th class="right wide" title="will be due later">Delayed</th>
                <th class="right wide" title="wait for other jobs">Blocked</th>
                <th class="right" title="in the hands of workers">Running</th>
                <th class="right dead">Dead</th>
                <th class="right" title="how long the first of the due has waited">Oldest</th>
                {limited && <th class="right wide" title="how many may run at once">Limit</th>}
                <th>
                  <span class="sr">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {lines.map((queue) => (
                <Row key={queue.queue} queue={queue} most={most} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Page>
  );
}

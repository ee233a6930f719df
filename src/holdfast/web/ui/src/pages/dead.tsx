import { useState } from "preact/hooks";
import { useData } from "../lib/data";
import { jobAt, jobsAt } from "../lib/router";
import { may } from "../lib/settings";
import type { Action, DeadGroup } from "../lib/types";
import { number } from "../lib/words";
import { BulkDialog } from "../parts/bulk";
import { Icon } from "../parts/icon";
import { Ago, Empty, Loading, Page, Trouble } from "../parts/small";

const WORDS: [Action, string, "operator" | "admin"][] = [
  ["revive", "Retry all", "operator"],
  ["cancel", "Cancel all", "operator"],
  ["delete", "Delete all", "admin"],
];

export function DeadPage() {
  const data = useData<{ groups: DeadGroup[] }>("/api/dead", { busyMs: 4000 });
  const [asked, setAsked] = useState<{ action: Action; q: string } | null>(null);
  const groups = data.value.value?.groups;
  return (
    <Page title="Dead letters" about="Jobs that failed for good, by what went wrong. They stay until somebody retries, cancels or deletes them.">
      <Trouble problem={data.error.value} again={() => void data.refresh()} />
      {!groups && !data.error.value && <Loading />}
      {groups?.length === 0 && <Empty title="No dead letters.">Everything that failed was retried, or has not failed for good.</Empty>}
      <div class="groups">
        {groups?.map((group) => (
          <article class="card group" key={group.fingerprint}>
            <div class="group-count">
              <strong class="num">{number(group.count, group.capped)}</strong>
              <span class="faint">{group.count === 1 && !group.capped ? "job" : "jobs"}</span>
            </div>
            <div class="group-body">
              <h2 class="error-text">{group.error || "No message"}</h2>
              <p class="faint">
                {group.task ? <code>{group.task}</code> : "no task"} · last <Ago at={group.last_at} />
                {group.count > 1 && (
                  <>
                    {" "}
                    · first <Ago at={group.first_at} />
                  </>
                )}{" "}
                · for example <a href={jobAt(group.sample_id)}>{group.sample_id}</a>
              </p>
            </div>
            <div class="group-actions">
              <a class="button small" href={jobsAt(group.q)}>
                <Icon name="jobs" /> Show
              </a>
              {WORDS.filter(([, , role]) => may(role)).map(([action, word]) => (
                <button key={action} type="button" class="button small" onClick={() => setAsked({ action, q: group.q })}>
                  {word}…
                </button>
              ))}
            </div>
          </article>
        ))}
      </div>
      {asked && <BulkDialog action={asked.action} target={{ q: asked.q }} onClose={() => setAsked(null)} />}
    </Page>
  );
}

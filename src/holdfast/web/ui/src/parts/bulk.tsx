import { useEffect, useState } from "preact/hooks";
import { actOnAll, actOnEach, PAST, VERB } from "../lib/acting";
import { post, Problem } from "../lib/api";
import type { Action, DryRun, Job } from "../lib/types";
import { firstLine, jobs, number } from "../lib/words";
import { Dialog } from "./dialog";
import { Loading, StateBadge, Trouble } from "./small";

const MANY = 1000;

/** All jobs of a query as they are now, or those that were picked. */
export type Target = { q: string } | { ids: string[]; picked: Job[] };

interface Props {
  action: Action;
  target: Target;
  onClose: (done: boolean) => void;
}

/** Say how many jobs it would be, and which, before anything is done. */
export function BulkDialog({ action, target, onClose }: Props) {
  const [seen, setSeen] = useState<DryRun | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [typed, setTyped] = useState("");
  const all = "q" in target;

  useEffect(() => {
    if (!all) {
      setSeen({ count: target.ids.length, capped: false, snapshot: null, samples: target.picked.slice(0, 5) });
      return;
    }
    post<DryRun>("/api/bulk", { action, q: target.q, dry_run: true }).then(setSeen, (error: unknown) =>
      setProblem(error instanceof Problem ? error : new Problem(0, "It cannot be counted.", String(error))),
    );
  }, []);

  const count = seen?.count ?? 0;
  const must = (action === "delete" || count > MANY || !!seen?.capped) && count > 0;
  const wanted = String(count);
  const ready = seen !== null && count > 0 && (!must || typed.replace(/[,\s+]/g, "") === wanted);
  const confirm = (): void => {
    if (!ready || !seen) return;
    if (all) void actOnAll(action, target.q, seen.snapshot, count);
    else void actOnEach(action, target.ids);
    onClose(true);
  };
  return (
    <Dialog title={`${VERB[action]} jobs`} onClose={() => onClose(false)} class="bulk">
      <Trouble problem={problem} />
      {!seen && !problem && <Loading rows={3} />}
      {seen && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            confirm();
          }}
        >
          <p class="bulk-count">
            {count === 0 ? (
              `No job of these can be ${PAST[action]}.`
            ) : (
              <>
                <strong>{jobs(count, seen.capped)}</strong> will be {PAST[action]}.{" "}
                {all && "Jobs that come after this count are left alone."}
              </>
            )}
          </p>
          {all && (
            <p class="bulk-query">
              <span class="faint">Query</span> <code>{target.q || "(all jobs)"}</code>
            </p>
          )}
          {seen.samples.length > 0 && (
            <ul class="samples" aria-label="Some of them">
              {seen.samples.map((job) => (
                <li key={job.job_id}>
                  <StateBadge job={job} />
                  <code class="cut">{job.job_id}</code>
                  <span class="cut faint">{job.error_message ? firstLine(job.error_message) : (job.task ?? job.next_need)}</span>
                </li>
              ))}
              {count > seen.samples.length && (
                <li class="faint">and {number(count - seen.samples.length, seen.capped)} more</li>
              )}
            </ul>
          )}
          {action === "delete" && count > 0 && <p class="warning">Deleting cannot be undone.</p>}
          {must && (
            <label class="field">
              <span>
                Type <strong>{wanted}</strong> to confirm
              </span>
              <input
                type="text"
                inputMode="numeric"
                autoComplete="off"
                value={typed}
                onInput={(event) => setTyped(event.currentTarget.value)}
              />
            </label>
          )}
          <div class="dialog-actions">
            <button type="button" class="button" onClick={() => onClose(false)}>
              Leave them
            </button>
            <button type="submit" class={action === "revive" ? "button primary" : "button danger"} disabled={!ready}>
              {count === 0 ? VERB[action] : `${VERB[action]} ${jobs(count, seen.capped)}`}
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

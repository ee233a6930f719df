// The life of a job as stretches of time, from what is known of it. What is not known is not guessed.

import type { Job, JobView } from "./types";

export type Kind = "delayed" | "waited" | "ran" | "failed" | "unknown";

export interface Stretch {
  kind: Kind;
  from: number;
  to: number;
  word: string;
  /** It goes on: its end is now. */
  open: boolean;
}

const ms = (at: string): number => Date.parse(at);

/** When each run began, as far as it is known: the first, the last, and those that were traced. */
function beginnings(job: JobView): number[] {
  const found = job.trace.events.filter((each) => each.event === "job_retrieved").map((each) => ms(each.at));
  if (job.started_at) found.push(ms(job.started_at));
  if (job.assigned_at) found.push(ms(job.assigned_at));
  return [...new Set(found)].sort((one, other) => one - other);
}

const HELD = new Set(["RUNNING", "CANCELLING"]);
const HANDED_BACK = new Set(["reschedule_job", "job_released", "lease_expired"]);

/** How runs ended: counted failures, hand-backs that were traced, and the end of the job. */
function endings(job: JobView): { at: number; kind: Kind; word: string }[] {
  const found = job.errors.map((each) => ({ at: ms(each.at), kind: "failed" as Kind, word: `Attempt ${each.attempt} failed` }));
  for (const event of job.trace.events) {
    if (!HANDED_BACK.has(event.event)) continue;
    const at = ms(event.at);
    const word = event.event === "lease_expired" ? "Lost: the lease lapsed" : "Handed back";
    if (!found.some((each) => Math.abs(each.at - at) < 5)) found.push({ at, kind: event.event === "lease_expired" ? "unknown" : "ran", word });
  }
  if (job.finalized_at && job.started_at) {
    const at = ms(job.finalized_at);
    const good = job.state === "COMPLETED";
    if (!found.some((each) => Math.abs(each.at - at) < 5)) found.push({ at, kind: good ? "ran" : "unknown", word: good ? "Ran" : "Until it ended" });
  }
  return found.sort((one, other) => one.at - other.at);
}

/** The stretches in order, without gaps, from its creation to its end or to now. */
export function story(job: JobView, now: number): Stretch[] {
  const found: Stretch[] = [];
  let at = ms(job.created_at);
  /** `sure`: it was so, even if it took less than a moment. */
  const add = (kind: Kind, to: number, word: string, open = false, sure = false): void => {
    if (to > at || open || sure) found.push({ kind, from: at, to: Math.max(to, at), word, open });
    at = Math.max(at, to);
  };
  const starts = beginnings(job);
  const due = ms(job.available_at);
  const first = starts[0];
  if (job.attempts === 0 && due > at) add("delayed", Math.min(due, first ?? now), "Delayed");
  for (const end of endings(job)) {
    const start = starts.find((each) => each >= at && each <= end.at);
    if (start !== undefined) {
      add("waited", start, found.length ? "Waited for a retry" : "Waited", false, true);
      add(end.kind, end.at, end.word, false, true);
    } else add(end.kind === "failed" ? "failed" : "unknown", end.at, end.word);
  }
  if (job.finalized_at) {
    add("waited", ms(job.finalized_at), "Waited");
    return found;
  }
  if (HELD.has(job.state) && job.assigned_at) {
    add("waited", ms(job.assigned_at), found.length ? "Waited for a retry" : "Waited");
    add("ran", now, "Runs", true);
  } else add(due > now ? "delayed" : "waited", now, waitWord(job), true);
  return found;
}

function waitWord(job: Job): string {
  if (job.wait_for.length) return "Waits for other jobs";
  return job.status === "AWAITING_FUTURE" ? "Not due yet" : "Waits";
}

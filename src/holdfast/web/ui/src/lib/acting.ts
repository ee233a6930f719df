// Doing something to jobs and queues. Whatever can be taken back has an Undo; nothing is done twice.

import { get, path, post, put, remove } from "./api";
import { acted } from "./live";
import { complain, dismiss, toast } from "./toasts";
import type { Action, Job, Operation } from "./types";
import { jobs, number } from "./words";

export const GRACE_MS = 5000;
const LOOK_MS = 400;

export const PAST: Record<Action, string> = { cancel: "cancelled", revive: "retried", delete: "deleted" };
export const VERB: Record<Action, string> = { cancel: "Cancel", revive: "Retry", delete: "Delete" };
const ING: Record<Action, string> = { cancel: "Cancelling", revive: "Retrying", delete: "Deleting" };

const changed = (): void => {
  acted.value += 1;
};

function send(action: Action, id: string, more?: RequestInit): Promise<unknown> {
  if (action === "delete") return remove(path("/api/jobs", id));
  return post(path("/api/jobs", id, action), {}, more);
}

/** Do it to one job. Cancelling waits a moment, in which it can be taken back. */
export async function act(action: Action, job: Job): Promise<void> {
  if (action === "cancel") return cancelSoon(job);
  try {
    await send(action, job.job_id);
    toast(`${job.job_id} was ${PAST[action]}.`, { tone: "good" });
  } catch (error) {
    complain(error);
  }
  changed();
}

function cancelSoon(job: Job): void {
  const leaving = (): void => void send("cancel", job.job_id, { keepalive: true });
  const timer = setTimeout(async () => {
    removeEventListener("pagehide", leaving);
    dismiss(shown);
    try {
      await send("cancel", job.job_id);
      toast(`${job.job_id} was cancelled.`, { tone: "good" });
    } catch (error) {
      complain(error);
    }
    changed();
  }, GRACE_MS);
  const undo = (): void => {
    clearTimeout(timer);
    removeEventListener("pagehide", leaving);
    toast(`${job.job_id} goes on.`, { id: shown, tone: "good" });
  };
  addEventListener("pagehide", leaving, { once: true });
  const shown = toast(`Cancelling ${job.job_id} in ${GRACE_MS / 1000} s.`, {
    button: { word: "Undo", act: undo },
    lastsMs: GRACE_MS + 500,
  });
}

/** Do it to the jobs somebody picked, one by one, and say how it went. */
export async function actOnEach(action: Action, ids: readonly string[]): Promise<void> {
  let done = 0;
  let stopped = false;
  const refused: string[] = [];
  const button = { word: "Stop", act: () => void (stopped = true) };
  const shown = toast(`${ING[action]} ${jobs(ids.length)}…`, { part: 0, button });
  for (const id of ids) {
    if (stopped) break;
    try {
      await send(action, id);
    } catch (error) {
      refused.push(error instanceof Error ? error.message : String(error));
    }
    done += 1;
    toast(`${ING[action]} ${number(done)} of ${jobs(ids.length)}…`, { id: shown, part: done / ids.length, button });
  }
  conclude(shown, action, done - refused.length, refused.length, refused[0] ?? null, stopped);
}

function conclude(
  id: number,
  action: Action,
  done: number,
  refused: number,
  reason: string | null,
  stopped: boolean,
): void {
  const rest = refused ? `; ${number(refused)} could not be${reason ? `: ${reason}` : ""}` : "";
  const text = `${jobs(done)} ${done === 1 ? "was" : "were"} ${PAST[action]}${stopped ? ", then it was stopped" : ""}${rest}.`;
  toast(text, { id, tone: refused ? "bad" : "good", button: null, lastsMs: refused ? 15_000 : 6000 });
  changed();
}

/** Do it to all that matched when they were counted, in the server, and watch it. */
export async function actOnAll(action: Action, q: string, snapshot: unknown, total: number): Promise<void> {
  const shown = toast(`${ING[action]} ${jobs(total)}…`, { part: 0 });
  try {
    const { operation } = await post<{ operation: string }>("/api/bulk", { action, q, dry_run: false, snapshot });
    const stop = (): void => void post(path("/api/bulk", operation, "stop")).catch(complain);
    for (;;) {
      const seen = await get<Operation>(path("/api/bulk", operation));
      const far = seen.done + seen.refused;
      if (seen.state !== "running") {
        if (seen.state === "failed") throw new Error(`${jobs(seen.done)} ${PAST[action]}, then it failed: ${seen.reason ?? "no reason given"}`);
        return conclude(shown, action, seen.done, seen.refused, seen.reason ?? null, seen.state === "stopped");
      }
      const part = Math.min(1, far / Math.max(seen.total ?? total, far, 1));
      toast(`${ING[action]} ${number(far)} of ${jobs(seen.total ?? total, seen.total === null)}…`, { id: shown, part, button: { word: "Stop", act: stop } });
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  } catch (error) {
    dismiss(shown);
    complain(error);
    changed();
  }
}

/** Pause or resume a queue; Undo does the other. */
export async function setPaused(queue: string, pause: boolean, undoing = false): Promise<void> {
  try {
    await post(path("/api/queues", queue, pause ? "pause" : "resume"));
    const said = pause ? `Queue ${queue} is paused; running jobs go on.` : `Queue ${queue} goes on.`;
    const undo = { word: "Undo", act: () => void setPaused(queue, !pause, true) };
    toast(said, { tone: "good", button: undoing ? null : undo });
  } catch (error) {
    complain(error);
  }
  changed();
}

/** Set a number of a queue or a resource; Undo sets what was there. */
export async function setNumber(
  kind: "queues" | "resources",
  name: string,
  value: number | null,
  before: number | null,
  undoing = false,
): Promise<void> {
  const what = kind === "queues" ? "limit" : "capacity";
  try {
    const address = kind === "queues" ? path("/api/queues", name, "limit") : path("/api/resources", name);
    await put(address, { [what]: value });
    const undo = { word: "Undo", act: () => void setNumber(kind, name, before, value, true) };
    const said = value === null ? `${name} has no ${what} any more.` : `The ${what} of ${name} is ${number(value)}.`;
    toast(said, { tone: "good", button: undoing ? null : undo });
  } catch (error) {
    complain(error);
  }
  changed();
}

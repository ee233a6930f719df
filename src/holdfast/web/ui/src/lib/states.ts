import type { Job, State } from "./types";

export type Tone = "waiting" | "running" | "good" | "warn" | "bad" | "ended";

interface Look {
  word: string;
  tone: Tone;
  icon: string;
  means: string;
}

/** Every state as icon, word and colour: none of the three stands alone. */
export const STATES: Record<State, Look> = {
  INITIAL_PENDING: { word: "Waiting", tone: "waiting", icon: "clock", means: "never claimed yet" },
  RESCHEDULED: { word: "Rescheduled", tone: "waiting", icon: "again", means: "handed back unharmed, or revived" },
  FAILED_RETRY: { word: "Will retry", tone: "warn", icon: "again", means: "an execution failed; eligible again when due" },
  UNKNOWN_RETRY: { word: "Lost, will retry", tone: "warn", icon: "question", means: "its worker vanished or its lease lapsed" },
  RUNNING: { word: "Running", tone: "running", icon: "play", means: "leased to exactly one worker" },
  CANCELLING: { word: "Cancelling", tone: "warn", icon: "stop", means: "waits for the worker's word" },
  COMPLETED: { word: "Completed", tone: "good", icon: "check", means: "done, result kept" },
  STOPPED: { word: "Stopped", tone: "ended", icon: "stop", means: "cancelled after it had been claimed" },
  UNSCHEDULED: { word: "Unscheduled", tone: "ended", icon: "minus", means: "cancelled before it was ever claimed" },
  UNKNOWN_STOPPED: { word: "Stopped, unknown", tone: "ended", icon: "question", means: "cancelled, and nobody can say what the worker did" },
  DEAD: { word: "Dead", tone: "bad", icon: "cross", means: "retries exhausted, or a permanent error" },
};

const STATUSES: Record<string, Look> = {
  AWAITING_FUTURE: { word: "Delayed", tone: "waiting", icon: "clock", means: "not due yet" },
  PENDING_JOBS: { word: "Blocked", tone: "waiting", icon: "link", means: "waits for other jobs" },
  CRASH_CONCERN: { word: "Set aside", tone: "bad", icon: "alert", means: "its leases lapsed again and again" },
  EXPIRED: { word: "Expired", tone: "ended", icon: "clock", means: "too late to be run" },
  PAUSED: { word: "Paused", tone: "warn", icon: "pause", means: "its queue is paused" },
};

/** How a job is shown: its state, unless its status says more about why it does not run. */
export function lookOf(job: Pick<Job, "state" | "status">): Look {
  const look = STATES[job.state] ?? { word: job.state, tone: "waiting", icon: "question", means: "" };
  const finer = job.status ? STATUSES[job.status] : undefined;
  if (!finer) return look;
  return look.tone === "waiting" || finer.tone === "bad" ? finer : look;
}

export const WAITING: State[] = ["INITIAL_PENDING", "RESCHEDULED", "FAILED_RETRY", "UNKNOWN_RETRY"];
const FINISHED: State[] = ["COMPLETED", "STOPPED", "UNSCHEDULED", "UNKNOWN_STOPPED", "DEAD"];

export const mayCancel = (job: Job): boolean => job.state === "DEAD" || !FINISHED.includes(job.state);
export const mayRevive = (job: Job): boolean => job.state === "DEAD";
export const mayDelete = (job: Job): boolean => FINISHED.includes(job.state);

export interface Chip {
  word: string;
  tone: Tone;
  icon: string;
  states: State[];
}

export const CHIPS: Chip[] = [
  { word: "Waiting", tone: "waiting", icon: "clock", states: ["INITIAL_PENDING", "RESCHEDULED"] },
  { word: "Retrying", tone: "warn", icon: "again", states: ["FAILED_RETRY", "UNKNOWN_RETRY"] },
  { word: "Running", tone: "running", icon: "play", states: ["RUNNING", "CANCELLING"] },
  { word: "Completed", tone: "good", icon: "check", states: ["COMPLETED"] },
  { word: "Cancelled", tone: "ended", icon: "stop", states: ["STOPPED", "UNSCHEDULED", "UNKNOWN_STOPPED"] },
  { word: "Dead", tone: "bad", icon: "cross", states: ["DEAD"] },
];

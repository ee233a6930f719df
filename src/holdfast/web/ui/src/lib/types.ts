import type { Exact } from "./exact";

export type State =
  | "INITIAL_PENDING"
  | "RESCHEDULED"
  | "FAILED_RETRY"
  | "UNKNOWN_RETRY"
  | "RUNNING"
  | "CANCELLING"
  | "COMPLETED"
  | "STOPPED"
  | "UNSCHEDULED"
  | "UNKNOWN_STOPPED"
  | "DEAD";

export interface ErrorEntry {
  attempt: number;
  at: string;
  worker_id: string | null;
  message: string;
  traceback: string | null;
}

export interface Job {
  job_id: string;
  state: State;
  status: string | null;
  next_need: string;
  task: string | null;
  payload: Exact;
  payload_bytes: string | null;
  result: Exact;
  result_bytes: string | null;
  priority: number;
  tags: string[];
  created_at: string;
  available_at: string;
  expires_at: string | null;
  started_at: string | null;
  finalized_at: string | null;
  attempts: number;
  max_attempts: number | null;
  last_retry_at: string | null;
  error_message: string | null;
  errors: ErrorEntry[];
  assignee_id: string | null;
  assigned_at: string | null;
  lease_expires_at: string | null;
  lease_expiration_count: number;
  wait_for: string[];
  if_parent_fails: string | null;
  singleton_key: string | null;
  resource_keys: string[];
  timeout_s: number | null;
  left_out?: string[];
  progress: { done: number; total: number | null; message: string | null; at: string } | null;
}

export interface TraceEvent {
  event: string;
  worker_id: string | null;
  at: string;
  given: Exact;
  became: Exact;
}

export type Relative = Pick<Job, "job_id" | "state" | "status" | "next_need" | "task" | "created_at" | "finalized_at">;

export interface JobView extends Job {
  parents: Relative[];
  children: Relative[];
  trace: { level: string; events: TraceEvent[] };
}

export interface JobPage {
  jobs: Job[];
  next: string | null;
  complete: boolean;
}

export interface Count {
  count: number;
  capped: boolean;
}

export interface Queue {
  queue: string;
  due: number;
  delayed: number;
  blocked: number;
  held: number;
  dead: number;
  oldest_due_at: string | null;
  paused_at: string | null;
  counted_to: number;
  max_running?: number | null;
}

export interface Worker {
  worker_id: string;
  jobs: number;
  cancelling: number;
  lapsed: number;
  queues: string[];
  oldest_at: string | null;
  seen_at: string;
  lease_until: string | null;
  job_ids: string[];
  /** busy, idle or lost, where workers say that they are there. */
  status?: string;
  capacity?: number | null;
  host?: string | null;
  pid?: number | null;
  version?: string | null;
  started_at?: string | null;
}

export interface Resource {
  kind: string;
  key: string;
  capacity: number;
  holders: { job_id: string | null; worker_id: string | null; since: string }[];
  waiting: number;
}

export interface Finding {
  level: "OK" | "NOTE" | "PROBLEM";
  check: string;
  says: string;
  fix: string | null;
}

export interface Health {
  ok: boolean;
  sentence: string;
  findings: Finding[];
}

export interface Stats {
  at: string;
  due: number;
  delayed: number;
  blocked: number;
  held: number;
  dead: number;
  oldest_due_at: string | null;
  paused: string[];
  ended_last_minute: Partial<Record<State, number>>;
  ended_last_hour: Partial<Record<State, number>>;
  archived_about: number;
  capped: boolean;
}

export interface Point {
  at: string;
  completed: number;
  dead: number;
  cancelled: number;
  expired: number;
  wait_p50_ms: number | null;
  wait_p95_ms: number | null;
  run_p50_ms: number | null;
  run_p95_ms: number | null;
  depth: number | null;
  oldest_s: number | null;
}

export interface History {
  step_s: number;
  points: Point[];
}

export interface DeadGroup {
  fingerprint: string;
  error: string;
  task: string | null;
  count: number;
  capped: boolean;
  first_at: string;
  last_at: string;
  sample_id: string;
  q: string;
}

export interface Me {
  role: "viewer" | "operator" | "admin";
  name: string;
  schema: string;
  version: string;
}

export type Action = "cancel" | "revive" | "delete";

export interface DryRun {
  count: number;
  capped: boolean;
  snapshot: unknown;
  samples: Job[];
}

export interface Operation {
  state: string;
  done: number;
  total: number | null;
  refused: number;
  reason?: string | null;
}

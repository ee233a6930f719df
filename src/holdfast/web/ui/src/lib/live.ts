// What tells the page that something moved: the server's events, or the clock where events do not get through.

import { batch, effect, signal } from "@preact/signals";
import { get, locked, Problem } from "./api";
import type { Queue } from "./types";
import { learnClock } from "./words";

export type Link = "connecting" | "live" | "polling" | "stale" | "paused";

export const link = signal<Link>("connecting");
export const heardAt = signal(Date.now());
/** Goes up whenever something may have changed. */
export const moved = signal(0);
/** Goes up when whoever looks has just changed something, and wants to see it. */
export const acted = signal(0);
export const queues = signal<Queue[]>([]);
export const paused = signal(false);

const POLL_MS = 3000;
const RETRY_MS = 5000;

let source: EventSource | null = null;
let timer = 0;

function heard(how: Link): void {
  batch(() => {
    link.value = how;
    heardAt.value = Date.now();
    moved.value += 1;
  });
}

interface Tick {
  at?: string;
  queues?: Queue[] | { queues: Queue[] };
}

function take(tick: Tick): void {
  learnClock(tick.at);
  const lines = Array.isArray(tick.queues) ? tick.queues : tick.queues?.queues;
  if (lines) queues.value = lines;
}

async function poll(): Promise<void> {
  try {
    take(await get<Tick>("/api/queues"));
    heard("polling");
  } catch (error) {
    if (!(error instanceof Problem && error.status > 0 && error.status < 500)) link.value = "stale";
  }
}

function stop(): void {
  source?.close();
  source = null;
  clearInterval(timer);
}

function start(): void {
  stop();
  if (paused.value || document.hidden || locked.value) return;
  let fails = 0;
  const events = new EventSource("/api/events");
  source = events;
  events.addEventListener("open", () => {
    clearInterval(timer);
    fails = 0;
    heard("live");
  });
  events.addEventListener("tick", (event) => {
    try {
      take(JSON.parse((event as MessageEvent<string>).data) as Tick);
    } catch {
      // A tick that cannot be read still says that something moved.
    }
    heard("live");
  });
  events.addEventListener("jobs", () => heard("live"));
  events.addEventListener("error", () => {
    fails += 1;
    if (fails > 1 || events.readyState === EventSource.CLOSED) void poll();
    clearInterval(timer);
    timer = window.setInterval(() => void poll(), POLL_MS);
    // A source that was refused for good does not try again by itself.
    if (events.readyState === EventSource.CLOSED) setTimeout(() => source === events && start(), RETRY_MS);
  });
}

/** Listen while the page is looked at, and say so when it is not live. */
export function begin(): void {
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stop();
    else start();
  });
  effect(() => {
    const idle = paused.value || locked.value;
    if (idle) {
      stop();
      link.value = "paused";
    } else start();
  });
}

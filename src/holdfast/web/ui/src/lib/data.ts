import { useEffect, useMemo, useRef } from "preact/hooks";
import { signal, type Signal } from "@preact/signals";
import { get, Problem } from "./api";
import { acted, moved, paused } from "./live";

export interface Data<T> {
  value: Signal<T | null>;
  error: Signal<Problem | null>;
  /** Ask now, whatever the pace. */
  refresh: () => Promise<void>;
}

/** Call this whenever the signal changes, but not for what it is now. */
export function onChange(source: Signal<number>, call: () => void): () => void {
  let first = true;
  return source.subscribe(() => {
    if (!first) call();
    first = false;
  });
}

interface Pace {
  /** At most this often while things move. */
  busyMs?: number;
  /** At least this often, for what changes without a word; 0: never. */
  restMs?: number;
}

/** What an address answers, kept up to date. What was there stays on screen until there is something newer. */
export function useData<T>(address: string | null, { busyMs = 2000, restMs = 15_000 }: Pace = {}): Data<T> {
  const value = useMemo(() => signal<T | null>(null), []);
  const error = useMemo(() => signal<Problem | null>(null), []);
  const asked = useRef<{ address: string | null; run: () => Promise<void> }>({ address: null, run: async () => {} });

  useEffect(() => {
    if (address === null) return;
    let abort: AbortController | null = null;
    let last = 0;
    let waiting = 0;
    if (asked.current.address !== null && asked.current.address !== address) value.value = null;
    const run = async (): Promise<void> => {
      abort?.abort();
      const mine = new AbortController();
      abort = mine;
      last = Date.now();
      try {
        const answer = await get<T>(address, mine.signal);
        if (mine.signal.aborted) return;
        value.value = answer;
        error.value = null;
      } catch (problem) {
        if (mine.signal.aborted) return;
        error.value = problem instanceof Problem ? problem : new Problem(0, "This page has a fault.", String(problem));
      } finally {
        if (abort === mine) abort = null;
      }
    };
    asked.current = { address, run };
    void run();
    const soon = (): void => {
      if (waiting || document.hidden || paused.value) return;
      const left = abort ? busyMs : Math.max(0, last + busyMs - Date.now());
      waiting = window.setTimeout(() => {
        waiting = 0;
        if (!document.hidden) void run();
      }, left);
    };
    const leave = onChange(moved, soon);
    const unacted = onChange(acted, () => void run());
    const rest = restMs ? window.setInterval(soon, restMs) : 0;
    return () => {
      leave();
      unacted();
      abort?.abort();
      clearTimeout(waiting);
      clearInterval(rest);
    };
  }, [address, busyMs, restMs, value, error]);

  return useMemo(() => ({ value, error, refresh: () => asked.current.run() }), [value, error]);
}

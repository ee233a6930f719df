import { signal } from "@preact/signals";

/** Now, moved on every second while somebody looks: ages on screen hang from it. */
export const now = signal(Date.now());

setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);

/** How far the server's clock is ahead of this one, learned from its answers. Ages are by the server's. */
export const skew = signal(0);

export function learnClock(at: string | undefined): void {
  if (!at) return;
  const ahead = Date.parse(at) - Date.now();
  if (Math.abs(ahead - skew.value) > 1500) skew.value = ahead;
}

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

export const number = (value: number, capped = false): string => whole.format(value) + (capped ? "+" : "");

export const jobs = (count: number, capped = false): string =>
  count === 1 && !capped ? "1 job" : `${number(count, capped)} jobs`;

export const moment = (at: string): string => day.format(new Date(at));
export const time = (at: string): string => clock.format(new Date(at));

const UNITS: [string, number][] = [
  ["d", 86_400],
  ["h", 3600],
  ["m", 60],
];

/** A duration by the two units that matter: 1.2 s, 45 s, 4m 10s, 3h 5m. */
export function duration(seconds: number): string {
  const given = Math.max(0, seconds);
  if (given < 0.001) return "< 1 ms";
  if (given < 1) return `${Math.max(1, Math.round(given * 1000))} ms`;
  if (given < 10 && !Number.isInteger(given)) return `${given.toFixed(1)} s`;
  if (given < 60) return `${Math.round(given)} s`;
  let rest = Math.round(given);
  for (const [place, [unit, size]] of UNITS.entries()) {
    if (rest < size) continue;
    const [next, smaller] = UNITS[place + 1] ?? ["s", 1];
    const count = Math.floor(rest / size);
    rest = Math.floor((rest % size) / smaller);
    return rest ? `${count}${unit} ${rest}${next}` : `${count}${unit}`;
  }
  return `${rest} s`;
}

/** A duration in whole seconds, for what counts on while somebody looks. */
export const inSeconds = (seconds: number): string => (seconds < 1 ? "< 1 s" : duration(Math.round(seconds)));

/** Seconds since then, by the server's clock. */
export const since = (at: string): number => (now.value + skew.value - Date.parse(at)) / 1000;

export function ago(at: string): string {
  const seconds = since(at);
  if (seconds < -1) return `in ${duration(-Math.round(seconds))}`;
  return seconds < 2 ? "just now" : `${duration(Math.round(seconds))} ago`;
}

export const firstLine = (text: string | null): string => (text ?? "").split("\n", 1)[0] ?? "";

import { signal } from "@preact/signals";

export interface Toast {
  id: number;
  text: string;
  tone: "plain" | "good" | "bad";
  /** Part done, from 0 to 1; null: not a matter of progress. */
  part: number | null;
  button: { word: string; act: () => void } | null;
}

export const toasts = signal<Toast[]>([]);

let count = 0;

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((each) => each.id !== id);
}

/** Show or change a toast; those without progress leave by themselves. */
export function toast(text: string, more: Partial<Omit<Toast, "text">> & { lastsMs?: number } = {}): number {
  const { lastsMs = more.button ? 8000 : 5000, ...given } = more;
  const id = given.id ?? (count += 1);
  const shown: Toast = { tone: "plain", part: null, button: null, ...given, id, text };
  const there = toasts.value.some((each) => each.id === id);
  toasts.value = there ? toasts.value.map((each) => (each.id === id ? shown : each)) : [...toasts.value, shown].slice(-4);
  if (shown.part === null) setTimeout(() => toasts.value.includes(shown) && dismiss(id), lastsMs);
  return id;
}

export const complain = (error: unknown): number =>
  toast(error instanceof Error ? error.message : String(error), { tone: "bad", lastsMs: 10_000 });

// What this browser remembers. A browser that keeps nothing still shows everything.

import { effect, signal, type Signal } from "@preact/signals";
import { me } from "./me";

export type Theme = "system" | "light" | "dark";

function kept<T extends string>(name: string, allowed: readonly T[], usual: T): Signal<T> {
  let found: string | null = null;
  try {
    found = localStorage.getItem(name);
  } catch {
    // No storage: the usual.
  }
  const value = signal<T>(allowed.find((each) => each === found) ?? usual);
  effect(() => {
    try {
      localStorage.setItem(name, value.value);
    } catch {
      // The choice lasts as long as the page.
    }
  });
  return value;
}

export const theme = kept<Theme>("holdfast.theme", ["system", "light", "dark"], "system");
export const letters = kept("holdfast.letters", ["on", "off"], "on");
export const span = kept("holdfast.span", ["60", "360", "1440"], "60");

effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});

export function nextTheme(): void {
  theme.value = theme.value === "system" ? "light" : theme.value === "light" ? "dark" : "system";
}

const RANKS = ["viewer", "operator", "admin"] as const;

/** Whether whoever looks may do what needs this role. The server decides; this only hides what it would refuse. */
export function may(role: (typeof RANKS)[number]): boolean {
  return RANKS.indexOf(me.value?.role ?? "viewer") >= RANKS.indexOf(role);
}

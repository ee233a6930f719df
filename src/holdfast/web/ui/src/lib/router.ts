import { computed, signal } from "@preact/signals";

interface Place {
  path: string;
  search: string;
}

const here = (): Place => ({ path: location.pathname, search: location.search });

export const place = signal<Place>(here());

/** The segments of the path as they were meant: `/jobs/a%2Fb` is ["jobs", "a/b"]. */
export const segments = computed(() =>
  place.value.path
    .split("/")
    .filter(Boolean)
    .map((each) => {
      try {
        return decodeURIComponent(each);
      } catch {
        return each;
      }
    }),
);

export const parameters = computed(() => new URLSearchParams(place.value.search));

/** Go to an address of ours. Going where one is already changes nothing, so that Back stays useful. */
export function go(to: string, { replace = false } = {}): void {
  if (to === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  place.value = here();
  if (!replace) window.scrollTo(0, 0);
}

export const jobAt = (id: string): string => `/jobs/${encodeURIComponent(id)}`;
export const jobsAt = (q: string): string => (q ? `/jobs?q=${encodeURIComponent(q)}` : "/jobs");

/** Follow plain clicks on our own links without loading a page; leave new tabs and windows to the browser. */
export function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.origin !== location.origin || link.target) return;
  event.preventDefault();
  go(link.pathname + link.search);
}

window.addEventListener("popstate", () => {
  place.value = here();
});

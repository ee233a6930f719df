const PATHS: Record<string, string> = {
  clock: "M8 2.2a5.8 5.8 0 1 1 0 11.6a5.8 5.8 0 0 1 0-11.6M8 5v3.2l2 1.3",
  again: "M13.3 8a5.3 5.3 0 1 1-1.7-3.9M13.5 1.9v2.7h-2.7",
  question: "M8 2.2a5.8 5.8 0 1 1 0 11.6a5.8 5.8 0 0 1 0-11.6M6.3 6.4c.2-1 .9-1.5 1.8-1.5c1 0 1.8.6 1.8 1.6c0 1.3-1.8 1.4-1.8 2.7M8 11.2v.1",
  play: "M5.2 3.3v9.4l7.3-4.7z",
  stop: "M8 2.2a5.8 5.8 0 1 1 0 11.6a5.8 5.8 0 0 1 0-11.6M6.2 6.2h3.6v3.6H6.2z",
  check: "M8 2.2a5.8 5.8 0 1 1 0 11.6a5.8 5.8 0 0 1 0-11.6M5.4 8.2l1.9 1.9l3.5-3.9",
  minus: "M8 2.2a5.8 5.8 0 1 1 0 11.6a5.8 5.8 0 0 1 0-11.6M5.5 8h5",
  cross: "M8 2.2a5.8 5.8 0 1 1 0 11.6a5.8 5.8 0 0 1 0-11.6M6 6l4 4M10 6l-4 4",
  link: "M6.6 9.4l2.8-2.8M7.2 4.6l1.3-1.3a2.9 2.9 0 0 1 4.2 4.2l-1.3 1.3M8.8 11.4l-1.3 1.3a2.9 2.9 0 0 1-4.2-4.2l1.3-1.3",
  alert: "M8 2.4l6 10.8H2zM8 6.5v3M8 11.4v.1",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  overview: "M2.5 9.5l3-3.5l2.5 2.5l5-5.5M2.5 13.3h11",
  jobs: "M2.8 4h10.4M2.8 8h10.4M2.8 12h6.4",
  dead: "M8 2.2a5.8 5.8 0 1 1 0 11.6a5.8 5.8 0 0 1 0-11.6M6 6l4 4M10 6l-4 4",
  queues: "M2.5 3.5h11v2.6h-11zM2.5 9.9h11v2.6h-11z",
  workers: "M3 4.5h10v5.5H3zM6 13h4M8 10v3",
  resources: "M5.5 7V5.3a2.5 2.5 0 0 1 5 0V7M3.7 7h8.6v6.3H3.7z",
  system: "M8 5.7a2.3 2.3 0 1 1 0 4.6a2.3 2.3 0 0 1 0-4.6M8 1.8v2M8 12.2v2M1.8 8h2M12.2 8h2M3.6 3.6l1.4 1.4M11 11l1.4 1.4M12.4 3.6L11 5M5 11l-1.4 1.4",
  search: "M7 2.7a4.3 4.3 0 1 1 0 8.6a4.3 4.3 0 0 1 0-8.6M10.2 10.2l3.3 3.3",
  sun: "M8 5.3a2.7 2.7 0 1 1 0 5.4a2.7 2.7 0 0 1 0-5.4M8 1.7v1.4M8 12.9v1.4M1.7 8h1.4M12.9 8h1.4M3.5 3.5l1 1M11.5 11.5l1 1M12.5 3.5l-1 1M4.5 11.5l-1 1",
  moon: "M13 9.6A5.5 5.5 0 0 1 6.4 3a5.5 5.5 0 1 0 6.6 6.6z",
  screen: "M2.5 3.5h11v7.5h-11zM6 13.5h4",
  up: "M8 13V3.5M4.2 7.2L8 3.4l3.8 3.8",
  copy: "M5.5 5.5h7.5V13H5.5zM3 10.5V3h7.5",
  close: "M4 4l8 8M12 4l-8 8",
  trash: "M3 4.5h10M6.5 4.5V3h3v1.5M4.2 4.5l.6 8.8h6.4l.6-8.8",
  chevron: "M6 4l4 4l-4 4",
  out: "M9.5 3H13v10H9.5M2.8 8h6.7M6.8 5.2L9.6 8l-2.8 2.8",
};

/** A sign beside a word; on its own it says nothing to those who cannot see it. */
export function Icon({ name, class: more = "" }: { name: string; class?: string }) {
  return (
    <svg class={`icon ${more}`} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      <path d={PATHS[name] ?? PATHS.question} />
    </svg>
  );
}

export function Anchor() {
  return (
    <svg class="anchor" viewBox="0 0 32 32" width="26" height="26" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="8" />
      <circle cx="16" cy="8.6" r="2.6" />
      <path d="M16 11.2V25M10.5 15.5h11M7.5 19c.6 3.8 4 6.4 8.5 6.4s7.9-2.6 8.5-6.4" />
    </svg>
  );
}

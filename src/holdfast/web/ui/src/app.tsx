import { useEffect, useRef, useState } from "preact/hooks";
import { locked } from "./lib/api";
import { useKeys } from "./lib/keys";
import { heardAt, link, paused, queues } from "./lib/live";
import { askWho, me } from "./lib/me";
import { go, segments } from "./lib/router";
import { nextTheme, theme } from "./lib/settings";
import { complain } from "./lib/toasts";
import { duration, now, number } from "./lib/words";
import { DeadPage } from "./pages/dead";
import { JobPage } from "./pages/job";
import { JobsPage } from "./pages/jobs";
import { LoginPage } from "./pages/login";
import { OverviewPage } from "./pages/overview";
import { QueuesPage } from "./pages/queues";
import { ResourcesPage } from "./pages/resources";
import { SystemPage } from "./pages/system";
import { WorkersPage } from "./pages/workers";
import { Help } from "./parts/help";
import { Anchor, Icon } from "./parts/icon";
import { Palette } from "./parts/palette";
import { Empty } from "./parts/small";
import { Toasts } from "./parts/toasts";

export const PAGES: { key: string; at: string; word: string; icon: string }[] = [
  { key: "o", at: "/", word: "Overview", icon: "overview" },
  { key: "j", at: "/jobs", word: "Jobs", icon: "jobs" },
  { key: "d", at: "/dead", word: "Dead letters", icon: "dead" },
  { key: "q", at: "/queues", word: "Queues", icon: "queues" },
  { key: "w", at: "/workers", word: "Workers", icon: "workers" },
  { key: "k", at: "/resources", word: "Resources", icon: "resources" },
  { key: "s", at: "/system", word: "System", icon: "system" },
];

function Nav() {
  const here = `/${segments.value[0] ?? ""}`;
  const dead = queues.value.reduce((sum, each) => sum + each.dead, 0);
  const capped = queues.value.some((each) => each.dead >= each.counted_to);
  const nav = useRef<HTMLElement>(null);
  // In a narrow window the pages stand in a row that is wider than the window, and wider still with the count of the dead.
  useEffect(
    () => nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }),
    [here, dead > 0],
  );
  return (
    <nav class="nav" aria-label="Pages" ref={nav}>
      <a class="brand" href="/">
        <Anchor />
        <span>Holdfast</span>
      </a>
      <ul>
        {PAGES.map((page) => (
          <li key={page.at}>
            <a href={page.at} aria-current={here === page.at ? "page" : undefined}>
              <Icon name={page.icon} />
              <span>{page.word}</span>
              {page.at === "/dead" && dead > 0 && <span class="nav-count">{number(dead, capped)}</span>}
            </a>
          </li>
        ))}
      </ul>
      <div class="nav-foot">
        {me.value && (
          <>
            <span class="cut" title={`schema ${me.value.schema}`}>{me.value.schema}</span>
            <span>{me.value.version}</span>
          </>
        )}
      </div>
    </nav>
  );
}

const LINKS = {
  connecting: ["Connecting", "waiting"],
  live: ["Live", "good"],
  polling: ["Polling", "waiting"],
  stale: ["Stale", "bad"],
  paused: ["Paused", "warn"],
} as const;

function Live() {
  const [word, tone] = LINKS[link.value];
  const stale = link.value === "stale";
  return (
    <button
      type="button"
      class={`live tone-${tone}`}
      aria-pressed={paused.value}
      title={paused.value ? "Go on (p)" : "Pause updates (p)"}
      onClick={() => (paused.value = !paused.value)}
    >
      <span class="pulse" aria-hidden="true" />
      {word}
      {stale && ` for ${duration((now.value - heardAt.value) / 1000)}`}
    </button>
  );
}

const THEMES = { system: ["screen", "as the system has it"], light: ["sun", "light"], dark: ["moon", "dark"] } as const;

function Bar({ onPalette, onHelp }: { onPalette: () => void; onHelp: () => void }) {
  const [icon, word] = THEMES[theme.value];
  return (
    <div class="bar-top">
      <button type="button" class="finder" onClick={onPalette}>
        <Icon name="search" />
        <span>Find or go to…</span>
        <kbd>Ctrl K</kbd>
      </button>
      <span class="grow" />
      <Live />
      <button type="button" class="icon-button" onClick={nextTheme} aria-label={`Colours: ${word}`} title={`Colours: ${word} (t)`}>
        <Icon name={icon} />
      </button>
      <button type="button" class="icon-button" onClick={onHelp} aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)">
        <Icon name="question" />
      </button>
    </div>
  );
}

function Current() {
  const [first, second] = segments.value;
  switch (first) {
    case undefined:
      return <OverviewPage />;
    case "jobs":
      return second === undefined ? <JobsPage /> : <JobPage key={second} id={second} />;
    case "dead":
      return <DeadPage />;
    case "queues":
      return <QueuesPage />;
    case "workers":
      return <WorkersPage />;
    case "resources":
      return <ResourcesPage />;
    case "system":
      return <SystemPage />;
    default:
      return <Empty title="There is no such page.">The pages there are stand at the side.</Empty>;
  }
}

export function App() {
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  useEffect(() => {
    if (!locked.value) void askWho().catch((error: unknown) => locked.value || complain(error));
  }, [locked.value]);
  const word = PAGES.find((page) => page.at === `/${segments.value[0] ?? ""}`)?.word;
  useEffect(() => {
    document.title = [segments.value[1] ?? word, "Holdfast"].filter(Boolean).join(" · ");
  }, [word, segments.value[1]]);
  useKeys(
    {
      "Ctrl-K": () => setPalette(true),
      "?": () => setHelp(true),
      t: nextTheme,
      p: () => (paused.value = !paused.value),
      "/": () => go("/jobs"),
      ...Object.fromEntries(PAGES.map((page) => [`g ${page.key}`, () => go(page.at)])),
    },
    { frame: true },
  );
  if (locked.value) return <LoginPage />;
  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <Nav />
      <div class="stage">
        <Bar onPalette={() => setPalette(true)} onHelp={() => setHelp(true)} />
        {link.value === "stale" && (
          <div class="stale" role="status">
            <Icon name="alert" /> Not connected: what you see is from {duration((now.value - heardAt.value) / 1000)} ago.
          </div>
        )}
        <main id="main" tabIndex={-1}>
          <Current />
        </main>
      </div>
      {palette && <Palette onClose={() => setPalette(false)} />}
      {help && <Help onClose={() => setHelp(false)} />}
      <Toasts />
    </>
  );
}

import type { ComponentChildren } from "preact";
import type { Problem } from "../lib/api";
import { lookOf, type Tone } from "../lib/states";
import type { Job } from "../lib/types";
import { ago, inSeconds, moment, now, number, since } from "../lib/words";
import { Icon } from "./icon";

export function Badge({ tone, icon, children, title }: { tone: Tone; icon: string; children: ComponentChildren; title?: string }) {
  return (
    <span class={`badge tone-${tone}`} title={title}>
      <Icon name={icon} />
      {children}
    </span>
  );
}

export function StateBadge({ job }: { job: Pick<Job, "state" | "status"> }) {
  const look = lookOf(job);
  const raw = job.status && job.status !== job.state ? `${job.state} (${job.status})` : job.state;
  return (
    <Badge tone={look.tone} icon={look.icon} title={`${raw}: ${look.means}`}>
      {look.word}
    </Badge>
  );
}

/** How long ago, and on hovering when exactly. */
export function Ago({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="faint">–</span>;
  void now.value;
  return (
    <time dateTime={at} title={`${moment(at)} (${at})`}>
      {ago(at)}
    </time>
  );
}

/** How long something has lasted until now. */
export function For({ from }: { from: string | null | undefined }) {
  if (!from) return <span class="faint">–</span>;
  void now.value;
  return (
    <time dateTime={from} title={moment(from)}>
      {inSeconds(since(from))}
    </time>
  );
}

export function Num({ value, capped = false, quiet = false }: { value: number; capped?: boolean; quiet?: boolean }) {
  return <span class={quiet || !value ? "num faint" : "num"}>{number(value, capped)}</span>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <p>{children}</p>}
    </div>
  );
}

export function Trouble({ problem, again }: { problem: Problem | null; again?: () => void }) {
  if (!problem || problem.status === 401) return null;
  return (
    <div class="trouble" role="alert">
      <Icon name="alert" />
      <div>
        <strong>{problem.title}</strong> {problem.detail}
      </div>
      {again && (
        <button type="button" class="button small" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Loading({ rows = 4 }: { rows?: number }) {
  return (
    <div class="loading" aria-busy="true">
      <span class="sr">Loading…</span>
      {Array.from({ length: rows }, (_, place) => (
        <div class="bone" key={place} />
      ))}
    </div>
  );
}

export function Page({ title, about, actions, children }: { title: ComponentChildren; about?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
  return (
    <>
      <header class="page-head">
        <div class="page-title">
          <h1>{title}</h1>
          {about && <p class="about">{about}</p>}
        </div>
        {actions && <div class="page-actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}

export function Copy({ text, what }: { text: string; what: string }) {
  const copy = async (event: MouseEvent): Promise<void> => {
    const button = event.currentTarget as HTMLButtonElement;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Without https there is no clipboard: an area that is selected and copied does as well.
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.dataset.done = "yes";
    setTimeout(() => delete button.dataset.done, 1200);
  };
  return (
    <button type="button" class="icon-button copy" onClick={(event) => void copy(event)} aria-label={`Copy ${what}`} title={`Copy ${what}`}>
      <Icon name="copy" />
    </button>
  );
}

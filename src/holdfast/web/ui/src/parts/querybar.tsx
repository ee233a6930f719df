import { useEffect, useRef, useState } from "preact/hooks";
import { queues } from "../lib/live";
import { FIELDS, quoted, termAt } from "../lib/query";
import { STATES } from "../lib/states";
import { Icon } from "./icon";

interface Hint {
  put: string;
  about: string;
  /** The caret stays right behind it: there is more to write. */
  open: boolean;
}

const STATUSES = ["READY", "AWAITING_FUTURE", "PENDING_JOBS", "CRASH_CONCERN", "EXPIRED", "PAUSED", "ACTIVE"];

/** What could stand where the caret is. */
function hintsFor(text: string): Hint[] {
  const minus = text.startsWith("-") ? "-" : "";
  const bare = text.slice(minus.length);
  const named = /^(state|status|queue):(.*,)?([^,]*)$/i.exec(bare);
  if (named) {
    const [, field = "", before = "", part = ""] = named;
    const values: [string, string][] =
      field.toLowerCase() === "state"
        ? Object.entries(STATES).map(([state, look]) => [state, look.means])
        : field.toLowerCase() === "status"
          ? STATUSES.map((each) => [each, ""])
          : queues.value.map((each) => [quoted(each.queue), ""]);
    return values
      .filter(([value]) => value.toLowerCase().includes(part.toLowerCase()) && value !== part)
      .slice(0, 12)
      .map(([value, about]) => ({ put: `${minus}${field}:${before}${value}`, about, open: false }));
  }
  if (/[:<>="]/.test(bare)) return [];
  return FIELDS.filter(([field]) => field.startsWith(bare.toLowerCase())).map(([field, about]) => ({
    put: minus + field,
    about,
    open: true,
  }));
}

interface Props {
  q: string;
  onAsk: (q: string) => void;
  trouble: string | null;
}

/** Where a query is written, with hints: the same language as the command line's. */
export function QueryBar({ q, onAsk, trouble }: Props) {
  const [text, setText] = useState(q);
  const [hints, setHints] = useState<Hint[]>([]);
  const [at, setAt] = useState(-1);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => setText(q), [q]);

  const look = (): void => {
    const caret = input.current?.selectionStart ?? 0;
    setHints(hintsFor(termAt(input.current?.value ?? "", caret).text));
    setAt(-1);
  };
  const close = (): void => setHints([]);
  const take = (hint: Hint): void => {
    const field = input.current;
    if (!field) return;
    const caret = field.selectionStart ?? 0;
    const { start } = termAt(field.value, caret);
    const put = hint.open ? hint.put : `${hint.put} `;
    const next = field.value.slice(0, start) + put + field.value.slice(caret).trimStart();
    setText(next);
    field.value = next;
    field.setSelectionRange(start + put.length, start + put.length);
    field.focus();
    if (hint.open) look();
    else {
      close();
      onAsk(next.trim());
    }
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!hints.length) return look();
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setAt((at + step + hints.length + 1) % (hints.length + 1));
      if (at + step >= hints.length || at + step < 0) setAt(step > 0 ? 0 : hints.length - 1);
    } else if (event.key === "Enter" || (event.key === "Tab" && at >= 0)) {
      const hint = hints[at];
      event.preventDefault();
      if (hint) return take(hint);
      close();
      onAsk(text.trim());
    } else if (event.key === "Escape") {
      if (hints.length) close();
      else input.current?.blur();
    }
  };
  const listed = hints.length > 0;
  return (
    <form
      class="query"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        close();
        onAsk(text.trim());
      }}
    >
      <Icon name="search" />
      <input
        ref={input}
        id="query"
        type="text"
        role="combobox"
        aria-label="Query"
        aria-expanded={listed}
        aria-controls="hints"
        aria-autocomplete="list"
        aria-activedescendant={at >= 0 ? `hint-${at}` : undefined}
        aria-invalid={trouble !== null}
        aria-describedby={trouble ? "query-trouble" : undefined}
        placeholder="state:DEAD queue:mail task:send_* args.user:42 age>5m"
        autoComplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          look();
        }}
        onFocus={look}
        onClick={look}
        onBlur={() => setTimeout(close, 120)}
        onKeyDown={press}
      />
      {text && (
        <button
          type="button"
          class="icon-button"
          aria-label="Clear the query"
          onClick={() => {
            setText("");
            onAsk("");
            input.current?.focus();
          }}
        >
          <Icon name="close" />
        </button>
      )}
      <kbd aria-hidden="true">/</kbd>
      <ul id="hints" role="listbox" aria-label="What could be written here" hidden={!listed} class="hints">
        {hints.map((hint, place) => (
          <li
            key={hint.put}
            id={`hint-${place}`}
            role="option"
            aria-selected={place === at}
            onMouseDown={(event) => {
              event.preventDefault();
              take(hint);
            }}
          >
            <code>{hint.put}</code>
            <span>{hint.about}</span>
          </li>
        ))}
      </ul>
      {trouble && (
        <p id="query-trouble" class="query-trouble" role="alert">
          {trouble}
        </p>
      )}
    </form>
  );
}

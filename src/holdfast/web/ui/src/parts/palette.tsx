import { useState } from "preact/hooks";
import { PAGES } from "../app";
import { queues } from "../lib/live";
import { term } from "../lib/query";
import { go, jobAt, jobsAt } from "../lib/router";
import { nextTheme } from "../lib/settings";
import { CHIPS } from "../lib/states";
import { Dialog } from "./dialog";
import { Icon } from "./icon";

interface Choice {
  word: string;
  about: string;
  icon: string;
  act: () => void;
}

function choices(text: string): Choice[] {
  const wanted = text.trim().toLowerCase();
  const fits = (word: string): boolean => word.toLowerCase().includes(wanted);
  const fixed: Choice[] = [
    ...PAGES.map((page) => ({ word: page.word, about: "page", icon: page.icon, act: () => go(page.at) })),
    ...CHIPS.map((chip) => ({
      word: `${chip.word} jobs`,
      about: "jobs",
      icon: chip.icon,
      act: () => go(jobsAt(`state:${chip.states.join(",")}`)),
    })),
    { word: "Change colours", about: "theme", icon: "sun", act: nextTheme },
  ].filter((each) => fits(each.word));
  const lines = queues.value
    .filter((each) => wanted && fits(each.queue))
    .slice(0, 6)
    .map((each) => ({ word: each.queue, about: "queue", icon: "queues", act: () => go(jobsAt(term("queue", each.queue))) }));
  if (!wanted) return fixed;
  const search: Choice[] = [
    { word: `Find jobs: ${text.trim()}`, about: "query", icon: "search", act: () => go(jobsAt(text.trim())) },
    { word: `Open job ${text.trim()}`, about: "by id", icon: "jobs", act: () => go(jobAt(text.trim())) },
  ];
  return [...fixed.slice(0, 6), ...lines, ...search];
}

/** Everywhere one could go, by typing a part of its name. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const found = choices(text);
  const take = (choice: Choice | undefined): void => {
    onClose();
    choice?.act();
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setAt((at + 1) % found.length);
    else if (event.key === "ArrowUp") setAt((at + found.length - 1) % found.length);
    else if (event.key === "Enter") take(found[at]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Find or go to" onClose={onClose} class="palette" bare>
      <div class="palette-input">
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-label="Find or go to"
          aria-expanded="true"
          aria-controls="choices"
          aria-activedescendant={`choice-${at}`}
          placeholder="A page, a queue, an id or a query"
          autoComplete="off"
          spellcheck={false}
          autoFocus
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={press}
        />
      </div>
      <ul id="choices" role="listbox" aria-label="Places" class="choices">
        {found.map((choice, place) => (
          <li
            key={choice.about + choice.word}
            id={`choice-${place}`}
            role="option"
            aria-selected={place === at}
            onMouseMove={() => setAt(place)}
            onClick={() => take(choice)}
          >
            <Icon name={choice.icon} />
            <span class="grow cut">{choice.word}</span>
            <span class="faint">{choice.about}</span>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

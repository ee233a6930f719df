import { useEffect, useRef, useState } from "preact/hooks";
import { number } from "../lib/words";

interface Props {
  value: number | null;
  /** What the number is of, for those who hear it. */
  what: string;
  /** What none is called; without it there must be one. */
  none?: string;
  may: boolean;
  onSet: (value: number | null) => void;
}

/** A number that can be changed where it stands: Enter sets it, Escape leaves it. */
export function EditableNumber({ value, what, none, may, onSet }: Props) {
  const [text, setText] = useState<string | null>(null);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (text !== null) field.current?.select();
  }, [text === null]);
  const shown = value === null ? (none ?? "–") : number(value);
  if (!may) return <span class={value === null ? "num faint" : "num"}>{shown}</span>;
  if (text === null) {
    return (
      <button type="button" class="editable num" aria-label={`${what}: ${shown}. Change`} onClick={() => setText(value === null ? "" : String(value))}>
        {shown}
      </button>
    );
  }
  const set = (event: Event): void => {
    event.preventDefault();
    const wanted = text.trim() === "" ? null : Number(text);
    setText(null);
    if (wanted !== value && (wanted === null ? none !== undefined : Number.isInteger(wanted) && wanted >= 1)) onSet(wanted);
  };
  return (
    <form class="editing" onSubmit={set}>
      <input
        ref={field}
        type="number"
        min={1}
        step={1}
        aria-label={what}
        placeholder={none}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Escape" && setText(null)}
      />
      <button type="submit" class="button small">
        Set
      </button>
    </form>
  );
}

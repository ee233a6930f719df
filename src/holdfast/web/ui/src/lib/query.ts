// The language of queries as far as the page has to know it: the server parses, this only helps to write.

const TERM = /-?(?:[A-Za-z_][^\s:<>=",]*(?:>=|<=|[:<>=]))?(?:"(?:[^"\\]|\\.)*"?|[^\s"])*/g;

/** The terms of a query as they stand in it. */
export function terms(q: string): string[] {
  return (q.match(TERM) ?? []).filter((each) => each !== "");
}

/** A value as a query says it: in quotes where something in it would be special. */
export function quoted(value: string): string {
  if (value !== "" && !/[\s,"*\\]/.test(value)) return value;
  return `"${value.replace(/["\\]/g, "\\$&")}"`;
}

export const term = (field: string, value: string): string => `${field}:${quoted(value)}`;

export const stateTerm = (states: readonly string[]): string => `state:${states.join(",")}`;

const isState = (each: string): boolean => /^state[:=]/i.test(each);

/** The states a query asks for, in upper case; null: it says nothing of states. */
export function statesIn(q: string): string[] | null {
  const found = terms(q).filter(isState);
  return found.length ? found.flatMap((each) => each.slice(6).toUpperCase().split(",")).sort() : null;
}

/** The same query about other states; null: about any. */
export function withStates(q: string, states: readonly string[] | null): string {
  const rest = terms(q).filter((each) => !isState(each));
  return (states ? [stateTerm(states), ...rest] : rest).join(" ");
}

/** The query with one more term, unless it is there already. */
export function withTerm(q: string, more: string): string {
  const all = terms(q);
  return (all.includes(more) ? all : [...all, more]).join(" ");
}

export const FIELDS: [string, string][] = [
  ["state:", "where it stands"],
  ["status:", "whether it could run now"],
  ["queue:", "the queue it stands in"],
  ["task:", "its task; * is a wildcard"],
  ["tag:", "one of its tags"],
  ["error:", "words of its last error"],
  ["args.", "an argument, as args.user:42"],
  ["id:", "its id"],
  ["worker:", "who runs it, or ran it last"],
  ["key:", "its singleton key or a resource"],
  ["age>", "older than, as 5m or 2d"],
  ["age<", "younger than"],
  ["finished<", "ended less than so long ago"],
  ["attempts>=", "how often it failed"],
  ["priority>", "larger runs sooner"],
];

/** The term the caret stands in, and where it begins. */
export function termAt(q: string, caret: number): { start: number; text: string } {
  let start = 0;
  let open = false;
  for (let at = 0; at < caret; at += 1) {
    if (q[at] === '"' && q[at - 1] !== "\\") open = !open;
    else if (!open && /\s/.test(q[at] ?? "")) start = at + 1;
  }
  return { start, text: q.slice(start, caret) };
}

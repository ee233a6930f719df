import { signal } from "@preact/signals";
import { parse } from "./exact";

/** What the server says is wrong, in its own words. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
  ) {
    super(detail || title);
  }
}

/** Somebody has to say who they are: the login page is shown instead of everything else. */
export const locked = signal(false);

type Method = "GET" | "POST" | "PUT" | "DELETE";

async function problemOf(answer: Response): Promise<Problem> {
  const fallback = answer.status >= 500 ? "The server has trouble." : `The server answered ${answer.status}.`;
  try {
    const said = (await answer.json()) as { title?: string; detail?: unknown };
    const detail = typeof said.detail === "string" ? said.detail : "";
    return new Problem(answer.status, said.title ?? fallback, detail);
  } catch {
    return new Problem(answer.status, fallback, "");
  }
}

async function call<T>(method: Method, path: string, body?: unknown, more: RequestInit = {}): Promise<T> {
  const asks: RequestInit = { method, credentials: "same-origin", headers: { accept: "application/json" }, ...more };
  if (method !== "GET") {
    asks.headers = { accept: "application/json", "content-type": "application/json" };
    asks.body = JSON.stringify(body ?? {});
  }
  let answer: Response;
  try {
    answer = await fetch(path, asks);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "The server cannot be reached.", "");
  }
  if (answer.status === 401) locked.value = true;
  if (!answer.ok) throw await problemOf(answer);
  const text = await answer.text();
  return (text ? parse(text) : null) as T;
}

/** Words and values for an address: `path("/api/jobs", id, "cancel")`. Every value is one segment, slashes and all. */
export function path(base: string, ...segments: string[]): string {
  return [base, ...segments.map(encodeURIComponent)].join("/");
}

/** An address with parameters; those that are empty are left out. */
export function asking(base: string, parameters: Record<string, string | number | null | undefined>): string {
  const given = Object.entries(parameters).filter(([, value]) => value != null && value !== "");
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length ? `${base}?${search}` : base;
}

export const get = <T>(address: string, abort?: AbortSignal) =>
  call<T>("GET", address, undefined, abort ? { signal: abort } : {});
export const post = <T>(address: string, body?: unknown, more?: RequestInit) => call<T>("POST", address, body, more);
export const put = <T>(address: string, body: unknown) => call<T>("PUT", address, body);
export const remove = <T>(address: string) => call<T>("DELETE", address);

import { signal } from "@preact/signals";
import { get } from "./api";
import type { Me } from "./types";

/** Who looks, as the server knows them. */
export const me = signal<Me | null>(null);

export async function askWho(): Promise<void> {
  me.value = await get<Me>("/api/me");
}

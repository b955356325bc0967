// Addresses of pages. They stand behind the `#`, so that no server sees which run is looked at.

import { signal } from "@preact/signals";

export interface Route {
  /** The name of the page, the first part of the address; empty for the first page. */
  page: string;
  /** The other parts, decoded. */
  parts: string[];
  /** Filters and selections of the page. */
  query: URLSearchParams;
}

export function parseAddress(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  const [page = "", ...parts] = path.split("/").map(decode);
  return { page, parts, query: new URLSearchParams(query) };
}

/** Return the address of a page: `address("run", [id], { entry: "7" })`. Empty values are left out. */
export function address(
  page: string,
  parts: string[] = [],
  query: Record<string, string> = {},
): string {
  const filled = Object.entries(query).filter(([, value]) => value !== "");
  const search = filled.length ? `?${new URLSearchParams(filled)}` : "";
  return `#/${[page, ...parts].map(encodeURIComponent).join("/")}${search}`;
}

export const route = signal(parseAddress(globalThis.location?.hash ?? ""));

globalThis.addEventListener?.("hashchange", () => {
  route.value = parseAddress(location.hash);
});

/** Go to a page, as a link would. */
export function go(to: string): void {
  location.hash = to;
}

/** Show another address for the same page, without a new step in the history of the browser. */
export function replaceAddress(to: string): void {
  history.replaceState(null, "", to);
  route.value = parseAddress(to);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a stray percent sign
  }
}

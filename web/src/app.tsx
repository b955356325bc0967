// The frame of all pages, and which page an address shows.

import type { Scope } from "forumd-client";
import type { FunctionComponent } from "preact";
import { useEffect } from "preact/hooks";
import { loadMe } from "./api/calls";
import { usePolledGates, waitingGates } from "./api/gates";
import { isOpening, key, me, signOut } from "./api/session";
import icon from "./icon.svg";
import { formatNumberOf } from "./model/format";
import { describeScopes } from "./model/scopes";
import { Access } from "./pages/Access";
import { Compare } from "./pages/Compare";
import { Costs } from "./pages/Costs";
import { Inbox } from "./pages/Inbox";
import { Log } from "./pages/Log";
import { RunPage } from "./pages/RunPage";
import { Runs } from "./pages/Runs";
import { Scores } from "./pages/Scores";
import { SignIn } from "./pages/SignIn";
import { Submit } from "./pages/Submit";
import { Empty, Loading } from "./parts/Notes";
import { type Route, route } from "./router";

/** A page gets the parts of its address. It is made anew where they change. */
export type Page = FunctionComponent<{ route: Route }>;

// A map, because every object has members such as `constructor`, which an address can name.
const PAGES = new Map<string, Page>([
  ["", Runs],
  ["runs", Runs],
  ["run", RunPage],
  ["gates", Inbox],
  ["compare", Compare],
  ["scores", Scores],
  ["costs", Costs],
  ["log", Log],
  ["submit", Submit],
  ["access", Access],
]);

interface Section {
  title: string;
  href: string;
  /** The pages that belong to it. */
  pages: string[];
  /** Shown only to keys with this scope. */
  scope?: Scope;
}

/** The entries of the navigation. */
const SECTIONS: Section[] = [
  { title: "Runs", href: "#/", pages: ["", "runs", "run", "compare", "submit"] },
  { title: "Inbox", href: "#/gates", pages: ["gates"] },
  { title: "Scores", href: "#/scores", pages: ["scores"] },
  { title: "Costs", href: "#/costs", pages: ["costs"] },
  { title: "Log", href: "#/log", pages: ["log"] },
  { title: "Access", href: "#/access", pages: ["access"], scope: "admin" },
];

export function App() {
  const { page, parts } = route.value;
  if (isOpening.value) return <Loading what="your session" />;
  if (!key.value || page === "sign-in") return <SignIn code={page === "sign-in" ? parts[0] : ""} />;
  return <Frame />;
}

function Frame() {
  const { page, parts } = route.value;
  const Shown = PAGES.get(page) ?? NoPage;
  const waiting = waitingGates.value?.length ?? 0;
  usePolledGates();
  useEffect(() => {
    // Without an answer all actions are offered; the server refuses those that are not allowed.
    if (!me.value) loadMe().catch(() => {});
  }, []);
  useEffect(() => {
    document.title = `${SECTIONS.find((section) => section.pages.includes(page))?.title ?? "Page"} · Forum`;
    window.scrollTo(0, 0);
  }, [page, parts[0]]);
  return (
    <>
      <button type="button" class="skip" onClick={skipToMain}>
        Skip to the page
      </button>
      <header class="top">
        <a class="brand" href="#/" aria-label="Forum">
          <img src={icon} alt="" />
          <span>Forum</span>
        </a>
        <nav aria-label="Pages">
          {SECTIONS.filter(isShown).map(({ title, href, pages }) => (
            <a key={href} href={href} aria-current={pages.includes(page) ? "page" : undefined}>
              {title}
              {title === "Inbox" && waiting > 0 && (
                <span class="count" title={`${formatNumberOf(waiting, "decision")} to make`}>
                  {waiting}
                </span>
              )}
            </a>
          ))}
        </nav>
        <div class="account">
          {me.value && (
            <span class="name" title={`Ledger ${me.value.ledger}`}>
              <strong>{me.value.name}</strong> may {describeScopes(me.value.scopes)}
            </span>
          )}
          <button type="button" onClick={() => signOut()}>
            Sign out
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <Shown key={[page, ...parts].join("/")} route={route.value} />
      </main>
    </>
  );
}

function isShown({ scope }: Section): boolean {
  return scope === undefined || (me.value?.scopes.includes(scope) ?? false);
}

/** A button and no link: the fragment names the page, so it cannot name a place in it. */
function skipToMain() {
  document.getElementById("main")?.focus();
}

function NoPage() {
  return (
    <Empty title="There is no such page">
      <p>
        <a href="#/">Go to the runs</a>
      </p>
    </Empty>
  );
}

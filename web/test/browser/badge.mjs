// Whether the badge tells an honest server from one that lies, and what it says.
//   FORUM_URL=... FORUM_KEY=... node badge.mjs RUN POLICY_FILE OLD_URL OLD_KEY OTHER_URL OTHER_KEY
// RUN waits at a gate. OLD_URL serves an older copy of the log, OTHER_URL another continuation of it.

import { readFileSync } from "node:fs";
import { findAccessibilityFaults, key, openPage, startBrowser, url } from "./browser.mjs";
import { startProxy } from "./proxy.mjs";

const [, , run, policyFile, oldUrl, oldKey, otherUrl, otherKey] = process.argv;
const browser = await startBrowser();
const proxy = await startProxy(url);
const found = { faults: [] };

const badgeOf = (page) => page.locator(".facts-line button.badge");
const labelOf = (page) => badgeOf(page).innerText();
const toneOf = async (page) => (await badgeOf(page).getAttribute("class")).match(/tone-(\w+)/)[1];

async function openRun(options = {}) {
  const opened = await openPage(browser, { origin: proxy.url, ...options });
  opened.page.setDefaultTimeout(60_000);
  await opened.page.goto(`${proxy.url}/ui/#/run/${run}`);
  await badgeOf(opened.page).waitFor();
  return opened;
}

/** What the page says when its check has ended. */
async function conclude(page) {
  await page.locator(".facts-line button.badge:not(.tone-busy, .tone-idle)").waitFor();
  const alert = page.locator(".run-head [role=alert]");
  const sentence = (await alert.count()) ? await alert.first().innerText() : "";
  return { label: await labelOf(page), tone: await toneOf(page), sentence };
}

// An honest server: nothing is checked before keys are pinned, and everything after.
let first = await openRun();
found.before = await labelOf(first.page);
await badgeOf(first.page).click();
await first.page
  .getByRole("textbox", { name: "Trust file" })
  .fill(readFileSync(policyFile, "utf8"));
await first.page.locator("table.keys").waitFor();
found.keys = await first.page.locator("table.keys").innerText();
found.faults.push(...(await findAccessibilityFaults(first.page)));
await first.page.getByRole("button", { name: "Pin these keys" }).click();
found.honest = await conclude(first.page);
await badgeOf(first.page).click();
found.details = await first.page.getByRole("dialog").innerText();
found.faults.push(...(await findAccessibilityFaults(first.page)));
await first.page.getByRole("button", { name: "Close", exact: true }).click();

const storageState = await first.context.storageState();

/** Open the run anew, with what the browser remembers, while the server lies. */
async function openLied(lie, inspect = async () => {}) {
  proxy.lie = lie;
  const { page, faults, context } = await openRun({ storageState });
  const said = await conclude(page);
  await inspect(page);
  found.faults.push(...faults.filter((fault) => !/status of [45]/.test(fault)));
  await context.close();
  proxy.lie = () => null;
  return said;
}

const flip = (body) => {
  const altered = Buffer.from(body);
  altered[altered.length >> 1] ^= 1;
  return altered;
};
const isEvents = (path) => path.startsWith(`/api/v1/runs/${run}/events`);
/** Change the third event of the run alone. */
const changeThird = (change) => {
  let count = 0;
  return (event) => (event.includes('"entry":') && ++count === 3 ? change(event) : event);
};

found.tile = await openLied(
  (path) => (path.startsWith("/tlog/tile/entries/") ? { change: flip } : null),
  async (page) => found.faults.push(...(await findAccessibilityFaults(page))),
);
found.entry = await openLied((path) =>
  isEvents(path)
    ? { event: changeThird((text) => text.replace(/"ts":(\d)/, (_, digit) => `"ts":${9 - digit}`)) }
    : null,
);
found.missing = await openLied((path) =>
  isEvents(path) ? { event: changeThird(() => "") } : null,
);
found.uncosigned = await openLied((path) =>
  path === "/tlog/checkpoint"
    ? { change: (body) => Buffer.from(body.toString().replace(/— \S*witness.*\n/, "")) }
    : null,
);
await openLied(
  (path) => (path.endsWith("/bodies/shown") ? { status: 410 } : null),
  async (page) => {
    const gate = page.locator("section.gate");
    await gate.waitFor();
    const buttons = await gate.getByRole("button", { name: "Approve" }).count();
    found.withheld = { text: await gate.innerText(), buttons };
  },
);
await openLied(
  (path) => (path.includes("/bodies/") ? { change: flip } : null),
  async (page) => {
    const alert = page.locator(".line .body [role=alert]").first();
    await alert.waitFor();
    found.body = await alert.innerText();
  },
);
found.checkpoint = await openLied((path) =>
  path === "/tlog/checkpoint"
    ? {
        change: (body) =>
          Buffer.from(body.toString().replace(/\n(\d+)\n/, (_, size) => `\n${Number(size) + 1}\n`)),
      }
    : null,
);
found.refused = await openLied((path) => (path.startsWith("/tlog/") ? { status: 403 } : null));
found.noWorker = await openLied((path) => (path.includes("/worker-") ? { status: 500 } : null));
Object.assign(proxy, { target: oldUrl, key: oldKey });
found.shorter = await openLied(() => null);
Object.assign(proxy, { target: otherUrl, key: otherKey });
found.history = await openLied(() => null);
Object.assign(proxy, { target: url, key });

// The first page signed out when another server answered at its address.
await first.context.close();
first = await openRun({ storageState });
await conclude(first.page);

// New entries come while the log cannot be read: what is proven is no longer everything.
let release;
proxy.gate = new Promise((resolve) => {
  release = resolve;
});
const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
const gates = await (await fetch(`${url}/api/v1/gates`, { headers })).json();
const { subject, digest } = gates.gates.find((gate) => gate.run === run);
const decision = JSON.stringify({ subject, digest, answer: "approve" });
await fetch(`${url}/api/v1/runs/${run}/gate`, { method: "POST", headers, body: decision });
await first.page.locator(".facts-line button.badge.tone-busy").waitFor();
found.arriving = { label: await labelOf(first.page), tone: await toneOf(first.page) };
release();
proxy.gate = null;
await first.page.locator(".facts-line .state.tone-ok").waitFor();
await first.page.locator(".facts-line button.badge.tone-ok").waitFor();
found.ended = await conclude(first.page);

// The page of the log proves what it has loaded, finds entries, and forgets when asked to.
await first.page.goto(`${proxy.url}/ui/#/log`);
const logBadge = first.page.locator(".page-head button.badge");
await first.page.locator(".page-head button.badge.tone-ok").waitFor();
found.log = await logBadge.innerText();
await first.page.getByRole("searchbox").fill("1");
await first.page.getByRole("button", { name: "Find" }).click();
await first.page.locator(".inspector .badge.tone-ok").waitFor();
found.logEntry = await first.page.locator(".inspector").innerText();
found.life = await first.page.getByRole("region", { name: "Events of the log" }).innerText();
await first.page.getByRole("button", { name: "Forget this log" }).click();
await first.page.getByRole("button", { name: "Forget", exact: true }).click();
await first.page.locator(".page-head button.badge.tone-idle").waitFor();
found.forgotten = await logBadge.innerText();
found.faults.push(...first.faults);

await browser.close();
proxy.close();
console.log(JSON.stringify(found, null, 1));

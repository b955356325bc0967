// Whether the badge of the list of runs tells an honest server from one that lies.
//   FORUM_URL=... FORUM_KEY=... [PICTURES=FOLDER] node list.mjs POLICY_FILE OTHER_POLICY_FILE
// The log has more runs than one page of the list, and OTHER_POLICY_FILE another key of it.

import { readFileSync } from "node:fs";
import { findFaultsInBothSchemes, key, openPage, startBrowser, url } from "./browser.mjs";
import { startProxy } from "./proxy.mjs";

const [, , policyFile, wrongFile] = process.argv;
const browser = await startBrowser();
const proxy = await startProxy(url);
const found = { faults: [] };
const BADGE = ".list-check button.badge";

async function openList(options = {}) {
  const opened = await openPage(browser, { origin: proxy.url, ...options });
  opened.page.setDefaultTimeout(60_000);
  await opened.page.goto(`${proxy.url}/ui/#/`);
  await opened.page.locator(BADGE).waitFor();
  return opened;
}

async function readBadge(page) {
  const badge = page.locator(BADGE);
  const tone = (await badge.getAttribute("class")).match(/tone-(\w+)/)[1];
  return { label: await badge.innerText(), tone };
}

/** What the page says when its check has ended. */
async function conclude(page, tone) {
  await page.locator(`${BADGE}.tone-${tone}`).waitFor();
  const note = page.locator("main .note").first();
  const sentence = (await note.count()) ? await note.innerText() : "";
  return { ...(await readBadge(page)), sentence };
}

async function pin(page, file) {
  await page.locator(BADGE).click();
  await page.getByRole("textbox", { name: "Trust file" }).fill(readFileSync(file, "utf8"));
  await page.locator("table.keys").waitFor();
  await page.getByRole("button", { name: "Pin these keys" }).click();
}

/** Read the details, and close them. */
async function readDetails(page) {
  await page.locator(BADGE).click();
  const details = await page.getByRole("dialog").innerText();
  found.faults.push(...(await findFaultsInBothSchemes(page)));
  await page.getByRole("button", { name: "Close", exact: true }).click();
  return details;
}

/** Take pictures of a state, for whoever wants to look at it. */
async function picture(page, name) {
  if (!process.env.PICTURES) return;
  for (const [width, colorScheme] of [
    [1440, "light"],
    [1440, "dark"],
    [390, "light"],
  ]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: `${process.env.PICTURES}/${name}-${width}-${colorScheme}.png` });
  }
  await page.setViewportSize({ width: 1440, height: 900 });
}

// Nothing is proven before keys are pinned, and everything after.
const first = await openList();
found.before = await readBadge(first.page);
await pin(first.page, policyFile);
const { sentence: _, ...honest } = await conclude(first.page, "ok");
found.honest = honest;
const storageState = await first.context.storageState();
found.faults.push(...(await findFaultsInBothSchemes(first.page)));
await picture(first.page, "honest");
await first.page.getByRole("button", { name: "Show older runs" }).click();
await first.page.waitForFunction(
  (badge) => /^(?!100)[0-9]+ runs proven/.test(document.querySelector(badge).innerText),
  BADGE,
);
found.second = await readBadge(first.page);
if (process.env.PICTURES) {
  await first.page.locator(BADGE).click();
  await picture(first.page, "details");
  await first.page.getByRole("button", { name: "Close", exact: true }).click();
}
found.details = await readDetails(first.page);

// A run that begins while somebody looks is proven as well.
await first.page.evaluate((badge) => {
  globalThis.tones = new Set();
  const look = () =>
    globalThis.tones.add(document.querySelector(badge).className.match(/tone-(\w+)/)[1]);
  new MutationObserver(look).observe(document.body, {
    subtree: true,
    childList: true,
    attributes: true,
    characterData: true,
  });
}, BADGE);
const proven = Number.parseInt(found.second.label, 10);
const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
const request = JSON.stringify({ request: "Name three rivers.", budget: { usd: "1" } });
const taken = await fetch(`${url}/api/v1/runs`, { method: "POST", headers, body: request });
if (taken.status !== 202) throw new Error(await taken.text());
await first.page.waitForFunction(
  ([badge, label]) => document.querySelector(badge).innerText === label,
  [BADGE, `${proven + 1} runs proven, none left out`],
);
found.arrived = await readBadge(first.page);
found.tones = await first.page.evaluate(() => [...globalThis.tones].sort());

// A log in which nothing happens is proven once: the list is asked for, and is the same.
let asked = 0;
let lists = 0;
proxy.lie = (path) => {
  if (path.startsWith("/api/v1/directory") || path === "/tlog/checkpoint") asked++;
  if (path.startsWith("/api/v1/runs?")) lists++;
  return null;
};
// The list that was asked for after the new run was known is checked once more, in its order.
while (lists < 2 || asked === 0) await first.page.waitForTimeout(500);
await first.page.waitForTimeout(1000);
asked = lists = 0;
while (lists < 3) await first.page.waitForTimeout(500);
found.askedWhileIdle = asked;
found.faults.push(...first.faults);
await first.context.close();

/** Open the list anew, with what the browser remembers, while the server lies. */
async function openLied(name, lie, tone = "bad", options = { storageState }) {
  proxy.lie = lie;
  const { page, faults, context } = await openList(options);
  if (!options.storageState) await pin(page, wrongFile);
  found[name] = await conclude(page, tone);
  if (["middle", "noAnswer"].includes(name)) {
    found.faults.push(...(await findFaultsInBothSchemes(page)));
    await picture(page, name);
  }
  found.faults.push(...faults.filter((fault) => !/status of [45]/.test(fault)));
  await context.close();
  proxy.lie = () => null;
}

/** Change a reply that is JSON. */
const changing = (start, change) => (path) =>
  path.startsWith(start)
    ? {
        change: (body) => {
          const told = JSON.parse(body.toString());
          change(told);
          return Buffer.from(JSON.stringify(told));
        },
      }
    : null;
const LISTS = "/api/v1/runs?";
const DIRECTORY = "/api/v1/directory?";

await openLied(
  "middle",
  changing(LISTS, ({ runs }) => runs.splice(20, 1)),
);
await openLied(
  "newest",
  changing(LISTS, ({ runs }) => runs.shift()),
);
await openLied(
  "moved",
  changing(LISTS, ({ runs }) => runs.push(...runs.splice(3, 1))),
);
await openLied(
  "gap",
  changing(DIRECTORY, ({ entries }) => entries.splice(1, 1)),
);
await openLied("wrongKey", () => null, "bad", {});
await openLied("noAnswer", (path) => (path.startsWith(DIRECTORY) ? { status: 404 } : null), "wait");

// The end of the directory is kept back, with the genuine proof of an earlier entry.
const all = await (await fetch(`${url}/api/v1/directory?first=0&limit=500`, { headers })).json();
const count = all.entries.length - 1;
const asks = `${url}/api/v1/directory?first=0&limit=${count}`;
const earlier = await (await fetch(asks, { headers })).json();
await openLied(
  "shortened",
  changing(DIRECTORY, (told) => Object.assign(told, earlier)),
);

// A list with a filter is not checked, and says why.
const last = await openList({ storageState });
await last.page.getByLabel("State", { exact: true }).selectOption("running");
await last.page.waitForFunction(
  (badge) => document.querySelector(badge)?.innerText.startsWith("filtered"),
  BADGE,
);
found.filtered = await readBadge(last.page);
found.filteredDetails = await readDetails(last.page);
found.faults.push(...last.faults);

await browser.close();
proxy.close();
console.log(JSON.stringify(found, null, 1));

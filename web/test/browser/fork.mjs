// Move the slider of a run back, print what the page shows then, and fork the run there.
//   FORUM_URL=... FORUM_KEY=... node fork.mjs RUN ENTRIES STEPS SPENT

import { findFaultsInBothSchemes, openPage, startBrowser, url } from "./browser.mjs";

const [, , run, entries, steps, spent] = process.argv;
const browser = await startBrowser();
const { page, faults } = await openPage(browser);
await page.goto(`${url}/ui/#/run/${run}`);
await page.locator(".facts-line .tone-ok").first().waitFor();
const now = await page.locator(".facts-line").innerText();
await page.locator(`input[type="range"][max="${entries}"]`).focus();
for (let step = 0; step < Number(steps); step++) await page.keyboard.press("ArrowLeft");
// The page shows the entries that were passed on the way, too: wait for the last one.
await page.locator(".facts-line").getByText("running").waitFor();
await page.locator(".facts-line").getByText(spent).waitFor();
const until = Number(new URLSearchParams(page.url().split("?")[1]).get("until"));
const stood = {
  facts: await page.locator(".facts-line").innerText(),
  plan: await page.getByText(/tasks passed/).innerText(),
};
await page.getByRole("button", { name: "Fork here" }).click();
const dialog = page.getByRole("dialog");
const promised = await dialog.innerText();
faults.push(...(await findFaultsInBothSchemes(page)));
await dialog.getByRole("button", { name: "Fork", exact: true }).dblclick();
await page.getByText("forked from").waitFor();
const fork = page.url().split("/").at(-1);
const parent = await page.getByText("forked from").getByRole("link").last().getAttribute("href");
await page.locator(".facts-line .tone-ok").first().waitFor();
await browser.close();
console.log(JSON.stringify({ now, until, stood, promised, fork, parent, faults }));

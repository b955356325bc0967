// Look at a run that waits, say `ready`, sign in again at the server that comes after the crash, and
// wait until the run has ended; print the entries then shown.
//   FORUM_URL=... FORUM_KEY=... node follow.mjs RUN

import { key, openPage, startBrowser, url } from "./browser.mjs";

const [, , run] = process.argv;
const browser = await startBrowser();
const { page, faults } = await openPage(browser);
await page.goto(`${url}/ui/#/run/${run}`);
await page.locator(".facts-line").getByText("live").waitFor();
console.log("ready");
await page.getByText("Another process answers at this address").waitFor();
await page.getByLabel("Key").fill(key);
await page.getByRole("button", { name: "Sign in" }).click();
await page.locator(".facts-line .tone-ok").first().waitFor();
const label = await page.getByRole("tab", { name: "Entries" }).innerText();
await browser.close();
console.log(JSON.stringify({ entries: Number(label.match(/\d+/)?.[0]), faults }));

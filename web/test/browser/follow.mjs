// Look at a run that waits, say `ready`, and wait until it has ended; print the entries then shown.
//   FORUM_URL=... FORUM_KEY=... node follow.mjs RUN

import { openPage, startBrowser, url } from "./browser.mjs";

const [, , run] = process.argv;
const browser = await startBrowser();
const { page, faults } = await openPage(browser);
await page.goto(`${url}/ui/#/run/${run}`);
await page.locator(".facts-line").getByText("live").waitFor();
console.log("ready");
await page.locator(".facts-line .tone-ok").first().waitFor();
const label = await page.getByRole("tab", { name: "Entries" }).innerText();
await browser.close();
console.log(JSON.stringify({ entries: Number(label.match(/\d+/)?.[0]), faults }));

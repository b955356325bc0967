// Cancel a run that is under way, and print the state that the page then shows.
//   FORUM_URL=... FORUM_KEY=... node cancel.mjs RUN

import { openPage, startBrowser, url } from "./browser.mjs";

const [, , run] = process.argv;
const browser = await startBrowser();
const { page, faults } = await openPage(browser);
await page.goto(`${url}/ui/#/run/${run}`);
await page.locator(".facts-line").getByText("running").waitFor();
await page.getByRole("button", { name: "Cancel the run" }).click();
await page.locator(".facts-line").getByText("cancelled").waitFor();
const isOffered = await page.getByRole("button", { name: "Cancel the run" }).isVisible();
await browser.close();
console.log(JSON.stringify({ isOffered, faults }));

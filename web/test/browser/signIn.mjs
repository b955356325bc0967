// Open the dashboard, then the printed address in the same tab, and print what the tab shows.
//   FORUM_URL=... node signIn.mjs CODE

import { openPage, startBrowser, url } from "./browser.mjs";

const [, , code] = process.argv;
const browser = await startBrowser();
const { page, faults } = await openPage(browser, { held: "" });
await page.goto(`${url}/ui/`);
await page.getByRole("heading", { name: "Sign in with a key" }).waitFor();
await page.goto(`${url}/ui/#/sign-in/${code}`);
await page.getByRole("heading", { name: "Runs" }).waitFor();
const address = page.url();

// The keys came with the code, and the page says so.
await page.goto(`${url}/ui/#/log`);
await page.locator(".page-head button.badge.tone-ok").waitFor();
const memory = page.locator("section.card", { hasText: "What this browser remembers" });
const remembered = await memory.innerText();
await browser.close();
console.log(JSON.stringify({ address, remembered, faults }));

// Approve what waits with the keyboard alone, and print what the page then says of the run.
//   FORUM_URL=... FORUM_KEY=... node approve.mjs RUN

import { openPage, startBrowser, url } from "./browser.mjs";

const [, , run] = process.argv;
const browser = await startBrowser();
const { page, faults } = await openPage(browser);
await page.goto(`${url}/ui/#/gates`);
await page.getByText("recomputed from the text above").waitFor();
await page.getByRole("button", { name: /^Approve/, disabled: false }).waitFor();
await page.keyboard.press("a");
await page.getByRole("dialog").waitFor();
const digest = await page.locator("dialog code.digest").innerText();
await page.keyboard.press("Enter");
// The list forgets the gate. Its card stays, and says what became of the decision.
await page.getByText("Nothing else waits").waitFor();
await page.getByText("The decision is in the log").waitFor();
await page.goto(`${url}/ui/#/run/${run}`);
await page.locator(".facts-line .tone-ok").first().waitFor();
await page.getByRole("tab", { name: "Entries" }).click();
await page.getByPlaceholder("Filter by").fill("gate.decision");
await page.locator("button.entry").click();
const entry = await page.locator(".inspector .facts").innerText();
await browser.close();
console.log(JSON.stringify({ digest, entry, faults }));

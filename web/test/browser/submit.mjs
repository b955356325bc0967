// Submit a run in the page: without a cap, with a plan that cannot be run, and then with two
// presses of the button, of which the first reply is lost. Print what the page said and did.
//   FORUM_URL=... FORUM_KEY=... node submit.mjs TASKS

import { findFaultsInBothSchemes, openPage, startBrowser, url } from "./browser.mjs";

const [, , tasks] = process.argv;
const browser = await startBrowser();
const { page, faults } = await openPage(browser);
const asked = [];
let lost = 0;
await page.route("**/api/v1/{runs,plan}", async (route) => {
  const request = route.request();
  if (request.method() !== "POST") return route.continue();
  asked.push(new URL(request.url()).pathname);
  if (!request.url().endsWith("/runs") || lost) return route.continue();
  lost++;
  await route.fetch(); // the server carries it out
  await route.abort(); // and its reply is lost
});
await page.goto(`${url}/ui/#/`);
await page.getByRole("link", { name: "New run" }).click();
const preview = page.getByRole("button", { name: "Preview the plan" });
const complaintAt = async (label) => {
  const note = await page.getByLabel(label).getAttribute("aria-describedby");
  return page.locator(`[id="${note}"][role="alert"]`).innerText();
};

await page.getByLabel("Request").fill("Name three rivers.");
await preview.click();
const withoutCap = await complaintAt("Cap in dollars");
const askedWithoutCap = asked.length;
faults.push(...(await findFaultsInBothSchemes(page)));

// The cap is changed before the plan comes: that plan is no longer of what is in the form.
await page.getByLabel("Cap in dollars").fill("50");
let release;
const held = new Promise((resolve) => {
  release = resolve;
});
await page.route("**/api/v1/plan", (route) => held.then(() => route.fallback()), { times: 1 });
await preview.click();
await page.getByLabel("Cap in dollars").fill("0.25");
const replied = page.waitForResponse("**/api/v1/plan");
release();
await replied;
await page.locator("button:enabled", { hasText: "Preview the plan" }).waitFor();
const plansOfAnotherCap = await page.getByRole("button", { name: "Submit the run" }).count();
await page.getByText("Your own plan").click();
await page.getByLabel("Tasks as JSON").fill('[{"id":"a","instruction":"x","needs":["nobody"]}]');
// The server's refusal is an error of the network to the browser, and here it is wanted.
const faultsBefore = faults.length;
await preview.click();
const withBadPlan = await complaintAt("Tasks as JSON");
faults.splice(faultsBefore);

await page.getByLabel("Tasks as JSON").fill(tasks);
await preview.click();
await page.getByRole("heading", { name: "What would be done" }).waitFor();
const planned = await page.locator(".plan .node .clip.strong, .plan .node .strong").allInnerTexts();
const ceiling = await page.getByRole("region", { name: "What would be done" }).innerText();
faults.push(...(await findFaultsInBothSchemes(page)));
await page.getByRole("button", { name: "Record this preview" }).click();
const link = page.getByRole("link", { name: "Recorded" });
const recorded = (await link.getAttribute("href")).split("/").at(-1);
await page.getByRole("button", { name: "Submit the run" }).dblclick();
await page.waitForURL(/#\/run\//);
const run = page.url().split("/").at(-1);
await page.locator(".facts-line .tone-ok").first().waitFor();
const care = await page.locator(".facts-line").innerText();

// A server without a worker accepts the run, and says so.
await page.goto(`${url}/ui/#/submit`);
await page.route("**/api/v1/runs", async (route) => {
  if (route.request().method() !== "POST") return route.continue();
  const json = { run: recorded, href: "", events: "", worker: false };
  await route.fulfill({ status: 202, json });
});
await page.getByLabel("Request").fill("Name three rivers.");
await page.getByLabel("Cap in dollars").fill("0.25");
await preview.click();
await page.getByRole("button", { name: "Submit the run" }).click();
const withoutWorker = await page.getByRole("status").innerText();
await browser.close();
console.log(
  JSON.stringify({
    ...{ run, lost, withoutCap, askedWithoutCap, plansOfAnotherCap, withBadPlan },
    ...{ planned, ceiling, recorded, care, withoutWorker, faults },
  }),
);

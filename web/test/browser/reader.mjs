// Look at all that changes something with a key that may only read, and print what is said.
//   FORUM_URL=... FORUM_KEY=... node reader.mjs RUN

import { findAccessibilityFaults, openPage, startBrowser, url } from "./browser.mjs";

const [, , run] = process.argv;
const browser = await startBrowser();
const { page, faults } = await openPage(browser);
const actions =
  /New run|Fork here|Cancel the run|Download evidence|Download the pack|Submit the run|Make the key/;
const said = {};
async function look(name, hash, ...scopes) {
  await page.goto(`${url}/ui/${hash}`);
  for (const scope of scopes) {
    await page.getByText(`does not have the scope ${scope}.`).first().waitFor();
  }
  const texts = await page.getByText("does not have the scope").allInnerTexts();
  const offered = await page.getByRole("button", { name: actions }).allInnerTexts();
  const links = await page.getByRole("link", { name: actions }).allInnerTexts();
  said[name] = { texts, offered: [...offered, ...links] };
  faults.push(...(await findAccessibilityFaults(page)));
}
await look("runs", "#/", "submit");
await look("run", `#/run/${run}`, "approve", "audit", "submit");
await look("access", "#/access", "admin");
await look("submit", "#/submit", "submit");
await page.getByLabel("Request").fill("Name three rivers.");
await page.getByLabel("Cap in dollars").fill("1");
await page.getByRole("button", { name: "Preview the plan" }).click();
const plan = page.getByRole("region", { name: "What would be done" });
await plan.waitFor();
said.preview = {
  texts: await plan.getByText("does not have the scope").allInnerTexts(),
  offered: await plan.getByRole("button").allInnerTexts(),
};
const sections = await page.getByRole("navigation").getByRole("link").allInnerTexts();
await browser.close();
console.log(JSON.stringify({ said, sections, faults }));

// Look at the inbox, say `ready`, and wait until the page does not trust its server any more; print
// what it says, what it keeps, and the address of a page that there is not.
//   FORUM_URL=... FORUM_KEY=... node foreign.mjs

import { openPage, startBrowser, url } from "./browser.mjs";

const browser = await startBrowser();
const { page, faults } = await openPage(browser);
const pages = {};
for (const name of ["__proto__", "constructor", "toString"]) {
  await page.goto(`${url}/ui/#/${name}`);
  pages[name] = await page.locator("main").innerText();
}
await page.goto(`${url}/ui/#/gates`);
await page.getByText("Nothing waits for you").waitFor();
const kept = await page.evaluate(() => Object.values(sessionStorage).join(" "));
console.log("ready");
await page.getByRole("heading", { name: "Sign in with a key" }).waitFor();
const said = await page.locator(".note").innerText();
const left = await page.evaluate(() => Object.values(sessionStorage).join(" "));
await browser.close();
console.log(JSON.stringify({ pages, said, kept, left, faults }));

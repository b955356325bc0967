// Filter the list of runs, load the page anew from its address, and print both lists.
//   FORUM_URL=... FORUM_KEY=... node filters.mjs STATE TEXT

import { openPage, startBrowser, url } from "./browser.mjs";

const [, , state, text] = process.argv;
const browser = await startBrowser();
const { page, faults } = await openPage(browser);
const listed = async () => {
  await page.locator("main .runs").waitFor();
  const links = await page.locator(".runs .request a").all();
  return Promise.all(
    links.map(async (link) => (await link.getAttribute("href")).split("/").at(-1)),
  );
};
await page.goto(`${url}/ui/#/`);
const all = await listed();
await page.getByLabel("State", { exact: true }).selectOption(state);
await page.getByLabel("Search in requests").fill(text);
await page.waitForURL(/text=/);
await page.waitForFunction((count) => {
  const rows = document.querySelectorAll(".runs .request").length;
  return rows > 0 && rows < count;
}, all.length);
const filtered = await listed();
const address = page.url().split("#")[1];
await page.reload();
const afterReload = await listed();
const kept = [
  await page.getByLabel("State", { exact: true }).inputValue(),
  await page.getByLabel("Search in requests").inputValue(),
];
await browser.close();
console.log(JSON.stringify({ all, filtered, afterReload, address, kept, faults }));

// Scroll through a long conversation: the messages of what is in view are there, and little else.
//   FORUM_URL=... FORUM_KEY=... node conversation.mjs RUN

import { openPage, startBrowser, url } from "./browser.mjs";

const browser = await startBrowser();
const { page, faults } = await openPage(browser);
let pages = 0;
page.on("request", (request) => {
  pages += request.url().includes("/transcript") ? 1 : 0;
});
await page.goto(`${url}/ui/#/run/${process.argv[2]}`);
await page.locator(".exchange .message").first().waitFor();
await page.waitForLoadState("networkidle");
const first = pages;
const shown = new Map();
for (const part of [0.5, 1]) {
  await page.evaluate((share) => {
    const box = document.scrollingElement;
    box.scrollTop = share * box.scrollHeight;
  }, part);
  await page.waitForTimeout(300);
  await page.waitForLoadState("networkidle");
  await page.waitForFunction(() => {
    const lines = [...document.querySelectorAll(".exchange")];
    return lines.length > 0 && lines.every((line) => !line.innerText.startsWith("Loading"));
  });
  const texts = await page.locator(".exchange .message").allInnerTexts();
  shown.set(part, texts.length);
  const repeated = texts.filter((text, at) => texts.indexOf(text) !== at);
  faults.push(...repeated.map((text) => `shown twice: ${text.slice(0, 40)}`));
}
const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
if (process.argv[3]) await page.screenshot({ path: process.argv[3] });
await browser.close();
console.log(JSON.stringify({ first, pages, nodes, shown: [...shown.values()], faults }));

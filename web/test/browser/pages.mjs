// Every page with sample data: no error, no refused load, no request elsewhere, nothing for axe.
//   FORUM_URL=... FORUM_KEY=... node pages.mjs HASH ...

import { findAccessibilityFaults, openPage, startBrowser, url } from "./browser.mjs";

const FORMS = [
  { colorScheme: "light", viewport: { width: 1440, height: 900 } },
  { colorScheme: "dark", viewport: { width: 390, height: 844 } },
];
const found = [];
const browser = await startBrowser();
for (const form of FORMS) {
  for (const hash of process.argv.slice(2)) {
    const { page, faults, context } = await openPage(browser, form);
    await page.goto(`${url}/ui/${hash}`);
    await page.waitForSelector("main h1, main .empty h2");
    await page.waitForFunction(
      () => !document.querySelector("main")?.innerText.includes("Loading"),
    );
    const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    if (isWide) faults.push("the page scrolls sideways");
    faults.push(...(await findAccessibilityFaults(page)));
    found.push(
      ...faults.map((fault) => `${hash} ${form.colorScheme} ${form.viewport.width}: ${fault}`),
    );
    await context.close();
  }
}
await browser.close();
console.log(JSON.stringify(found, null, 1));

// Take pictures of pages, in both schemes and two widths, and look for accessibility faults:
//   FORUM_URL=... FORUM_KEY=... node shots.mjs FOLDER NAME=HASH ...

import { findAccessibilityFaults, openPage, startBrowser, url } from "./browser.mjs";

const [, , folder, ...pages] = process.argv;
const browser = await startBrowser();
for (const colorScheme of ["light", "dark"]) {
  for (const width of [1440, 390]) {
    for (const named of pages) {
      const [name, hash] = [named.split("=", 1)[0], named.slice(named.indexOf("=") + 1)];
      const options = { colorScheme, viewport: { width, height: width === 390 ? 844 : 900 } };
      const { page, faults, context } = await openPage(browser, options);
      await page.goto(`${url}/ui/${hash}`);
      await page.waitForSelector("main h1, main .empty");
      await page.waitForLoadState("networkidle", { timeout: 3000 }).catch(() => {});
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      if (wide) faults.push("the page scrolls sideways");
      faults.push(...(await findAccessibilityFaults(page)));
      if (folder !== "-") {
        await page.screenshot({
          path: `${folder}/${name}-${width}-${colorScheme}.png`,
          fullPage: true,
        });
      }
      if (faults.length) console.log(name, width, colorScheme, faults);
      await context.close();
    }
  }
}
await browser.close();

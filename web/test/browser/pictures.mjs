// Take the pictures of the README, of a log whose keys are pinned:
//   FORUM_URL=... FORUM_KEY=... node pictures.mjs FOLDER POLICY_FILE NAME=RUN ...

import { readFileSync } from "node:fs";
import { openPage, startBrowser, url } from "./browser.mjs";

const [, , folder, policyFile, ...pictures] = process.argv;
const browser = await startBrowser();
const { page } = await openPage(browser, { viewport: { width: 1360, height: 1060 } });
await page.goto(`${url}/ui/#/log`);
await page.getByRole("button", { name: "Pin the keys of this log" }).click();
await page.getByRole("textbox", { name: "Policy" }).fill(readFileSync(policyFile, "utf8"));
await page.getByRole("button", { name: "Pin these keys" }).click();
for (const picture of pictures) {
  const [name, run] = picture.split("=");
  await page.goto(`${url}/ui/#/run/${run}`);
  await page.locator(".facts-line button.badge.tone-ok").waitFor();
  await page.mouse.move(0, 0);
  await page.screenshot({ path: `${folder}/${name}.png` });
}
await browser.close();

// Take the pictures of the documentation, of a log whose keys are pinned (tests/docs/pictures.py):
//   FORUM_URL=... FORUM_KEY=... node pictures.mjs FOLDER POLICY_FILE NAME=RUN=HEIGHT ...

import { readFileSync } from "node:fs";
import { openPage, startBrowser, url } from "./browser.mjs";

const [, , folder, policyFile, ...pictures] = process.argv;
const browser = await startBrowser();
const { page } = await openPage(browser, {});
await page.goto(`${url}/ui/#/log`);
await page.getByRole("button", { name: "Pin the keys of this log" }).click();
await page.getByRole("textbox", { name: "Trust file" }).fill(readFileSync(policyFile, "utf8"));
await page.getByRole("button", { name: "Pin these keys" }).click();
for (const picture of pictures) {
  const [name, run, height] = picture.split("=");
  await page.setViewportSize({ width: 1360, height: Number(height) });
  await page.goto(`${url}/ui/#/run/${run}`);
  await page.locator(".facts-line button.badge.tone-ok").waitFor();
  await page.mouse.move(0, 0);
  await page.screenshot({ path: `${folder}/${name}.png` });
}
await browser.close();

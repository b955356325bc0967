// Take an evidence pack on the page of the log, save it, and print what the page said of a bad one.
//   FORUM_URL=... FORUM_KEY=... node pack.mjs FILE

import { findAccessibilityFaults, openPage, startBrowser, url } from "./browser.mjs";

const [, , file] = process.argv;
const browser = await startBrowser();
const { page, faults } = await openPage(browser);
await page.goto(`${url}/ui/#/log`);
const button = page.getByRole("button", { name: "Download the pack" });
const drawn = page.getByLabel("Runs drawn");
await drawn.fill("many");
const withoutNumber = { isEnabled: await button.isEnabled(), hint: "" };
withoutNumber.hint = await page.getByText("A number up to").innerText();
await drawn.fill("1");
const downloading = page.waitForEvent("download");
await button.click();
const download = await downloading;
await download.saveAs(file);
await button.waitFor();
faults.push(...(await findAccessibilityFaults(page)));
await browser.close();
console.log(JSON.stringify({ name: download.suggestedFilename(), withoutNumber, faults }));

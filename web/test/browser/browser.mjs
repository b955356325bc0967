// A browser for the tests: Debian's Chromium, signed in, which remembers what went wrong.

import { AxeBuilder } from "@axe-core/playwright";
import { chromium } from "playwright-core";

/** Long enough for a machine with other work. */
const TIMEOUT_MS = 120_000;

export const { FORUM_URL: url, FORUM_KEY: key } = process.env;

/**
 * Open a page as the holder of a key, or of none if it is empty. `faults` collects errors, refused
 * loads, and requests to another origin than that of the page.
 */
export async function openPage(browser, { held = key, origin = url, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  await context.addInitScript((kept) => {
    if (kept) sessionStorage.setItem("forum.key", kept);
  }, held);
  context.setDefaultTimeout(TIMEOUT_MS);
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => {
    // A server that restarts is a fault of the network, which the page has to survive.
    const isNetwork = /net::ERR_|status of 5\d\d/.test(message.text());
    if (message.type() === "error" && !isNetwork) faults.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith("blob:")) {
      faults.push(`left the origin: ${request.url()}`);
    }
  });
  return { page, faults, context };
}

export async function startBrowser() {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  return chromium.launch({ executablePath, args: ["--no-sandbox"] });
}

/** What axe finds on a page, as one line each. */
export async function findAccessibilityFaults(page) {
  const { violations } = await new AxeBuilder({ page }).analyze();
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.target).join(" ")}`);
}

/** The same in the light and in the dark scheme. */
export async function findFaultsInBothSchemes(page) {
  const found = [];
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const faults = await findAccessibilityFaults(page);
    found.push(...faults.map((fault) => `${colorScheme} ${fault}`));
  }
  return found;
}

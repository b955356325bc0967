/** The page: takes what the reader chooses, and shows what the worker finds.  Text only. */

/** @typedef {import("./contents.js").EntryLine} EntryLine */
/** @typedef {import("./contents.js").EntryPart} EntryPart */
/** @typedef {import("./pack_page.js").PackPage} PackPage */
/** @typedef {import("./pack_page.js").PageNode} PageNode */
/** @typedef {import("./view.js").ClaimView} ClaimView */
/** @typedef {import("./view.js").ReportView} ReportView */
/** @typedef {import("./view.js").Section} Section */

const ENTRIES_AT_ONCE = 200;
const HTML = document.documentElement.namespaceURI;
const SVG = "http://www.w3.org/2000/svg";
const BEGIN = "Nothing is checked yet. Choose a file, and say whom you trust.";
// A state is told by word and mark as well as by color.
/** @type {Record<string, string>} */
const MARKS = { holds: "✓", fails: "✗", unknown: "?", warn: "!" };

/**
 * @param {string} id
 * @returns {any}
 */
function find(id) {
  return document.getElementById(id);
}

/**
 * Make an element with a text; a text never becomes markup.
 * @param {string} tag
 * @param {string} text
 * @param {string} className
 */
function make(tag, text = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  return made;
}

/**
 * Show a message about the verification.
 * @param {string} text
 * @param {boolean} isRefused
 */
function say(text, isRefused = false) {
  find("state").textContent = text;
  find("state").classList.toggle("refused", isRefused);
}

/** @type {Worker | null} */
let worker = null;
/** The bundle that was dropped or chosen last. @type {File | null} */
let chosen = null;
/** @type {EntryLine[]} */
let entries = [];
/** The page of the pack that was verified last, once it is drawn. @type {PackPage | null} */
let packPage = null;

/** Start a worker; one that is still at work on an earlier question is ended. */
function startWorker() {
  worker?.terminate();
  const source = new Blob([find("worker").textContent], { type: "text/javascript" });
  worker = new Worker(URL.createObjectURL(source));
  worker.onmessage = ({ data }) => takeMessage(data);
  worker.onerror = (event) => say(`Not verified: ${event.message}`, true);
  return worker;
}

/** @param {any} message */
function takeMessage(message) {
  if (message.view) showReport(message.view);
  else if (message.entries) showEntries(message.entries);
  else if (message.page) showPage(message.page);
  else if (message.parts) showParts(message.shown, message.parts);
  else if (message.refused) say(`Not verified. Your keys or trust file: ${message.refused}`, true);
  else say(`Verifying: ${message.done} of ${message.total} entries`);
}

/** Verify what the reader has chosen. */
async function verifyChosen() {
  find("result").hidden = true;
  const asked = startWorker();
  if (!chosen) return say(BEGIN);
  say("Verifying");
  try {
    const bundle = await chosen.arrayBuffer();
    const seen = await Promise.all([...find("seen").files].map((file) => file.arrayBuffer()));
    const keys = find("keys").value.split(/\s+/).filter(Boolean);
    // The reader may have chosen again meanwhile.
    if (asked === worker) asked.postMessage({ bundle, policy: find("policy").value, keys, seen, gigabytes: Number(find("gigabytes").value) });
  } catch {
    say(`Not verified. The browser cannot read ${chosen.name}; verify.py reads files of any size.`, true);
  }
}

/** @param {ReportView} view */
function showReport(view) {
  say(chosen?.name ?? "");
  find("summary").textContent = `${MARKS[view.tone]} ${view.summary}`;
  find("summary").className = view.tone;
  find("story").hidden = !view.story.length;
  find("story-title").textContent = view.storyTitle;
  find("story-lines").replaceChildren(
    ...view.story.flatMap(({ name, text }) => [make("dt", name), make("dd", text)]),
  );
  find("claims").replaceChildren(...view.claims.map(makeClaim));
  find("sections").replaceChildren(...view.sections.map(makeSection));
  find("contents").open = false;
  find("contents").hidden = !view.contents;
  find("contents-note").textContent = view.contents;
  find("entries").replaceChildren();
  entries = [];
  find("report").open = false;
  find("report").hidden = !view.hasPage;
  find("drawn").replaceChildren();
  packPage = null;
  find("result").hidden = false;
  find("summary").focus();
}

/** @param {ClaimView} claim */
function makeClaim({ name, state, tone, meaning, reason }) {
  const row = make("div", "", tone);
  const mark = make("dd", `${MARKS[tone]} ${state}`, "mark");
  const why = make("dd", "", "reason");
  why.append(make("strong", meaning), make("span", reason));
  row.append(make("dt", name), mark, why);
  return row;
}

/** @param {Section} section */
function makeSection({ title, items }) {
  const section = make("section", "", title.toLowerCase());
  const list = make("ul");
  list.append(...items.map((item) => make("li", item)));
  section.append(make("h3", title), list);
  return section;
}

/** @param {PackPage} page */
function showPage(page) {
  packPage = page;
  find("drawn").replaceChildren(...page.children.map((child) => makeNode(child)));
}

/**
 * Make the node of an element or a text of a page; a text never becomes markup.
 * @param {PageNode} node
 * @param {string | null} space
 * @returns {Node}
 */
function makeNode(node, space = HTML) {
  if (typeof node === "string") return document.createTextNode(node);
  const inner = node.tag === "svg" ? SVG : space;
  const made = document.createElementNS(inner, node.tag);
  for (const [name, value] of Object.entries(node.attributes)) made.setAttribute(name, value);
  made.append(...node.children.map((child) => makeNode(child, inner)));
  return made;
}

/**
 * Return the page as a file, which loads nothing and runs no script.  The browser escapes its texts.
 * @param {PackPage} page
 */
function writePage({ title, margin, children }) {
  const quoted = margin.replace(/[^ -~]|["\\<]/gu, (letter) => `\\${letter.codePointAt(0)?.toString(16)} `);
  const corner = `@bottom-left { content: "${quoted}"; font: 8.5pt system-ui, sans-serif; color: #6b4500; }`;
  const main = make("main", "", "report");
  main.append(...children.map((child) => makeNode(child)));
  return [
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">`,
    make("title", title).outerHTML,
    `<style>${document.querySelector("style")?.textContent}\n@page { ${corner} }</style>`,
    `</head>\n<body>\n${main.outerHTML}\n</body>\n</html>\n`,
  ].join("\n");
}

/** Give the page of the pack to the reader as a file. */
function savePage() {
  if (!packPage) return;
  const link = make("a");
  link.setAttribute("href", URL.createObjectURL(new Blob([writePage(packPage)], { type: "text/html" })));
  link.setAttribute("download", "page.html");
  link.click();
}

/** @param {EntryLine[]} listed */
function showEntries(listed) {
  entries = listed;
  showMoreEntries();
}

function showMoreEntries() {
  const list = find("entries");
  const shown = list.children.length;
  list.append(...entries.slice(shown, shown + ENTRIES_AT_ONCE).map(makeEntry));
  find("more").hidden = list.children.length >= entries.length;
}

/**
 * Make the line of an entry, whose text is asked for when it is opened.
 * @param {EntryLine} line
 */
function makeEntry({ index, title, time }) {
  const item = make("li");
  const opener = make("details");
  opener.id = `entry-${index}`;
  opener.append(make("summary", title, "mono"), make("p", time, "hint"));
  opener.addEventListener("toggle", () => worker?.postMessage({ show: index }), { once: true });
  item.append(opener);
  return item;
}

/**
 * @param {string} index
 * @param {EntryPart[]} parts
 */
function showParts(index, parts) {
  for (const { title, pieces } of parts) {
    const box = make("pre");
    box.tabIndex = 0;
    box.append(...pieces.map(({ text, hidden }) => (hidden ? make("mark", text) : text)));
    find(`entry-${index}`).append(make("h4", title), ...(pieces.length ? [box] : []));
  }
}

/**
 * Take files that were dropped: a zip file is the bundle or pack, another one the trust file.
 * @param {FileList} files
 */
async function takeFiles(files) {
  for (const file of files) {
    if (file.name.endsWith(".zip")) chosen = file;
    else find("policy").value = await file.text();
  }
  verifyChosen();
}

/**
 * @param {string} id
 * @param {string} type
 * @param {(event: any) => void} act
 */
function on(id, type, act) {
  find(id).addEventListener(type, act);
}

on("question", "submit", (event) => {
  event.preventDefault();
  verifyChosen();
});
on("bundle", "change", () => {
  chosen = find("bundle").files[0] ?? null;
  verifyChosen();
});
on("policy-file", "change", () => takeFiles(find("policy-file").files));
for (const id of ["policy", "keys", "seen", "gigabytes"]) on(id, "change", verifyChosen);
on("more", "click", showMoreEntries);
on("save", "click", savePage);
on("report", "toggle", () => {
  if (find("report").open && !packPage) worker?.postMessage({ draw: true });
});
on("contents", "toggle", () => {
  if (find("contents").open && !entries.length) worker?.postMessage({});
});
for (const type of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(type, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dragging", type === "dragover");
  });
}
document.addEventListener("drop", (event) => {
  if (event.dataTransfer) takeFiles(event.dataTransfer.files);
});

// What the page does: draws what is in view, listens to its controls, prints, and follows its server while runs go on.
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const listen = (id, event, act) => byId(id)?.addEventListener(event, act);

// ---- appearance
const dark = matchMedia("(prefers-color-scheme: dark)");
function remembered(value) {
  try { // a browser may keep nothing for pages from files
    if (value !== undefined) localStorage.setItem("hrnn-theme", value);
    return localStorage.getItem("hrnn-theme") || "";
  } catch { return ""; }
}
function setTheme(value) {
  if (value) document.documentElement.dataset.theme = value;
  else delete document.documentElement.dataset.theme;
}

// ---- what is drawn, each when it is first seen, and again when something has changed
const inView = new Set();
const fresh = new WeakSet();
const queue = [];
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) inView.add(entry.target);
    else inView.delete(entry.target);
    if (entry.isIntersecting) ask(entry.target);
  }
}, { rootMargin: "150px" });
function ask(div) {
  if (fresh.has(div) || queue.includes(div)) return;
  queue.push(div);
  div.dataset.busy = "";
  if (queue.length === 1) setTimeout(work, 0);
}
function work() { // one at a time, so that the page answers in between
  const div = queue[0];
  if (div.isConnected && inView.has(div)) draw(div);
  delete div.dataset.busy;
  queue.shift();
  if (queue.length) setTimeout(work, 0);
}
function draw(div) {
  fresh.add(div);
  const { traces, layout } = pictureOf(div);
  Plotly.react(div, traces, layout, {
    displaylogo: false, responsive: true, plotlyServerURL: "", showSendToCloud: false,
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]], // none that sends data anywhere
    toImageButtonOptions: { format: "svg", filename: "hrnn" },
  });
}
function redraw() {
  for (const div of all(".plot")) {
    fresh.delete(div);
    if (inView.has(div)) ask(div);
  }
}
function pictureOf(div) {
  const of = div.dataset;
  if (of.curves !== undefined) return curves(data.panels.find((panel) => panel.name === of.curves));
  if (of.study !== undefined) return study(data.studies[of.study][of.panel]);
  if (of.level !== undefined) return recovered(data.runs[of.run].recovered[of.level]);
  return confusion(data.runs[of.run].confusion);
}

// ---- tables beside pictures of one run
function element(kind, text, attributes = {}) {
  const made = document.createElement(kind);
  if (text) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
function tableOf(heads, rows) {
  const table = element("table"), head = table.createTHead().insertRow(), body = table.createTBody();
  for (const text of heads) head.append(element("th", text, { scope: "col" }));
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((text, place) => line.append(element(place ? "td" : "th", String(text ?? ""), place ? { class: "number" } : { scope: "row" })));
  }
  return table;
}
function picture(place, caption, attributes, heads, rows) {
  const figure = element("figure"), numbers = element("details"), frame = element("div", "", { class: "wide", tabindex: "0", role: "region", "aria-label": caption });
  frame.append(tableOf(heads, rows));
  numbers.append(element("summary", "The numbers"), frame);
  figure.append(element("figcaption", caption), element("div", "", { class: "plot", role: "img", "aria-label": `${caption}; the numbers are in a table below`, "data-run": place, ...attributes }), numbers);
  return figure;
}
function fillPictures(details) {
  const box = details.querySelector(".pictures");
  if (!box || box.childElementCount || !details.open) return;
  const place = box.dataset.pictures, run = data.runs[place];
  (run.recovered || []).forEach((level, at) => {
    const caption = `What the decoder of level ${level.level} recovers${level.thinned ? " (some of the validations and indices)" : ""}`;
    const last = level.z.map((row, index) => [level.indices[index], row[row.length - 1]]);
    box.append(picture(place, caption, { "data-level": at }, ["ticks back", "lost at the last validation, of 1 by guessing"], last));
  });
  if (run.confusion) {
    const { classes, counts } = run.confusion;
    box.append(picture(place, "Confusion matrix", { "data-confusion": "" }, ["class, taken for", ...classes], counts.map((row, at) => [classes[at], ...row])));
  }
  all(".plot", box).forEach((div) => watcher.observe(div));
}

// ---- controls
const boxes = () => all("#runs input");
const labelOf = (box) => data.runs[box.dataset.run].label;
function count() {
  if (byId("count")) byId("count").textContent = `(${boxes().filter((box) => box.checked).length} of ${boxes().length} shown)`;
}
function switched() {
  for (const box of boxes()) {
    if (box.checked) state.off.delete(labelOf(box));
    else state.off.add(labelOf(box));
  }
  count();
  redraw();
}
function number(id) {
  const value = parseFloat(byId(id).value);
  return Number.isFinite(value) && !(state.logx && value <= 0) ? value : null;
}
function axes() {
  const x = byId("x").value;
  if (x !== state.x) byId("from").value = byId("to").value = ""; // of another scale
  Object.assign(state, { x, y: byId("y").value, logx: byId("logx").checked });
  Object.assign(state, { from: number("from"), to: number("to") });
  redraw();
}
function listenToControls() {
  for (const id of ["x", "y", "logx", "from", "to"]) listen(id, "change", axes);
  listen("whole", "click", () => { byId("from").value = byId("to").value = ""; axes(); });
  listen("runs", "change", switched);
  listen("filter", "input", () => {
    const part = byId("filter").value.toLowerCase();
    for (const line of all("#runs li")) line.hidden = !line.dataset.name.toLowerCase().includes(part);
  });
  for (const [id, on] of [["all", true], ["none", false]]) listen(id, "click", () => { // of those that the filter leaves
    for (const box of boxes()) if (!box.closest("li").hidden) box.checked = on;
    switched();
  });
}
function listenToContent() {
  all(".plot").forEach((div) => watcher.observe(div));
  for (const details of all("details.run")) {
    details.addEventListener("toggle", () => fillPictures(details));
    fillPictures(details);
  }
}
function openTarget() { // a link to a run opens it
  const target = location.hash.length > 1 && byId(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
}

// ---- printing: everything in light colours, at the width of half a page
let before = null;
addEventListener("beforeprint", () => {
  before = { theme: byId("theme").value, opened: all("details:not([open])") };
  setTheme("light");
  if (data.runs.length > 10) before.opened = before.opened.filter((one) => !one.classList.contains("run"));
  before.opened.forEach((one) => { one.open = true; if (one.classList.contains("run")) fillPictures(one); });
  for (const div of all(".plot")) if (div.offsetParent) { draw(div); Plotly.relayout(div, { autosize: false, width: 330, height: 235 }); }
});
addEventListener("afterprint", () => {
  setTheme(before.theme);
  before.opened.forEach((one) => { one.open = false; });
  for (const div of all(".plot.js-plotly-plot")) Plotly.relayout(div, { autosize: true, width: null, height: null });
  redraw();
});

// ---- live: the same page again, as it is now; what the reader has chosen stays
let seen = null;
const keyOf = (div) => JSON.stringify({ ...div.dataset, busy: undefined });
async function follow() {
  const began = performance.now();
  try {
    const answer = await fetch(location.href, { cache: "no-cache" });
    if (!answer.ok) throw new Error(answer.statusText);
    const tag = answer.headers.get("ETag");
    if (seen !== null && tag !== seen) adopt(await answer.text());
    seen = tag;
    byId("lost").textContent = "";
  } catch { byId("lost").textContent = "; its server does not answer any more"; }
  setTimeout(follow, Math.max(3000, 4 * (performance.now() - began)));
}
function adopt(text) {
  const next = new DOMParser().parseFromString(text, "text/html");
  if (Boolean(next.querySelector("aside")) !== Boolean(document.querySelector("aside"))) return location.reload();
  const opened = new Set(all("details[open]").map((one) => one.id)), closed = new Set(all("details:not([open])").map((one) => one.id));
  const drawn = new Map(all(".plot.js-plotly-plot:not([data-run])").map((div) => [keyOf(div), div]));
  const focus = document.activeElement?.id, scroll = scrollY;
  data = JSON.parse(next.getElementById("data").textContent);
  document.title = next.title;
  for (const selector of ["h1", "#runs", "main"]) {
    const now = document.querySelector(selector), then = next.querySelector(selector);
    if (now && then) now.replaceChildren(...then.childNodes);
  }
  for (const div of all(".plot")) if (drawn.has(keyOf(div))) div.replaceWith(drawn.get(keyOf(div)));
  for (const box of boxes()) box.checked = !state.off.has(labelOf(box));
  for (const one of all("details")) if (one.id) one.open = opened.has(one.id) || (one.open && !closed.has(one.id));
  byId("filter")?.dispatchEvent(new Event("input"));
  listenToContent();
  count();
  redraw();
  scrollTo(0, scroll);
  if (focus) byId(focus)?.focus({ preventScroll: true });
}

byId("theme").value = remembered();
setTheme(byId("theme").value);
listen("theme", "change", () => { setTheme(remembered(byId("theme").value) || byId("theme").value); redraw(); });
dark.addEventListener("change", redraw);
addEventListener("hashchange", openTarget);
if (matchMedia("(max-width: 60rem)").matches) document.querySelector("details.controls")?.removeAttribute("open");
boxes().forEach((box) => { box.checked = true; });
listenToControls();
listenToContent();
count();
openTarget();
if ("live" in document.body.dataset) follow();

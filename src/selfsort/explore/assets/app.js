// The page: clusters on the left, images of one view on the right. Every change goes to the server first.
import { page, request } from "./api.js";
import { ask, enlarge } from "./dialogs.js";
import { Grid } from "./grid.js";
import { picture, prefetch, show } from "./pictures.js";
import { Review } from "./review.js";

const PAGE = 100;
const number = (value) => value.toLocaleString("en");
const percent = (value) => `${Math.round(100 * value)} %`;
const lastPage = (count) => Math.max(0, Math.floor((count - 1) / PAGE) * PAGE);
const images = (count) => `${number(count)} image${count === 1 ? "" : "s"}`;

let state, view, total = 0, offset = 0, isReviewing = false, drawing = 0, sending = Promise.resolve();
let ahead = {}; // the page that will probably be opened next

const cluster = (id) => state.clusters.find((entry) => entry.id === id);
const title = (id) => cluster(id)?.name || `Cluster ${id}`;
const viewTitle = () => ({ all: "All images", outliers: "Outliers" })[view] ?? title(Number(view));
const isCluster = () => view !== "all" && view !== "outliers";
const describe = (item) => `${item.name}, ${item.outlier ? "outlier" : title(item.cluster)}, confidence ${percent(item.confidence)}`;

const grid = new Grid(byId("grid"), {
  describe,
  caption: (item) => [isCluster() ? item.name.split("/").pop() : title(item.cluster), percent(item.confidence)],
  onSelect: drawSelection,
  onOpen: (item) => item && enlarge(item, describe(item).slice(item.name.length + 2)),
  onTurn: (step) => turn(offset + step * PAGE, true),
});
const review = new Review({ change, title, percent, onEnd: endReview });

function say(message, isError = false) {
  const place = byId("status");
  place.textContent = message.charAt(0).toUpperCase() + message.slice(1);
  place.classList.toggle("error", isError);
}

// Sends one edit after the other. Returns the new state, or null if it was refused (the status line says why).
function change(edit) { return (sending = sending.then(() => send(edit))); }

async function send(edit) {
  const answer = await request("api/edit", { ...edit, version: state.version }).catch((error) => error);
  state = answer.state ?? state;
  drawClusters();
  say(answer.done ? `${answer.done}.` : answer.message, !answer.done);
  return answer.done ? state : null;
}

async function changeAndReload(edit, next = view) {
  grid.setBusy(true);
  const isDone = Boolean(await change(edit));
  if (isDone) grid.selected.clear();
  await open(next, offset, isDone && "images" in edit);
}

async function open(next, at = 0, keepFocus = false) {
  const isKnown = next === "all" || next === "outliers" || cluster(Number(next));
  if (String(next) !== view) grid.selected.clear();
  view = isKnown ? String(next) : String(state.clusters[0].id);
  history.replaceState(null, "", `#${view}`);
  drawClusters();
  await turn(isKnown ? at : 0, keepFocus);
}

async function turn(to, keepFocus = false) {
  const mine = ++drawing, focus = keepFocus ? grid.at : null;
  grid.setBusy(true);
  let found;
  try {
    found = await fetchPage(Math.max(0, to));
    if (!found.items.length && found.total) found = await fetchPage(lastPage(found.total));
  } catch (error) {
    return grid.setBusy(false), say(error.message, true);
  }
  if (mine !== drawing) return; // another page was asked for meanwhile
  const step = found.offset < offset ? -PAGE : PAGE;
  ({ total, offset } = found);
  byId("title").textContent = viewTitle();
  byId("count").textContent = images(total);
  byId("page").textContent = `Page ${number(offset / PAGE + 1)} of ${number(lastPage(total) / PAGE + 1)}`;
  for (const id of ["first", "previous"]) byId(id).disabled = offset === 0;
  for (const id of ["next", "last"]) byId(id).disabled = offset >= lastPage(total);
  byId("cluster-actions").hidden = !isCluster();
  drawSelection(grid.selected);
  await grid.draw(found, { focus });
  if (mine === drawing && offset + step >= 0 && offset + step < total) fetchPage(offset + step).then(prefetch, () => {});
}

function fetchPage(at) {
  const order = byId("order").value, key = `${state.version} ${view} ${order} ${at}`;
  if (ahead.key !== key) ahead = { key, found: page(view, order, at, PAGE) };
  ahead.found.catch(() => { ahead = {}; });
  return ahead.found;
}

function drawSelection(selected) {
  byId("selected").textContent = selected.size ? `${number(selected.size)} selected` : "none selected";
  for (const id of ["clear", "move", "outlier"]) byId(id).disabled = !selected.size;
  byId("outlier").textContent = view === "outliers" ? "Not an outlier" : "Mark as outlier";
}

function drawClusters() {
  const sought = byId("search").value.trim().toLowerCase(), rows = [], pictures = [], typical = [];
  const focused = document.activeElement?.dataset?.view;
  for (const entry of state.clusters) {
    if (!title(entry.id).toLowerCase().includes(sought)) continue;
    const facts = entry.size ? `${images(entry.size)} · ${percent(entry.confidence)}` : "empty";
    const thumb = picture();
    if (entry.typical >= 0) pictures.push(thumb) && typical.push({ i: entry.typical });
    rows.push(row(String(entry.id), title(entry.id), facts, thumb));
  }
  const rule = create("li", { className: "rule", role: "presentation" });
  rows.push(rule, row("all", "All images", images(state.images), sign("▦")), row("outliers", "Outliers", images(state.outliers), sign("∅")));
  byId("clusters").replaceChildren(...rows);
  if (typical.length) show(pictures, typical, state.pack);
  if (focused) byId("clusters").querySelector(`[data-view="${focused}"]`)?.focus();
  for (const [id, what] of [["undo", state.undo], ["redo", state.redo]]) {
    byId(id).disabled = !what;
    byId(id).title = what ? `${id === "undo" ? "Undo" : "Redo"}: ${what}` : "";
  }
}

function row(name, label, facts, thumb) {
  const item = create("li"), button = create("button");
  button.dataset.view = name;
  button.ariaCurrent = name === view ? "true" : "false";
  button.append(thumb, span("label", label), span("facts", facts));
  button.onclick = () => (isReviewing && endReview(), open(name));
  item.append(button);
  return item;
}

const span = (className, textContent) => create("span", { className, textContent });
const sign = (text) => Object.assign(span("picture", text), { ariaHidden: "true" });
const targets = (without) => state.clusters.filter(({ id }) => id !== without).map(({ id, size }) => [id, `${title(id)} (${images(size)})`]);

async function rename() {
  const id = Number(view), answer = await ask({
    title: `Name cluster ${id}`, ok: "Save name", text: "Exports and predict use the name. Leave it empty to remove it.",
    fields: [{ name: "name", label: "Name", type: "text", value: cluster(id).name, maxLength: 100 }],
  });
  if (answer) await changeAndReload({ op: "rename", cluster: id, name: answer.name.trim() });
}

async function merge() {
  const id = Number(view), answer = await ask({
    title: `Merge ${title(id)}`, ok: "Merge", text: `Its ${images(cluster(id).size)} move to another cluster, which keeps its name.`,
    fields: [{ name: "into", label: "Merge into", type: "select", options: targets(id) }],
    check: ({ into }) => (into ? "" : "There is no other cluster."),
  });
  if (answer) await changeAndReload({ op: "merge", cluster: id, into: Number(answer.into) }, answer.into);
}

async function split() {
  const id = Number(view), answer = await ask({
    title: `Split ${title(id)}`, ok: "Split", text: "The images are grouped by k-means. The largest part keeps the cluster's number and name.",
    fields: [{ name: "parts", label: "Number of parts", type: "number", value: 2, min: 2, max: 50, required: true }],
  });
  if (!answer) return;
  await working("Splitting", () => changeAndReload({ op: "split", cluster: id, parts: Number(answer.parts) }));
}

async function move() {
  if (!grid.selected.size) return;
  const answer = await ask({
    title: `Move ${images(grid.selected.size)}`, ok: "Move",
    fields: [{ name: "to", label: "Move to", type: "select", options: [...targets(Number(view)), ["new", "a new cluster"]] }],
  });
  if (answer) await changeAndReload({ op: "move", images: [...grid.selected], to: answer.to === "new" ? "new" : Number(answer.to) });
}

async function markOutlier() {
  if (grid.selected.size) await changeAndReload({ op: "mark", images: [...grid.selected], outlier: view !== "outliers" });
}

async function write() {
  const answer = await ask({
    title: "Export", ok: "Export", text: "Goes to the folder export of the run, under a new name each time.",
    fields: [{ name: "kind", type: "choice", options: [
      ["assignments", "assignments.csv", "One row per image: name, cluster, cluster name, confidence, outlier."],
      ["labels", "Labels for training", "labels.csv (file, label), labels.npy (class numbers, −1 for outliers), classes.txt."],
      ["folders", "Folders", "A copy of each image, in a folder named after its cluster."],
    ] }],
  });
  if (!answer) return;
  await working("Exporting", async () => {
    try {
      say(`Wrote ${(await request("api/export", { kind: answer.kind })).written}`);
    } catch (error) {
      say(error.message, true);
    }
  });
}

// Shows the server's progress while something takes time.
async function working(what, task) {
  let isOver = false;
  const timer = setInterval(async () => {
    const { progress } = await request("api/progress").catch(() => ({}));
    if (progress && !isOver) say(`${what}: ${progress}, working…`);
  }, 500);
  say(`${what}: working…`);
  await task();
  isOver = true;
  clearInterval(timer);
}

function toggleReview(isOn) {
  isReviewing = byId("browse").hidden = isOn;
  byId("review").hidden = !isOn;
}

async function startReview() {
  toggleReview(true);
  say("Review: press a key to decide; the next image follows.");
  await review.begin(state);
}

function endReview() {
  toggleReview(false);
  say("Review ended.");
  open(view, offset);
  byId("start-review").focus();
}

async function step(op) {
  if (!isReviewing) return changeAndReload({ op });
  await review.then(async () => { if (await change({ op })) await review.begin(state); });
}

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.target.closest("input, select")) return;
  const key = event.key.toLowerCase(), isCommand = event.ctrlKey || event.metaKey;
  if (isCommand && key === "z") step(event.shiftKey ? "redo" : "undo");
  else if (isCommand && key === "y") step("redo");
  else if (isReviewing) return review.key(event);
  else if (isCommand || event.altKey) return;
  else if (key === "m") move();
  else if (key === "o") markOutlier();
  else if (key === "r") startReview();
  else return;
  event.preventDefault();
});

const clicks = {
  undo: () => step("undo"), redo: () => step("redo"), export: write, "start-review": startReview, rename, merge, split, move,
  outlier: markOutlier, clear: () => grid.clear(), "select-page": () => grid.selectAll(),
  first: () => turn(0), previous: () => turn(offset - PAGE), next: () => turn(offset + PAGE), last: () => turn(lastPage(total)),
};
for (const [id, action] of Object.entries(clicks)) byId(id).addEventListener("click", action);
byId("order").addEventListener("change", () => turn(0));
byId("search").addEventListener("input", drawClusters);

try {
  state = JSON.parse(byId("state").textContent);
  await open(location.hash.slice(1) || String(state.clusters[0].id));
  say("Ready.");
} catch (error) {
  say(error.message, true);
}

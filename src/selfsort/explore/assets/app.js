// The page: clusters on the left, images of one view on the right, as a grid or as a map. Every change goes to the server first.
import { likely, listPage, page, request, rows } from "./api.js";
import { ask, Viewer } from "./dialogs.js";
import { DRAGGED, Grid } from "./grid.js";
import { act, compare, learn } from "./learn.js";
import { Atlas } from "./map.js";
import { choose } from "./picker.js";
import { picture, play, prefetch, show } from "./pictures.js";
import { Review } from "./review.js";
import { suggest } from "./suggestions.js";

const PAGE = 100;
const number = (value) => value.toLocaleString("en");
const percent = (value) => `${Math.round(100 * value)} %`;
const lastPage = (count) => Math.max(0, Math.floor((count - 1) / PAGE) * PAGE);
const { kind } = document.body.dataset; // images, series, …
const images = (count) => `${number(count)} ${count === 1 && kind !== "series" ? kind.slice(0, -1) : kind}`;

let state, view, total = 0, offset = 0, isReviewing = false, isMap = false, drawing = 0, sending = Promise.resolve();
let ahead = {}; // the page that will probably be opened next
const lists = JSON.parse(byId("lists").textContent); // views that are lists of images, in an order of their own: { title, images }

const cluster = (id) => state.clusters.find((entry) => entry.id === id);
const title = (id) => cluster(id)?.name || `Cluster ${id}`;
const viewTitle = () => ({ all: "All images", outliers: "Outliers" })[view] ?? lists[view]?.title ?? title(Number(view));
const isCluster = () => /^\d+$/.test(view);
const facts = (item) => `${item.outlier ? "outlier" : title(item.cluster)}, confidence ${percent(item.confidence)}`;
const details = (item) => [facts(item), ...item.columns.filter(([, value]) => value).map(([name, value]) => `${name}: ${value}`)].join(" · ");
const describe = (item) => `${item.name}, ${facts(item)}`;

const grid = new Grid(byId("grid"), {
  describe,
  caption: (item) => [isCluster() ? item.name.split("/").pop() : title(item.cluster), percent(item.confidence)],
  onSelect: drawSelection,
  onSelectAll: selectAll,
  onOpen: (item) => item && viewer.open(item),
  onTurn: (step) => turn(offset + step * PAGE, true),
});
const atlas = new Atlas({
  selected: grid.selected,
  onSelect: () => grid.mark(),
  onOpen: async (index) => viewer.open(await itemOf(index)),
  describe: async (index) => describe(await itemOf(index)),
});
const viewer = new Viewer({
  facts: details,
  examples: (item) => ({ label: `Typical of ${title(item.cluster)}`, rows: item.outlier ? [] : cluster(item.cluster)?.examples ?? [], pack: state.pack }),
  step: (item, direction) => grid.items[grid.items.findIndex(({ i }) => i === item.i) + direction],
  onSimilar: (item) => findSimilar(item),
});
const review = new Review({ change, title, percent, onEnd: endReview, onLesson: lesson });

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
  await open(next, offset, isDone && "images" in edit && !isMap);
}

async function open(next, at = 0, keepFocus = false) {
  const isKnown = next === "all" || next === "outliers" || next in lists || cluster(Number(next));
  if (String(next) !== view && !(next in lists)) grid.selected.clear();
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
    if (isMap) await atlas.open(state.version);
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
  byId("order").parentElement.hidden = view in lists || isMap;
  drawSelection(grid.selected);
  if (isMap) atlas.isolate(isCluster() ? Number(view) : null);
  await grid.draw(found, { focus });
  if (mine === drawing && offset + step >= 0 && offset + step < total) fetchPage(offset + step).then((next) => prefetch(next, grid.isFine), () => {});
}

function fetchPage(at) {
  const order = byId("order").value, key = `${state.version} ${view} ${order} ${at} ${lists[view]?.title}`;
  if (ahead.key !== key) ahead = { key, found: view in lists ? listPage(lists[view].images, at, PAGE) : page(view, order, at, PAGE) };
  ahead.found.catch(() => { ahead = {}; });
  return ahead.found;
}

async function itemOf(index) {
  return grid.items.find(({ i }) => i === index) ?? (await request("api/items", { images: [index] })).items[0];
}

function drawSelection(selected) {
  byId("selected").textContent = selected.size ? `${number(selected.size)} selected` : "none selected";
  for (const id of ["clear", "move", "outlier", "show-selected"]) byId(id).disabled = !selected.size;
  byId("similar").disabled = selected.size !== 1;
  byId("select-all").textContent = `Select all ${number(total)}`;
  byId("outlier").textContent = view === "outliers" ? "Not an outlier" : "Mark as outlier";
  atlas.mark();
}

async function selectAll() {
  try {
    grid.select(lists[view]?.images ?? await rows(view));
  } catch (error) {
    say(error.message, true);
  }
}

function drawClusters() {
  const sought = byId("search").value.trim().toLowerCase(), entries = [], pictures = [], typical = [];
  const focused = document.activeElement?.dataset?.view;
  for (const entry of state.clusters) {
    if (!title(entry.id).toLowerCase().includes(sought)) continue;
    const words = entry.size ? `${images(entry.size)} · ${percent(entry.confidence)}` : "empty";
    const thumb = picture();
    if (entry.examples.length) pictures.push(thumb) && typical.push({ i: entry.examples[0] });
    entries.push(row(String(entry.id), title(entry.id), words, thumb));
  }
  const rule = create("li", { className: "rule", role: "presentation" });
  entries.push(rule, row("all", "All images", images(state.images), sign("▦")), row("outliers", "Outliers", images(state.outliers), sign("∅")));
  for (const [name, list] of Object.entries(lists)) entries.push(row(name, list.title, images(list.images.length), sign("≈")));
  entries.push(row("new", "New cluster", "drop or move images here", sign("+")));
  byId("clusters").replaceChildren(...entries);
  if (typical.length) show(pictures, typical, state.pack);
  if (focused) byId("clusters").querySelector(`[data-view="${focused}"]`)?.focus();
  for (const [id, what] of [["undo", state.undo], ["redo", state.redo]]) {
    byId(id).disabled = !what;
    byId(id).title = what ? `${id === "undo" ? "Undo" : "Redo"}: ${what}` : "";
  }
}

function row(name, label, words, thumb) {
  const item = create("li"), button = create("button", { title: label });
  button.dataset.view = name;
  button.ariaCurrent = name === view ? "true" : "false";
  button.append(thumb, span("label", label), span("facts", words));
  button.onclick = () => (isReviewing && endReview(), name === "new" ? moveToNew() : open(name));
  item.append(button);
  return item;
}

const span = (className, textContent) => create("span", { className, textContent });
const sign = (text) => Object.assign(span("picture", text), { ariaHidden: "true" });

async function rename() {
  const id = Number(view), answer = await ask({
    title: `Name cluster ${id}`, ok: "Save name", text: "Exports and predict use the name. Leave it empty to remove it.",
    fields: [{ name: "name", label: "Name", type: "text", value: cluster(id).name, maxLength: 100 }],
  });
  if (answer) await changeAndReload({ op: "rename", cluster: id, name: answer.name.trim() });
}

// What a dialog offers: the clusters, the likeliest for { images } or { cluster } first.
const targets = (about, without) => ({ clusters: state.clusters.filter(({ id }) => id !== without), ranked: likely(about), title, pack: state.pack });

async function merge() {
  const id = Number(view), answer = await choose({
    heading: `Merge ${title(id)} into`, text: `Its ${images(cluster(id).size)} move to another cluster, which keeps its name.`,
    isNewAllowed: false, ...targets({ cluster: id }, id),
  });
  if (answer) await changeAndReload({ op: "merge", cluster: id, into: answer.to }, String(answer.to));
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
  const chosen = [...grid.selected], answer = await choose({
    heading: `Move ${images(chosen.length)} to`, ...targets({ images: chosen }, isCluster() ? Number(view) : null),
  });
  if (answer) await moveTo(answer.to ?? "new", answer.name ?? "");
}

function moveTo(to, name = "") {
  const edit = { op: "move", images: [...grid.selected], to };
  return changeAndReload(name ? { ...edit, name } : edit);
}

async function moveToNew() {
  if (!grid.selected.size) return say("Select images first, or drop some here.");
  const answer = await ask({
    title: `Move ${images(grid.selected.size)} to a new cluster`, ok: "Move", text: "Leave the name empty to number it.",
    fields: [{ name: "name", label: "Name", type: "text", maxLength: 100 }],
  });
  if (answer) await moveTo("new", answer.name.trim());
}

async function markOutlier(outlier = view !== "outliers") {
  if (grid.selected.size) await changeAndReload({ op: "mark", images: [...grid.selected], outlier });
}

// Images dropped on an entry of the list move there.
function drop(event) {
  const target = event.target.closest?.("[data-view]"), name = target?.dataset.view;
  const isPlace = event.dataTransfer?.types.includes(DRAGGED) && name !== undefined && name !== "all" && !(name in lists);
  for (const other of byId("clusters").querySelectorAll(".drop")) other.classList.toggle("drop", other === target && event.type === "dragover");
  if (!isPlace) return;
  event.preventDefault();
  if (event.type === "dragover") target.classList.add("drop");
  else if (event.type === "drop") {
    if (name === "outliers") markOutlier(true);
    else if (name === "new") moveToNew();
    else moveTo(Number(name));
  }
}

async function findSimilar(item) {
  if (!item) return;
  await working("Looking for similar images", async () => {
    const { images: found } = await request(`api/similar/${item.i}`);
    lists.similar = { title: `Similar to ${item.name.split("/").pop()}`, images: found };
    await showGrid("similar");
    say("The most similar images of the whole set, the nearest first.");
  });
}

async function searchImages(text) {
  if (!text.trim()) return;
  await working("Searching", async () => {
    const { images: found } = await request(`api/search?${new URLSearchParams({ text })}`);
    lists.found = { title: `Found: ${text.trim()}`, images: found };
    byId("search").value = "";
    await showGrid("found");
    say(`${images(found.length)} with “${text.trim()}” in the name or metadata.`);
  });
}

function showSelected() {
  lists.selected = { title: "Selected images", images: [...grid.selected] };
  return showGrid("selected");
}

async function showSuggestions() {
  await working("Comparing the clusters", async () => {
    const edit = await suggest(state, title);
    say("Ready.");
    if (edit) await changeAndReload(edit, String(edit.into ?? edit.cluster));
  });
}

const told = (text) => say(`Learning: ${text}`);

async function decide(action) {
  const answer = await act(action);
  state = answer.state;
  ahead = {};
  drawClusters();
  await drawVersion();
  return answer.done;
}

async function drawVersion() {
  const { before } = await request("api/learning");
  byId("rollback").hidden = !before;
}

async function learnChanges() {
  byId("learn").disabled = true;
  try {
    const found = await learn(told);
    if (!found) return say("Stopped; nothing has changed.");
    say("Learned. Look at what would move.");
    const answer = await compare(found, { state, title });
    const done = answer ? await decide(answer) : "what was learned waits; Learn shows it again after your next change";
    await open(view, offset);
    say(`${done}.`);
  } catch (error) {
    say(error.message, true);
  } finally {
    byId("learn").disabled = false;
  }
}

// While it asks: learns, accepts, and answers the new state; null if that failed.
async function lesson() {
  try {
    if (!await learn(told)) return say("Stopped; your answers are kept."), null;
    say(`It has learned: ${await decide("accept")}.`);
    return state;
  } catch (error) {
    return say(error.message, true), null;
  }
}

async function rollBack() {
  const answer = await ask({ title: "Go back a version", ok: "Go back", text: "The clusters, names and edits of the version before come back. This version is kept in the run's folder.", fields: [] });
  if (!answer) return;
  await working("Going back", async () => { const done = await decide("rollback"); await open(view, 0); say(`${done}.`); });
}

async function startAsking() {
  toggleReview(true);
  await working("Looking for questions", async () => {
    await review.begin(state, true);
    say("Press the key of the right cluster, or Enter if it is right already.");
  });
}

async function write() {
  const { forms, place } = JSON.parse(byId("exports").textContent), where = place || "the folder export of the run (explore --export-to names another one)";
  const answer = await ask({
    title: "Export", ok: "Export", text: `Goes to ${where}, under a new name each time. The images and the results of fit stay as they are.`,
    fields: [{ name: "kind", type: "choice", options: forms }],
  });
  if (!answer) return;
  await working("Exporting", async () => say(`Wrote ${(await request("api/export", { kind: answer.kind })).written}`));
}

// Shows the server's progress while something takes time.
async function working(what, task) {
  let isOver = false;
  const timer = setInterval(async () => {
    const { progress } = await request("api/progress").catch(() => ({}));
    if (progress && !isOver) say(`${what}: ${progress}, working…`);
  }, 500);
  say(`${what}: working…`);
  try {
    await task();
  } catch (error) {
    say(error.message, true);
  }
  isOver = true;
  clearInterval(timer);
}

async function toggleMap(isOn = !isMap) {
  isMap = isOn;
  byId("map-frame").hidden = !isMap;
  for (const id of ["grid", "grid-help", "pager", "thumb-size", "select-page"]) byId(id).hidden = isMap;
  byId("show-map").setAttribute("aria-pressed", isMap);
  if (!isMap) return open(view, offset);
  await working("Drawing the map", () => open("all"));
  say("Every image of the run is a dot. Draw a line around some to select them.");
}

async function showGrid(next) {
  if (isMap) await toggleMap(false);
  await open(next);
}

function toggleReview(isOn) {
  isReviewing = byId("browse").hidden = isOn;
  byId("review").hidden = !isOn;
}

async function startReview() {
  toggleReview(true);
  say("Review: press a key to decide; the next image follows.");
  await review.begin(state, false);
}

function endReview() {
  toggleReview(false);
  play(byId("review-clip"), null);
  say("Review ended.");
  open(view, offset);
  byId("start-review").focus();
}

async function step(op) {
  if (!isReviewing) return changeAndReload({ op });
  await review.then(async () => { if (await change({ op })) await review.begin(state); });
}

const focusedItem = () => grid.items.find(({ i }) => grid.selected.has(i) && grid.selected.size === 1) ?? (isMap ? itemOf([...grid.selected][0]) : grid.items[grid.at]);

document.addEventListener("keydown", async (event) => {
  if (document.querySelector("dialog[open]") || event.target.closest("input, select")) return;
  const key = event.key.toLowerCase(), isCommand = event.ctrlKey || event.metaKey;
  if (isCommand && key === "z") step(event.shiftKey ? "redo" : "undo");
  else if (isCommand && key === "y") step("redo");
  else if (isReviewing) return review.key(event);
  else if (isCommand && key === "a") { if (event.target.closest("#grid")) return; selectAll(); }
  else if (isCommand || event.altKey) return;
  else if (key === "m") move();
  else if (key === "o") markOutlier();
  else if (key === "r") startReview();
  else if (key === "a") startAsking();
  else if (key === "g") toggleMap();
  else if (key === "n" && grid.items.length) { event.preventDefault(); return findSimilar(await focusedItem()); }
  else return;
  event.preventDefault();
});

const clicks = {
  undo: () => step("undo"), redo: () => step("redo"), export: write, "start-review": startReview, "ask-me": startAsking, learn: learnChanges, rollback: rollBack, rename, merge, split, move,
  "show-map": () => toggleMap(), suggest: showSuggestions, "show-selected": showSelected, similar: async () => findSimilar(await itemOf([...grid.selected][0])),
  outlier: () => markOutlier(), clear: () => grid.clear(), "select-page": () => grid.select(grid.items.map(({ i }) => i)), "select-all": selectAll,
  first: () => turn(0), previous: () => turn(offset - PAGE), next: () => turn(offset + PAGE), last: () => turn(lastPage(total)),
};
for (const [id, action] of Object.entries(clicks)) byId(id).addEventListener("click", action);
for (const kind of ["dragover", "dragleave", "drop"]) byId("clusters").addEventListener(kind, drop);
byId("order").addEventListener("change", () => turn(0));
byId("search").addEventListener("input", drawClusters);
byId("search").addEventListener("keydown", (event) => { if (event.key === "Enter") searchImages(byId("search").value); });
byId("size").addEventListener("input", () => grid.resize(Number(byId("size").value)));

try {
  state = JSON.parse(byId("state").textContent);
  await open(location.hash.slice(1) || String(state.clusters[0].id));
  await drawVersion();
  say("Ready.");
} catch (error) {
  say(error.message, true);
}

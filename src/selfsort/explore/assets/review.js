// Images one by one: a key decides, and the next one follows. A review has the least confident ones; asking has those that
// would teach most, and every so many answers it learns.
import { likely, page, request } from "./api.js";
import { Picker } from "./picker.js";
import { play, playOrPause, strip } from "./pictures.js";

const LETTERS = [..."abcdefghijklmnqstuvwxyz"]; // o marks an outlier, p plays a sound, r is for review
const BATCH = 50;
const LESSON = 10; // answers after which it learns
const COMPARED = 3; // clusters of which larger examples are shown

export class Review {
  constructor({ change, title, percent, onEnd, onLesson }) {
    Object.assign(this, { change, title, percent, onEnd, onLesson });
    this.chain = Promise.resolve(); // decisions are carried out in the order of the keys
    this.search = byId("review-search");
    this.picker = new Picker(this.search, byId("review-clusters"), ({ to, name }) => {
      this.search.value = "";
      byId("review").focus();
      this.then(() => this.decide(name === undefined ? { op: "move", to } : { op: "move", to: "new", name }));
    });
    byId("review-accept").onclick = () => this.then(() => this.accept());
    byId("review-outlier").onclick = () => this.then(() => this.decide({ op: "mark", outlier: true }));
    byId("review-back").onclick = () => this.then(() => this.go(-1));
    byId("review-skip").onclick = () => this.then(() => this.skip());
    byId("end-review").onclick = () => this.onEnd();
    this.search.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.search.value = "";
      this.picker.draw();
      byId("review").focus();
    });
  }

  then(step) { return (this.chain = this.chain.then(step)); }

  async begin(state, isAsking = this.isAsking) {
    this.isAsking = isAsking;
    this.answers = 0;
    byId("review-title").textContent = isAsking ? "Ask me" : "Review";
    this.queue = [];
    this.at = 0;
    this.skipped = new Set();
    this.setState(state);
    await this.fill();
    this.draw();
    byId("review").focus();
  }

  setState(state) {
    this.state = state;
    const left = LETTERS[Symbol.iterator]();
    this.keys = new Map(state.clusters.map(({ id }) => [id < 10 ? String(id) : left.next().value, id]));
  }

  async fill() {
    if (this.at < this.queue.length) return;
    const seen = new Set(this.queue.map((item) => item.i));
    if (this.isAsking) {
      const { items } = await request(`api/questions?count=${LESSON + this.skipped.size}`);
      this.queue.push(...items.filter((item) => !seen.has(item.i)));
      return;
    }
    const { items } = await page("review", "ascending", this.skipped.size, BATCH);
    this.queue.push(...items.filter((item) => !seen.has(item.i)));
  }

  get item() { return this.queue[this.at]; }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    if (key === "enter" && event.target.closest("button")) return; // presses that button
    if (key === "enter") this.then(() => this.accept());
    else if (key === "arrowleft") this.then(() => this.go(-1));
    else if (key === "arrowright") this.then(() => this.skip());
    else if (key === "o") this.then(() => this.decide({ op: "mark", outlier: true }));
    else if (key === "p" && byId("review-clip")) playOrPause(byId("review-clip"));
    else if (key === "escape") this.onEnd();
    else if (key === "/") this.search.focus();
    else if (this.keys.has(key)) this.then(() => this.decide({ op: "move", to: this.keys.get(key) }));
    else return;
    event.preventDefault();
  }

  accept() { return this.decide(this.item?.outlier ? { op: "mark", outlier: false } : { op: "accept" }); }

  async decide(edit) {
    if (!this.item) return;
    const item = this.item, known = this.state.free, state = await this.change({ ...edit, images: [item.i] });
    if (!state) return;
    this.setState(state);
    this.skipped.delete(item.i);
    Object.assign(item, { outlier: edit.outlier ?? false, cluster: edit.to === "new" ? known : edit.to ?? item.cluster });
    this.answers += 1;
    if (this.isAsking && this.answers % LESSON === 0) {
      const learned = await this.onLesson();
      if (learned) return this.begin(learned);
    }
    await this.go(1);
  }

  async skip() {
    if (!this.item) return;
    this.skipped.add(this.item.i);
    await this.go(1);
  }

  async go(step) {
    this.at = Math.max(0, Math.min(this.at + step, this.queue.length));
    await this.fill();
    this.draw();
  }

  draw() {
    const { item, state } = this, image = byId("review-image"), done = state.images - state.outliers - state.unreviewed;
    const next = LESSON - (this.answers % LESSON);
    byId("review-left").textContent = this.isAsking
      ? `Which cluster is this? It learns after ${next} more answer${next === 1 ? "" : "s"}`
      : `${state.unreviewed.toLocaleString("en")} images to review, least confident first`;
    Object.assign(byId("review-progress"), { max: Math.max(done + state.unreviewed, 1), value: done });
    for (const id of ["review-accept", "review-outlier", "review-skip"]) byId(id).disabled = !item;
    byId("review-back").disabled = this.at === 0;
    image.hidden = !item;
    image.onload = () => image.classList.toggle("pixels", image.naturalWidth <= 64);
    if (item) image.src = `api/image/${item.i}`;
    play(byId("review-clip"), item);
    if (this.queue[this.at + 1]) new Image().src = `api/image/${this.queue[this.at + 1].i}`; // so that it is there in time
    image.alt = item?.name ?? "";
    byId("review-name").textContent = item?.name ?? "All images have been reviewed.";
    byId("review-facts").textContent = item ? `${item.outlier ? "outlier" : this.title(item.cluster)}, confidence ${this.percent(item.confidence)}` : "";
    this.drawClusters([]);
    if (item) likely({ images: [item.i] }).then((found) => this.item === item && this.drawClusters(found));
  }

  drawClusters(found) {
    const { item, state } = this, keys = new Map([...this.keys].map(([key, id]) => [id, key]));
    const current = item && !item.outlier ? item.cluster : null;
    const shares = new Map(found.map(({ id, share }) => [id, share]));
    this.picker.show({ ...state, title: this.title, shares, keys, current, pictures: 1, isEnabled: Boolean(item) });
    if (item && !found.length) return; // those of the image before stay until it is known
    const others = found.filter(({ id, share }) => id !== current && share > 0).map(({ id }) => id);
    const compared = [...(current === null ? [] : [current]), ...others].slice(0, COMPARED);
    byId("review-compare").replaceChildren(...compared.map((id) => {
      const own = state.clusters.find((cluster) => cluster.id === id), key = keys.get(id);
      const label = `${id === current ? "It is in" : "or perhaps"} ${this.title(id)}${key ? ` (${key})` : ""}`;
      return strip(label, own?.examples ?? [], state.pack);
    }));
  }
}

// A list of clusters with pictures to choose from: type a name or number, press Enter or click.
import { picture, show } from "./pictures.js";

const MARKED = 0.15; // a share of the nearest neighbours from which a cluster is called likely

export class Picker {
  // `onPick` gets { to: number } or { name } for a new cluster.
  constructor(input, list, onPick) {
    Object.assign(this, { input, list, onPick });
    input.addEventListener("input", () => this.draw());
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.list.querySelector("button:not(:disabled)")?.click();
    });
  }

  // `shares`: how likely each cluster is, by its id; `keys`: the key of each; `pictures`: how many of each to show.
  show({ clusters, pack, title, shares = new Map(), keys = new Map(), current = null, pictures = 3, isNewAllowed = true, isEnabled = true }) {
    Object.assign(this, { clusters, pack, title, shares, keys, current, pictures, isNewAllowed, isEnabled });
    this.draw();
  }

  draw() {
    const sought = this.input.value.trim(), lower = sought.toLowerCase(), thumbs = [], shown = [];
    const exact = (cluster) => this.title(cluster.id).toLowerCase() === lower || String(cluster.id) === lower;
    const found = this.clusters.filter((cluster) => exact(cluster) || this.title(cluster.id).toLowerCase().includes(lower));
    found.sort((a, b) => exact(b) - exact(a));
    const buttons = found.map((cluster) => {
      const pictures = cluster.examples.slice(0, this.pictures).map((i) => (shown.push({ i }), thumbs.push(picture()), thumbs.at(-1)));
      return this.button(this.title(cluster.id), { to: cluster.id }, pictures, this.facts(cluster), this.keys.get(cluster.id), cluster.id === this.current);
    });
    if (this.isNewAllowed && !this.clusters.some(exact)) {
      buttons.push(this.button(sought ? `New cluster “${sought}”` : "New cluster", { name: sought }, [], sought ? "" : "type its name above, or leave it empty"));
    }
    if (!buttons.length) buttons.push(create("p", { className: "facts", textContent: "No cluster is called so." }));
    this.list.replaceChildren(...buttons);
    if (shown.length) show(thumbs, shown, this.pack);
  }

  facts({ id, size }) {
    const share = this.shares.get(id) ?? 0, count = `${size.toLocaleString("en")} image${size === 1 ? "" : "s"}`;
    return share >= MARKED ? `likely (${Math.round(100 * share)} %) · ${count}` : count;
  }

  button(label, choice, pictures, facts, key, isCurrent = false) {
    const button = create("button", { type: "button", title: label, disabled: !this.isEnabled });
    const row = create("span", { className: "examples" });
    row.append(...pictures);
    button.append(row, create("span", { className: "label", textContent: label }));
    if (key) button.append(create("kbd", { textContent: key }));
    button.append(create("span", { className: "facts", textContent: facts }));
    button.ariaCurrent = isCurrent ? "true" : "false";
    button.onclick = () => this.onPick(choice);
    return button;
  }
}

// Asks for a cluster in a dialog. Returns { to } or { name }, or null. `ranked` promises [{ id, share }], the likeliest first.
export function choose({ heading, text = "", ranked, ...options }) {
  const dialog = byId("chooser"), input = byId("chooser-input");
  byId("chooser-title").textContent = heading;
  byId("chooser-text").textContent = text;
  input.value = "";
  input.placeholder = options.isNewAllowed === false ? "Name or number" : "Name or number, or the name of a new cluster";
  return new Promise((resolve) => {
    let answer = null;
    chooser ??= new Picker(input, byId("chooser-list"), (choice) => chooser.done(choice));
    const done = chooser.done = (choice) => { answer = choice; dialog.close(); };
    dialog.onclose = () => resolve(answer);
    chooser.show(options); // at once, so that what is typed arrives here
    ranked.then((found) => {
      const shares = new Map(found.map(({ id, share }) => [id, share])), share = ({ id }) => shares.get(id) ?? 0;
      if (dialog.open && chooser.done === done) chooser.show({ ...options, shares, clusters: options.clusters.toSorted((a, b) => share(b) - share(a)) });
    });
    byId("chooser-cancel").onclick = () => dialog.close();
    dialog.showModal();
    byId("chooser-list").scrollTop = 0;
    input.focus();
  });
}
let chooser = null;

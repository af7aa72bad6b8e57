// One dialog for every question, and one that shows an image large.
import { play, playOrPause, strip } from "./pictures.js";

// Asks for the values of some fields. Returns them by name, or null. `check` returns what is wrong with them, if anything.
export function ask({ title, text = "", ok, fields, check = () => "" }) {
  const dialog = byId("dialog"), form = dialog.querySelector("form"), place = byId("dialog-fields");
  byId("dialog-title").textContent = title;
  byId("dialog-text").textContent = text;
  byId("dialog-ok").textContent = ok;
  byId("dialog-error").textContent = "";
  place.replaceChildren(...fields.flatMap(field));
  return new Promise((resolve) => {
    let answer = null;
    form.onsubmit = (event) => {
      const values = Object.fromEntries(new FormData(form));
      byId("dialog-error").textContent = check(values);
      if (byId("dialog-error").textContent) event.preventDefault();
      else answer = values;
    };
    byId("dialog-cancel").onclick = () => dialog.close();
    dialog.onclose = () => resolve(answer);
    dialog.showModal();
    place.querySelector("input")?.focus();
    place.querySelector("input")?.select?.();
  });
}

function field({ name, label, type, options = [], ...rest }) {
  if (type === "choice") {
    return options.map(([value, title, explanation], number) => {
      const input = create("input", { type: "radio", name, value, checked: number === 0 });
      const box = create("label");
      box.className = "choice";
      box.append(input, title, create("small", { textContent: explanation }));
      return box;
    });
  }
  const input = create("input", { name, type, autocomplete: "off", ...rest });
  const box = create("label");
  box.append(label, input);
  return [box];
}

// Shows an image whole and large, with examples of its cluster. `step` answers the one before (-1) or after (1) it.
export class Viewer {
  constructor({ facts, examples, step, onSimilar }) {
    Object.assign(this, { facts, examples, step, onSimilar });
    this.dialog = byId("viewer");
    this.image = byId("viewer-image");
    this.clip = byId("viewer-clip");
    this.dialog.addEventListener("close", () => play(this.clip, null));
    this.image.onload = () => this.image.classList.toggle("pixels", this.image.naturalWidth <= 64);
    byId("viewer-previous").onclick = () => this.go(-1);
    byId("viewer-next").onclick = () => this.go(1);
    byId("viewer-similar").onclick = () => { this.dialog.close(); this.onSimilar(this.item); };
    this.dialog.addEventListener("keydown", (event) => {
      const action = { ArrowLeft: () => this.go(-1), ArrowRight: () => this.go(1), n: () => byId("viewer-similar").click(), p: () => playOrPause(this.clip) }[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    });
  }

  open(item) {
    this.draw(item);
    this.dialog.showModal();
  }

  go(direction) {
    const item = this.step(this.item, direction);
    if (item) this.draw(item);
  }

  draw(item) {
    this.item = item;
    this.image.src = `api/image/${item.i}`;
    this.image.alt = item.name;
    play(this.clip, item);
    byId("viewer-name").textContent = item.name;
    byId("viewer-facts").textContent = this.facts(item);
    const { label, rows, pack } = this.examples(item);
    byId("viewer-examples").replaceChildren(...(rows.length ? [strip(label, rows, pack)] : []));
    byId("viewer-previous").disabled = !this.step(item, -1);
    byId("viewer-next").disabled = !this.step(item, 1);
  }
}

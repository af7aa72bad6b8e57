// One page of images as a listbox: drawing, focus, selection with mouse and keyboard, dragging.
import { picture, show } from "./pictures.js";

const FINE = 140; // pixels of the screen from which a thumbnail needs a finer picture
export const DRAGGED = "application/x-selfsort";

export class Grid {
  constructor(element, { describe, caption, onSelect, onSelectAll, onOpen, onTurn }) {
    Object.assign(this, { element, describe, caption, onSelect, onSelectAll, onOpen, onTurn });
    this.items = [];
    this.selected = new Set(); // image numbers, including those on other pages
    this.at = this.anchor = 0;
    this.side = 96;
    element.addEventListener("click", (event) => this.click(event));
    element.addEventListener("dblclick", (event) => this.onOpen(this.items[this.position(event.target)]));
    element.addEventListener("keydown", (event) => this.key(event));
    element.addEventListener("dragstart", (event) => this.drag(event));
  }

  async draw(found, { focus }) {
    const { items } = found;
    this.items = items;
    this.found = found;
    this.at = this.anchor = Math.min(focus ?? 0, Math.max(items.length - 1, 0));
    this.element.replaceChildren(...items.map((item, position) => this.cell(item, position)));
    if (!items.length) this.element.append(create("p", { className: "empty", textContent: "No images here." }));
    const shown = this.drawPictures();
    if (focus === null) this.element.scrollTop = 0;
    else this.focus(this.at);
    await shown;
    if (this.items === items) this.setBusy(false);
  }

  get isFine() { return this.side * (window.devicePixelRatio || 1) > FINE; }

  drawPictures() { return show(this.cells.map((cell) => cell.firstChild), this.items, this.found.pack, this.isFine); }

  resize(side) {
    const wasFine = this.isFine;
    this.side = side;
    this.element.style.setProperty("--thumb", `${side}px`);
    if (this.isFine !== wasFine && this.items.length) this.drawPictures();
  }

  setBusy(isBusy) { this.element.ariaBusy = String(isBusy); }

  get cells() { return [...this.element.querySelectorAll("[role=option]")]; }

  cell(item, position) {
    const cell = create("div"), caption = create("div");
    cell.setAttribute("role", "option");
    cell.setAttribute("aria-label", this.describe(item));
    cell.setAttribute("aria-selected", this.selected.has(item.i));
    cell.tabIndex = position === this.at ? 0 : -1;
    cell.title = item.name;
    cell.draggable = true;
    caption.className = "caption";
    caption.append(...this.caption(item).map((text) => create("span", { textContent: text })));
    cell.append(picture(item.name), caption);
    return cell;
  }

  position(target) { return this.cells.indexOf(target.closest("[role=option]")); }

  click(event) {
    const position = this.position(event.target);
    if (position < 0) return;
    if (event.shiftKey) this.extend(position);
    else if (event.ctrlKey || event.metaKey) this.toggle(position);
    else {
      const index = this.items[position].i, isOnly = this.selected.size === 1 && this.selected.has(index);
      this.selected.clear();
      if (!isOnly) this.selected.add(index);
      this.anchor = position;
    }
    this.focus(position);
    this.mark();
  }

  drag(event) { // the selection, or the one image if it is not among it
    const position = this.position(event.target);
    if (position < 0) return;
    if (!this.selected.has(this.items[position].i)) {
      this.selected.clear();
      this.toggle(position);
    }
    event.dataTransfer.setData(DRAGGED, String(this.selected.size));
    event.dataTransfer.effectAllowed = "move";
    const badge = byId("drag-badge");
    badge.textContent = this.selected.size.toLocaleString("en");
    event.dataTransfer.setDragImage(badge, 10, 10);
  }

  key(event) {
    if (event.altKey || !this.items.length) return;
    const cells = this.cells, columns = cells.filter((cell) => cell.offsetTop === cells[0].offsetTop).length;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -this.at, End: cells.length - 1 - this.at };
    if (event.key in steps) {
      const position = this.at + steps[event.key];
      if (position >= 0 && position < cells.length) {
        if (event.shiftKey) this.extend(position);
        this.focus(position);
      }
    } else if (event.key === " ") this.toggle(this.at);
    else if (event.key === "Enter") this.onOpen(this.items[this.at]);
    else if (event.key === "PageDown") this.onTurn(1);
    else if (event.key === "PageUp") this.onTurn(-1);
    else if (event.key === "Escape") this.clear();
    else if (event.key.toLowerCase() === "a" && (event.ctrlKey || event.metaKey)) this.onSelectAll();
    else return;
    event.preventDefault();
  }

  focus(position) {
    const cells = this.cells;
    if (!cells.length) return;
    cells[this.at].tabIndex = -1;
    this.at = position;
    cells[position].tabIndex = 0;
    cells[position].focus();
  }

  toggle(position) {
    const index = this.items[position].i;
    if (!this.selected.delete(index)) this.selected.add(index);
    this.anchor = position;
    this.mark();
  }

  extend(position) {
    const [from, to] = [Math.min(this.anchor, position), Math.max(this.anchor, position)];
    for (const item of this.items.slice(from, to + 1)) this.selected.add(item.i);
    this.mark();
  }

  select(indices) {
    for (const index of indices) this.selected.add(index);
    this.mark();
  }

  clear() { this.selected.clear(), this.mark(); }

  mark() {
    for (const [position, cell] of this.cells.entries()) cell.setAttribute("aria-selected", this.selected.has(this.items[position].i));
    this.onSelect(this.selected);
  }
}

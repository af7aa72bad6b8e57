// The map: pan, zoom, and a lasso that selects. It shows every image of the run, in the colours of the clusters.
import { request } from "./api.js";
import { picture, show } from "./pictures.js";

const NEW = { points: new Uint16Array(0), labels: new Uint32Array(0), centres: [] };

export class Atlas {
  // `onSelect` gets the selection when a lasso or a click has changed it; `describe` asks for an image's words.
  constructor({ selected, onSelect, onOpen, describe }) {
    Object.assign(this, { selected, onSelect, onOpen, describe });
    this.tip = byId("map-tip");
    this.lasso = byId("lasso");
    this.lasso.onclick = () => this.lasso.setAttribute("aria-pressed", !this.isLasso);
    byId("map-tools").addEventListener("click", (event) => {
      const kind = event.target.closest("[data-zoom]")?.dataset.zoom;
      if (kind) PointMap.BUTTONS[kind](this.map);
    });
  }

  get isLasso() { return this.lasso.ariaPressed === "true"; }

  async open(version) {
    this.map ??= this.build();
    if (!this.map.count) {
      const { points, pack } = await request("api/map");
      this.pack = pack;
      this.map.points = new Uint16Array(decodeBytes(points));
      this.map.labels = new Uint32Array(this.map.points.length / 2);
    }
    if (this.version !== version) {
      const { labels, outliers } = await request("api/labels");
      this.map.labels = new Uint32Array(decodeBytes(labels));
      this.map.hidden = new Uint8Array(decodeBytes(outliers));
      this.map.centres = this.middles();
      this.version = version;
    }
    this.mark();
    this.map.resize();
  }

  build() {
    const canvas = byId("map"), map = new PointMap(canvas, {
      ...NEW, onPoint: (index) => this.point(index), onClick: (index, event) => this.click(index, event),
      begin: (x, y, event) => (this.isLasso || event.shiftKey ? this.draw(x, y, event) : null),
    });
    canvas.addEventListener("dblclick", () => map.current >= 0 && this.onOpen(map.current));
    canvas.addEventListener("keydown", (event) => {
      const action = { n: () => map.step(1), p: () => map.step(-1), " ": () => this.click(map.current, { ctrlKey: true }), Enter: () => map.current >= 0 && this.onOpen(map.current) }[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      action();
    });
    return map;
  }

  // The median of each cluster's places: [label, x, y] in 0…1.
  middles() {
    const { points, labels, hidden } = this.map, places = new Map();
    for (let index = 0; index < labels.length; index++) {
      if (hidden[index]) continue;
      if (!places.has(labels[index])) places.set(labels[index], [[], []]);
      const [across, down] = places.get(labels[index]);
      across.push(points[2 * index]);
      down.push(points[2 * index + 1]);
    }
    const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] / 65535;
    return [...places].map(([label, [across, down]]) => [label, median(across), median(down)]);
  }

  isolate(label) { this.map.isolate(label); }

  // Rings around what is selected.
  mark() {
    if (!this.map) return;
    this.map.marked = new Uint8Array(this.map.count);
    for (const index of this.selected) this.map.marked[index] = 1;
    this.map.redraw();
  }

  point(index) {
    this.tip.hidden = index < 0;
    if (index < 0) return;
    const thumb = picture(), text = create("p");
    this.tip.replaceChildren(thumb, text);
    show([thumb], [{ i: index }], this.pack);
    this.describe(index).then((words) => { text.textContent = words; if (this.map.current === index) this.map.place(this.tip); });
    this.map.place(this.tip);
  }

  click(index, event) {
    if (index < 0) return;
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) this.selected.clear();
    if (!this.selected.delete(index)) this.selected.add(index);
    this.onSelect(this.selected);
  }

  // A drag that draws a line around images.
  draw(x, y, event) {
    const line = [[x, y]], { map } = this;
    map.point(-1);
    map.drawMore = (pen) => {
      const path = new Path2D();
      line.forEach(([x, y], place) => (place ? path.lineTo(x, y) : path.moveTo(x, y)));
      path.closePath();
      Object.assign(pen, { lineWidth: 1.5, strokeStyle: map.ink, fillStyle: "rgb(128 128 128 / .2)" });
      pen.fill(path);
      pen.stroke(path);
    };
    return {
      move: (x, y) => line.push([x, y]),
      end: (isCancelled) => {
        map.drawMore = null;
        if (isCancelled) return;
        if (!event.ctrlKey && !event.metaKey) this.selected.clear();
        for (let index = 0; index < map.count; index++) {
          if (map.isShown(index) && isInside(line, map.across(index), map.down(index))) this.selected.add(index);
        }
        this.onSelect(this.selected);
      },
    };
  }
}

// Whether a point lies in a polygon: a line from it to the right crosses the polygon an odd number of times.
function isInside(line, x, y) {
  let isOdd = false;
  for (let here = 0, before = line.length - 1; here < line.length; before = here++) {
    const [ax, ay] = line[here], [bx, by] = line[before];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) isOdd = !isOdd;
  }
  return isOdd;
}

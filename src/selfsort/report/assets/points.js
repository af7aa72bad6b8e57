// A map of many points on one canvas, with zoom, pan and gestures. A classic script, as dom.js is.
class PointMap {
  static COLOURS = 10;
  static SHAPES = 3;

  // `points`: x, y of each in 0…65535; `labels`: the cluster of each; `centres`: [label, x, y] in 0…1.
  // `onPoint` is told over which point (-1: none) the pointer is, `onClick` which one was clicked.
  // `begin(x, y, event)` may take a drag over: it returns { move(x, y), end() }.
  constructor(canvas, { points, labels, centres, onPoint, onClick, begin = () => null }) {
    Object.assign(this, { canvas, points, labels, centres, onPoint, onClick, begin });
    this.pen = canvas.getContext("2d");
    this.width = this.height = this.left = this.top = 0; // a point lies at left + x * base * zoom
    this.ratio = this.base = this.zoom = 1;
    this.isolated = null; // the only cluster that is not faded
    this.current = -1;
    this.marked = null; // those for which this is not 0 have a ring
    this.hidden = null; // those for which this is not 0 are left out
    this.stamps = new Map(); // those drawn before, until the size or the colours change
    this.gestures();
    this.readColours();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.readColours(); this.redraw(); });
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
  }

  get count() { return this.labels.length; }
  across(index) { return this.left + this.points[2 * index] * this.base * this.zoom; }
  down(index) { return this.top + this.points[2 * index + 1] * this.base * this.zoom; }

  readColours() {
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
    this.colours = Array.from({ length: PointMap.COLOURS }, (_, number) => colour(`--c${number}`));
    this.ink = colour("--ink");
    this.paper = colour("--paper");
    this.stamps.clear();
  }

  stamp(label, radius, alpha) { // one marker: where its pixels lie, seen from its middle, and their colours
    const half = Math.ceil(radius * this.ratio), side = 2 * half + 1, r = radius * this.ratio;
    const shape = Math.floor(label / PointMap.COLOURS) % PointMap.SHAPES, image = create("canvas");
    image.width = image.height = side;
    const brush = image.getContext("2d", { willReadFrequently: true });
    brush.fillStyle = brush.strokeStyle = this.colours[label % PointMap.COLOURS];
    brush.translate(half + 0.5, half + 0.5);
    brush.globalAlpha = alpha;
    brush.lineWidth = 0.7 * r;
    if (shape === 0) brush.arc(0, 0, r, 0, 2 * Math.PI);
    else if (shape === 1) brush.rect(-0.9 * r, -0.9 * r, 1.8 * r, 1.8 * r);
    else { brush.moveTo(-r, -r); brush.lineTo(r, r); brush.moveTo(r, -r); brush.lineTo(-r, r); }
    if (shape < 2) brush.fill();
    else brush.stroke();
    const pixels = new Uint32Array(brush.getImageData(0, 0, side, side).data.buffer), offsets = [], values = [];
    pixels.forEach((value, index) => {
      if (!value) return;
      offsets.push((Math.floor(index / side) - half) * this.canvas.width + (index % side) - half);
      values.push(value);
    });
    return { offsets: Int32Array.from(offsets), values: Uint32Array.from(values), half };
  }

  stampOf(label, radius, alpha) {
    const key = `${label} ${radius} ${alpha}`;
    if (this.stamps.size > 2000) this.stamps.clear();
    if (!this.stamps.has(key)) this.stamps.set(key, this.stamp(label, radius, alpha));
    return this.stamps.get(key);
  }

  get radius() { return Math.min(7, (this.count > 8000 ? 1.7 : this.count > 1000 ? 2.6 : 3.6) * Math.sqrt(this.zoom)); }

  draw() {
    const begin = performance.now(), { canvas, pen, ratio, labels, points, isolated, radius, surface } = this;
    this.isDrawing = false;
    if (!surface) return;
    this.drawPoints(new Uint32Array(surface.data.buffer));
    pen.putImageData(surface, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    Object.assign(pen, { font: "700 15px system-ui, sans-serif", textAlign: "center", textBaseline: "middle", lineJoin: "round" });
    const scale = 65535 * this.base * this.zoom;
    for (const [label, x, y] of this.centres) {
      if (isolated !== null && label !== isolated) continue;
      Object.assign(pen, { lineWidth: 4, strokeStyle: this.paper, fillStyle: this.ink });
      pen.strokeText(label, this.left + x * scale, this.top + y * scale);
      pen.fillText(label, this.left + x * scale, this.top + y * scale);
    }
    Object.assign(pen, { strokeStyle: this.ink, lineWidth: 1.5 });
    const ring = (index, size) => { pen.moveTo(this.across(index) + size, this.down(index)); pen.arc(this.across(index), this.down(index), size, 0, 2 * Math.PI); };
    pen.beginPath();
    if (this.marked) for (let index = 0; index < labels.length; index++) if (this.marked[index]) ring(index, radius + 2);
    pen.stroke();
    pen.lineWidth = 2.5;
    pen.beginPath();
    if (this.current >= 0) ring(this.current, radius + 4);
    pen.stroke();
    this.drawMore?.(pen);
    canvas.dataset.milliseconds = (performance.now() - begin).toFixed(1);
  }

  drawPoints(pixels) { // written pixel by pixel: tens of thousands in a few milliseconds
    const { labels, points, isolated, radius, canvas, ratio, hidden } = this;
    const scale = this.base * this.zoom * ratio, shiftX = this.left * ratio, shiftY = this.top * ratio, row = canvas.width;
    pixels.fill(0);
    for (const own of isolated === null ? [null] : [false, true]) { // the isolated cluster lies on top
      const markers = [];
      for (let index = 0; index < labels.length; index++) {
        const label = labels[index];
        if ((own !== null && (label === isolated) !== own) || (hidden && hidden[index])) continue;
        const key = label % (PointMap.COLOURS * PointMap.SHAPES);
        const marker = markers[key] || (markers[key] = this.stampOf(key, radius, own === false ? 0.12 : 0.9)), half = marker.half;
        const x = Math.round(shiftX + points[2 * index] * scale), y = Math.round(shiftY + points[2 * index + 1] * scale);
        if (x < half || y < half || x >= row - half || y >= canvas.height - half) continue;
        const { offsets, values } = marker, middle = y * row + x;
        for (let part = 0; part < offsets.length; part++) pixels[middle + offsets[part]] = values[part];
      }
    }
  }

  redraw() {
    if (!this.isDrawing) { this.isDrawing = true; requestAnimationFrame(() => this.draw()); }
  }

  showAll() {
    const MARGIN = 30;
    let right = 1, bottom = 1;
    for (let index = 0; index < this.count; index++) {
      right = Math.max(right, this.points[2 * index]);
      bottom = Math.max(bottom, this.points[2 * index + 1]);
    }
    this.base = Math.min((this.width - 2 * MARGIN) / right, (this.height - 2 * MARGIN) / bottom);
    this.zoom = 1;
    this.left = (this.width - right * this.base) / 2;
    this.top = (this.height - bottom * this.base) / 2;
    this.redraw();
  }

  resize() {
    const { canvas, width, height } = this;
    this.ratio = window.devicePixelRatio || 1;
    this.width = canvas.clientWidth;
    this.height = canvas.clientHeight;
    canvas.width = Math.round(this.width * this.ratio);
    canvas.height = Math.round(this.height * this.ratio);
    this.surface = null;
    if (!canvas.width || !canvas.height) return; // not shown, as in print
    this.stamps.clear();
    this.surface = this.pen.createImageData(canvas.width, canvas.height);
    if (this.zoom === 1 || !width) this.showAll();
    else { this.left += (this.width - width) / 2; this.top += (this.height - height) / 2; }
    this.draw();
  }

  zoomBy(factor, x = this.width / 2, y = this.height / 2) {
    const next = Math.min(60, Math.max(0.5, this.zoom * factor)), change = next / this.zoom;
    this.left = x - (x - this.left) * change;
    this.top = y - (y - this.top) * change;
    this.zoom = next;
    this.point(-1);
    this.redraw();
  }

  pan(x, y) { this.left += x; this.top += y; this.point(-1); this.redraw(); }

  isolate(label) { this.isolated = label; this.point(-1); this.redraw(); }

  point(index) { // this one is looked at; -1: none
    if (index === this.current) return;
    this.current = index;
    this.redraw();
    this.onPoint(index);
  }

  isShown(index) { return (this.isolated === null || this.labels[index] === this.isolated) && !(this.hidden && this.hidden[index]); }

  nearest(x, y) {
    let best = -1, distance = 14 * 14;
    for (let index = 0; index < this.count; index++) {
      if (!this.isShown(index)) continue;
      const square = (this.across(index) - x) ** 2 + (this.down(index) - y) ** 2;
      if (square < distance) { distance = square; best = index; }
    }
    return best;
  }

  step(direction) { // to the next image that is shown, for those who do not point
    const { count, width, height } = this;
    for (let tries = 1, index = this.current; tries <= count; tries++) {
      index = (index + direction + count + (index < 0 && direction < 0 ? 1 : 0)) % count;
      if (!this.isShown(index)) continue;
      const x = this.across(index), y = this.down(index);
      if (x < 0 || y < 0 || x > width || y > height) { this.left += width / 2 - x; this.top += height / 2 - y; }
      this.point(index);
      return index;
    }
    return -1;
  }

  // Puts a box beside the point that is looked at.
  place(box) {
    const x = this.across(this.current), y = this.down(this.current);
    box.style.left = `${Math.max(0, x + 20 + box.offsetWidth > this.width ? x - 20 - box.offsetWidth : x + 20)}px`;
    box.style.top = `${Math.min(Math.max(4, y - box.offsetHeight / 2), this.height - box.offsetHeight - 4)}px`;
  }

  gestures() {
    const { canvas } = this, fingers = new Map();
    let moved = 0, drag = null;
    const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button !== 0) return;
      if (!fingers.size) { moved = 0; drag = this.begin(...place(event), event); }
      fingers.set(event.pointerId, place(event));
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = place(event), before = fingers.get(event.pointerId);
      if (!before) { this.point(this.nearest(x, y)); return; }
      moved += Math.hypot(x - before[0], y - before[1]);
      const other = [...fingers].find(([finger]) => finger !== event.pointerId);
      fingers.set(event.pointerId, [x, y]);
      if (other) {
        const [ox, oy] = other[1];
        drag = null;
        this.zoomBy(Math.hypot(x - ox, y - oy) / Math.max(1, Math.hypot(before[0] - ox, before[1] - oy)), (x + ox) / 2, (y + oy) / 2);
      } else if (drag) { drag.move(x, y); this.redraw(); }
      else if (moved > 4) this.pan(x - before[0], y - before[1]);
    });
    const lift = (event) => {
      if (!fingers.delete(event.pointerId) || fingers.size) return;
      const taken = drag;
      drag = null;
      if (taken && moved > 4) { taken.end(event.type === "pointercancel"); this.redraw(); return; }
      if (event.type === "pointercancel" || moved > 4) return;
      const index = this.nearest(...place(event));
      if (event.pointerType !== "mouse") this.point(index); // a finger first of all looks
      this.onClick(index, event);
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", () => this.point(-1));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls on
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002)), ...place(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const action = PointMap.KEYS[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action(this);
    });
  }

  static KEYS = {
    ArrowLeft: (map) => map.pan(60, 0), ArrowRight: (map) => map.pan(-60, 0), ArrowUp: (map) => map.pan(0, 60), ArrowDown: (map) => map.pan(0, -60),
    "+": (map) => map.zoomBy(1.4), "=": (map) => map.zoomBy(1.4), "-": (map) => map.zoomBy(1 / 1.4), 0: (map) => map.showAll(),
  };

  static BUTTONS = { in: (map) => map.zoomBy(1.4), out: (map) => map.zoomBy(1 / 1.4), all: (map) => map.showAll() };
}

const decodeBytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;

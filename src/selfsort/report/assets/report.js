// The map: all points on one canvas. The rest of the page works without this script.
(() => {
  const source = byId("map-data");
  const canvas = byId("map");
  if (!canvas.getContext) return;
  const data = JSON.parse(source.textContent);
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
  const points = new Uint16Array(bytes(data.points));
  const labels = new Uint32Array(bytes(data.labels));
  const confidence = new Uint16Array(bytes(data.confidence));
  const count = labels.length;
  const root = document.documentElement;
  const pen = canvas.getContext("2d");
  const tip = byId("tip");
  const tipPicture = byId("tip-picture");
  const status = byId("map-status");
  const COLOURS = 10, SHAPES = 3, MARGIN = 30, NEAR = 14, MOST_ZOOM = 60;
  let width = 0, height = 0, ratio = 1, base = 1, zoom = 1, left = 0, top = 0; // a point lies at left + x * base * zoom
  let isolated = null, current = -1, colours = [], ink = "", paper = "", isDrawing = false;
  let surface = null, pixels = null; // the points are written pixel by pixel: tens of thousands in a few milliseconds

  root.classList.add("js");

  function readColours() {
    const style = getComputedStyle(root);
    colours = Array.from({ length: COLOURS }, (_, number) => style.getPropertyValue(`--c${number}`).trim());
    stamps.clear();
    ink = style.getPropertyValue("--ink").trim();
    paper = style.getPropertyValue("--paper").trim();
  }

  const stamps = new Map(); // those drawn before, until the size or the colours change
  function stamp(label, radius, alpha) { // one marker: where its pixels lie, seen from its middle, and their colours
    const half = Math.ceil(radius * ratio), side = 2 * half + 1, shape = Math.floor(label / COLOURS) % SHAPES, r = radius * ratio;
    const image = create("canvas");
    image.width = image.height = side;
    const brush = image.getContext("2d", { willReadFrequently: true });
    brush.fillStyle = brush.strokeStyle = colours[label % COLOURS];
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
      offsets.push((Math.floor(index / side) - half) * canvas.width + (index % side) - half);
      values.push(value);
    });
    return { offsets: Int32Array.from(offsets), values: Uint32Array.from(values), half };
  }

  function stampOf(label, radius, alpha) {
    const key = `${label} ${radius} ${alpha}`;
    if (stamps.size > 2000) stamps.clear();
    if (!stamps.has(key)) stamps.set(key, stamp(label, radius, alpha));
    return stamps.get(key);
  }

  const across = (index) => left + points[2 * index] * base * zoom;
  const down = (index) => top + points[2 * index + 1] * base * zoom;

  function draw() {
    const begin = performance.now();
    isDrawing = false;
    const radius = Math.min(7, (count > 8000 ? 1.7 : count > 1000 ? 2.6 : 3.6) * Math.sqrt(zoom));
    const scale = base * zoom * ratio, shiftX = left * ratio, shiftY = top * ratio, row = canvas.width;
    pixels.fill(0);
    for (const own of isolated === null ? [null] : [false, true]) { // the isolated cluster lies on top
      const markers = [];
      for (let index = 0; index < count; index++) {
        const label = labels[index];
        if (own !== null && (label === isolated) !== own) continue;
        const key = label % (COLOURS * SHAPES);
        const marker = markers[key] || (markers[key] = stampOf(key, radius, own === false ? 0.12 : 0.9)), half = marker.half;
        const x = Math.round(shiftX + points[2 * index] * scale), y = Math.round(shiftY + points[2 * index + 1] * scale);
        if (x < half || y < half || x >= row - half || y >= canvas.height - half) continue;
        const { offsets, values } = marker, middle = y * row + x;
        for (let part = 0; part < offsets.length; part++) pixels[middle + offsets[part]] = values[part];
      }
    }
    pen.putImageData(surface, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = "700 15px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    for (const [label, x, y] of data.centres) {
      if (isolated !== null && label !== isolated) continue;
      pen.lineWidth = 4;
      pen.strokeStyle = paper;
      pen.fillStyle = ink;
      pen.strokeText(label, left + x * 65535 * base * zoom, top + y * 65535 * base * zoom);
      pen.fillText(label, left + x * 65535 * base * zoom, top + y * 65535 * base * zoom);
    }
    if (current >= 0) {
      pen.lineWidth = 2.5;
      pen.strokeStyle = ink;
      pen.beginPath();
      pen.arc(across(current), down(current), radius + 4, 0, 2 * Math.PI);
      pen.stroke();
    }
    canvas.dataset.milliseconds = (performance.now() - begin).toFixed(1);
  }

  function redraw() {
    if (!isDrawing) { isDrawing = true; requestAnimationFrame(draw); }
  }

  function showAll() {
    let right = 1, bottom = 1;
    for (let index = 0; index < count; index++) {
      right = Math.max(right, points[2 * index]);
      bottom = Math.max(bottom, points[2 * index + 1]);
    }
    base = Math.min((width - 2 * MARGIN) / right, (height - 2 * MARGIN) / bottom);
    zoom = 1;
    left = (width - right * base) / 2;
    top = (height - bottom * base) / 2;
    redraw();
  }

  function resize() {
    const wasWidth = width, wasHeight = height;
    ratio = window.devicePixelRatio || 1;
    width = canvas.clientWidth;
    height = canvas.clientHeight;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    if (!canvas.width || !canvas.height) return; // not shown, as in print
    stamps.clear();
    surface = pen.createImageData(canvas.width, canvas.height);
    pixels = new Uint32Array(surface.data.buffer);
    if (zoom === 1 || !wasWidth) showAll();
    else { left += (width - wasWidth) / 2; top += (height - wasHeight) / 2; }
    draw();
  }

  function zoomBy(factor, x = width / 2, y = height / 2) {
    const next = Math.min(MOST_ZOOM, Math.max(0.5, zoom * factor)), change = next / zoom;
    left = x - (x - left) * change;
    top = y - (y - top) * change;
    zoom = next;
    show(-1);
    redraw();
  }

  function pan(x, y) { left += x; top += y; show(-1); redraw(); }

  function nearest(x, y) {
    let best = -1, distance = NEAR * NEAR;
    for (let index = 0; index < count; index++) {
      if (isolated !== null && labels[index] !== isolated) continue;
      const square = (across(index) - x) ** 2 + (down(index) - y) ** 2;
      if (square < distance) { distance = square; best = index; }
    }
    return best;
  }

  const sheets = [];
  function drawSprite(index) {
    const perSheet = data.columns * data.columns, number = Math.floor(index / perSheet), cell = index % perSheet;
    const text = sheets[number] ? "" : late(`sheet-${number}`);
    tipPicture.hidden = text === null;
    if (text === null) return;
    if (text) {
      sheets[number] = new Image();
      sheets[number].src = `data:image/webp;base64,${text}`;
    }
    const sheet = sheets[number];
    if (!sheet.complete) { sheet.onload = () => { if (current === index) drawSprite(index); }; return; }
    tipPicture.width = tipPicture.height = data.side;
    const x = (cell % data.columns) * data.side, y = Math.floor(cell / data.columns) * data.side;
    tipPicture.getContext("2d").drawImage(sheet, x, y, data.side, data.side, 0, 0, data.side, data.side);
    tipPicture.dataset.index = index;
  }

  function show(index) { // the image of a point beside it; -1: none
    if (index === current) return;
    current = index;
    tip.hidden = index < 0;
    redraw();
    if (index < 0) return;
    drawSprite(index);
    byId("tip-name").textContent = wordsOf(index)[0];
    byId("tip-text").textContent = description(index);
    const x = across(index), y = down(index);
    tip.style.left = `${Math.max(0, x + 20 + tip.offsetWidth > width ? x - 20 - tip.offsetWidth : x + 20)}px`;
    tip.style.top = `${Math.min(Math.max(4, y - tip.offsetHeight / 2), height - tip.offsetHeight - 4)}px`;
  }

  // Names and pictures are at the end of the page, where they delay nothing. Returns null until one has arrived whole.
  function late(id) {
    const part = byId(id);
    return part && (part.nextElementSibling || document.readyState !== "loading") ? part.textContent : null;
  }

  let words = null;
  function wordsOf(index) {
    words = words || JSON.parse(late("map-names"));
    return words ? [words.names[index], words.truth ? words.truth[index] : ""] : ["", ""];
  }

  function description(index) {
    const known = wordsOf(index)[1], truth = known ? `\ntruth ${known}` : "";
    return `cluster ${labels[index]}\nconfidence ${(confidence[index] / 10000).toFixed(2)}${truth}`;
  }

  function isolate(label) {
    isolated = label;
    show(-1);
    let size = null;
    for (const button of document.querySelectorAll("[data-isolate]")) {
      const isOn = button.dataset.isolate === (label === null ? "" : String(label));
      button.setAttribute("aria-pressed", isOn);
      if (isOn) size = button.querySelector("b").textContent;
    }
    status.textContent = label === null ? "All clusters are shown." : `Only cluster ${label} is shown${size ? `, ${size} images` : ""}.`;
    redraw();
  }

  function step(direction) { // to the next image that is shown, for those who do not point
    for (let tries = 1, index = current; tries <= count; tries++) {
      index = (index + direction + count + (index < 0 && direction < 0 ? 1 : 0)) % count;
      if (isolated === null || labels[index] === isolated) {
        const x = across(index), y = down(index);
        if (x < 0 || y < 0 || x > width || y > height) { left += width / 2 - x; top += height / 2 - y; }
        show(index);
        status.textContent = `${wordsOf(index)[0]}, ${description(index).replaceAll("\n", ", ")}`;
        return;
      }
    }
  }

  const fingers = new Map();
  let moved = 0;
  const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    if (!fingers.size) moved = 0;
    fingers.set(event.pointerId, place(event));
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event), before = fingers.get(event.pointerId);
    if (!before) { show(nearest(x, y)); return; }
    moved += Math.hypot(x - before[0], y - before[1]);
    const other = [...fingers].find(([finger]) => finger !== event.pointerId);
    fingers.set(event.pointerId, [x, y]);
    if (other) {
      const [ox, oy] = other[1];
      zoomBy(Math.hypot(x - ox, y - oy) / Math.max(1, Math.hypot(before[0] - ox, before[1] - oy)), (x + ox) / 2, (y + oy) / 2);
    } else if (moved > 4) pan(x - before[0], y - before[1]);
  });
  const lift = (event) => {
    if (!fingers.delete(event.pointerId) || event.type === "pointercancel" || moved > 4 || fingers.size) return;
    const index = nearest(...place(event));
    if (event.pointerType !== "mouse") { show(index); return; } // a finger only looks; the legend isolates
    isolate(index < 0 ? null : labels[index]);
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => show(-1));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls on
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002)), ...place(event));
  }, { passive: false });
  const KEYS = {
    ArrowLeft: () => pan(60, 0), ArrowRight: () => pan(-60, 0), ArrowUp: () => pan(0, 60), ArrowDown: () => pan(0, -60),
    "+": () => zoomBy(1.4), "=": () => zoomBy(1.4), "-": () => zoomBy(1 / 1.4), 0: showAll,
    n: () => step(1), p: () => step(-1), Escape: () => isolate(null),
  };
  canvas.addEventListener("keydown", (event) => {
    const action = KEYS[event.key] || KEYS[event.key.toLowerCase()];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
  const BUTTONS = { in: () => zoomBy(1.4), out: () => zoomBy(1 / 1.4), all: showAll };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-isolate], [data-zoom], [data-show]");
    if (!button) return;
    if (button.dataset.zoom) BUTTONS[button.dataset.zoom]();
    else if (button.dataset.show) {
      isolate(Number(button.dataset.show));
      byId("the-map").scrollIntoView();
      canvas.focus({ preventScroll: true });
    } else isolate(button.dataset.isolate === "" || Number(button.dataset.isolate) === isolated ? null : Number(button.dataset.isolate));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); redraw(); });
  new ResizeObserver(resize).observe(canvas);
  readColours();
  resize();
  root.dataset.ready = Math.round(performance.now());
})();

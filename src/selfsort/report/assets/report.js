// The map of the report: the picture beside a point, and one cluster alone. The rest of the page works without this script.
(() => {
  const canvas = byId("map");
  if (!canvas.getContext) return;
  const data = JSON.parse(byId("map-data").textContent);
  const labels = new Uint32Array(decodeBytes(data.labels));
  const confidence = new Uint16Array(decodeBytes(data.confidence));
  const root = document.documentElement;
  const tip = byId("tip");
  const tipPicture = byId("tip-picture");
  const status = byId("map-status");

  root.classList.add("js");
  const map = new PointMap(canvas, {
    points: new Uint16Array(decodeBytes(data.points)), labels, centres: data.centres, onPoint: show,
    onClick: (index, event) => { if (event.pointerType === "mouse") isolate(index < 0 ? null : labels[index]); }, // with a finger the legend isolates
  });

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
    if (!sheet.complete) { sheet.onload = () => { if (map.current === index) drawSprite(index); }; return; }
    tipPicture.width = tipPicture.height = data.side;
    const x = (cell % data.columns) * data.side, y = Math.floor(cell / data.columns) * data.side;
    tipPicture.getContext("2d").drawImage(sheet, x, y, data.side, data.side, 0, 0, data.side, data.side);
    tipPicture.dataset.index = index;
  }

  function show(index) { // the image of a point beside it; -1: none
    tip.hidden = index < 0;
    if (index < 0) return;
    drawSprite(index);
    byId("tip-name").textContent = wordsOf(index)[0];
    byId("tip-text").textContent = description(index);
    map.place(tip);
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
    map.isolate(label);
    let size = null;
    for (const button of document.querySelectorAll("[data-isolate]")) {
      const isOn = button.dataset.isolate === (label === null ? "" : String(label));
      button.setAttribute("aria-pressed", isOn);
      if (isOn) size = button.querySelector("b").textContent;
    }
    status.textContent = label === null ? "All clusters are shown." : `Only cluster ${label} is shown${size ? `, ${size} images` : ""}.`;
  }

  function step(direction) {
    const index = map.step(direction);
    if (index >= 0) status.textContent = `${wordsOf(index)[0]}, ${description(index).replaceAll("\n", ", ")}`;
  }

  const KEYS = { n: () => step(1), p: () => step(-1), escape: () => isolate(null) };
  canvas.addEventListener("keydown", (event) => {
    const action = KEYS[event.key.toLowerCase()];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-isolate], [data-zoom], [data-show]");
    if (!button) return;
    if (button.dataset.zoom) PointMap.BUTTONS[button.dataset.zoom](map);
    else if (button.dataset.show) {
      isolate(Number(button.dataset.show));
      byId("the-map").scrollIntoView();
      canvas.focus({ preventScroll: true });
    } else isolate(button.dataset.isolate === "" || Number(button.dataset.isolate) === map.isolated ? null : Number(button.dataset.isolate));
  });
  root.dataset.ready = Math.round(performance.now());
})();

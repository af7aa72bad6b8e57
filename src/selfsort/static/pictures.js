// Small pictures by image number: kept once they came, asked for in packs where the server reads them from files.
import { request } from "./api.js";

const LIMIT = 4000, PACK = 8;
const known = new Map();
let wanted = [], loading = null;

export function remember(index, source) {
  known.delete(index);
  known.set(index, source);
  if (known.size > LIMIT) known.delete(known.keys().next().value);
}

// Shows picture `index` in `image`, now or as soon as it comes; `settled` waits for all of them.
export function show(image, index) {
  image.addEventListener("load", () => image.classList.toggle("pixels", image.naturalWidth <= 64));
  if (known.has(index)) return place(image, known.get(index));
  wanted.push([image, index]);
  loading ??= Promise.resolve().then(load).finally(() => { loading = null; });
}

export const settled = () => loading ?? Promise.resolve();

async function load() {
  while (wanted.length) {
    const now = wanted.filter(([image]) => image.isConnected).slice(0, PACK); // what was paged away is not needed any more
    wanted = wanted.filter(([image]) => image.isConnected).slice(PACK);
    if (!now.length) continue;
    const indices = [...new Set(now.map(([, index]) => index))];
    const found = await request(`api/thumbnails?images=${indices}`).catch(() => ({}));
    for (const [image, index] of now) {
      if (found[index]) remember(index, found[index]);
      place(image, found[index]);
    }
  }
}

function place(image, source) {
  if (source) image.src = source;
  else image.replaceWith(Object.assign(document.createElement("div"), { className: "missing", textContent: "file is gone" }));
}

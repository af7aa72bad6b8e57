// Small pictures: a sheet holds many, ten in a row, and each element shows its part of it.
const COLUMNS = 10;
export const settings = { pack: 10 };

// Shows image `index` in each of the [element, index] pairs, sheet by sheet; ends when all are there or paged away.
export async function show(pairs) {
  wish += 1;
  for (let start = 0; start < pairs.length; start += settings.pack) {
    const part = pairs.slice(start, start + settings.pack);
    const sheet = await load(part.map(([, index]) => index));
    if (!part[0][0].isConnected) return;
    if (sheet) for (const [place, [element]] of part.entries()) draw(element, sheet, place, part.length);
  }
}

// Lets the browser fetch what will probably be shown next, until something else is.
let wish = 0;
export async function prefetch(indices) {
  const mine = ++wish;
  for (let start = 0; start < indices.length && mine === wish; start += settings.pack) await load(indices.slice(start, start + settings.pack));
}

async function load(indices) {
  const sheet = new Image();
  sheet.src = `api/sheet?images=${indices}`;
  return sheet.decode().then(() => sheet, () => null);
}

function draw(element, sheet, place, count) {
  const columns = Math.min(COLUMNS, count), rows = Math.ceil(count / columns);
  const share = (position, all) => (all > 1 ? `${(100 * position) / (all - 1)}%` : "0%");
  element.style.backgroundImage = `url("${sheet.src}")`;
  element.style.backgroundSize = `${100 * columns}% ${100 * rows}%`;
  element.style.backgroundPosition = `${share(place % columns, columns)} ${share(Math.floor(place / columns), rows)}`;
  element.classList.toggle("pixels", sheet.naturalWidth / columns <= 64);
}

export function picture(name = "") {
  const element = document.createElement("span");
  element.className = "picture";
  if (name) Object.assign(element, { role: "img", ariaLabel: name });
  else element.ariaHidden = "true";
  return element;
}

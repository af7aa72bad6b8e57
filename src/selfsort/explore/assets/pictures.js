// Small pictures: a sheet holds many, ten in a row, and each element shows its part.
const COLUMNS = 10;
let wish = 0;

// Shows image `items[n].i` in `elements[n]`, `pack` on a sheet. Ends when all are shown or the page was turned.
export async function show(elements, items, pack, isFine = false) {
  wish += 1;
  for (let start = 0; start < items.length; start += pack) {
    const part = items.slice(start, start + pack), sheet = await load(part, isFine);
    if (!elements.some((element) => element.isConnected)) return;
    if (sheet) for (const place of part.keys()) draw(elements[start + place], sheet, place, part.length);
  }
}

// Fetches what will probably be shown next, until something else is asked for.
export async function prefetch({ items, pack }, isFine = false) {
  const mine = ++wish;
  for (let start = 0; start < items.length && mine === wish; start += pack) await load(items.slice(start, start + pack), isFine);
}

// Twice as many pixels each way if `isFine`, for large thumbnails.
function load(part, isFine) {
  const sheet = new Image();
  sheet.src = `api/sheet?images=${part.map(({ i }) => i)}${isFine ? "&fine=1" : ""}`;
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
  const element = create("span");
  element.className = "picture";
  if (name) Object.assign(element, { role: "img", ariaLabel: name });
  else element.ariaHidden = "true";
  return element;
}

// A line of example pictures with a title above them.
export function strip(label, rows, pack) {
  const box = create("div", { className: "strip" }), line = create("div", { className: "examples" });
  const thumbs = rows.map(() => picture());
  line.append(...thumbs);
  box.append(create("p", { className: "facts", textContent: label }), line);
  queueMicrotask(() => show(thumbs, rows.map((i) => ({ i })), pack));
  return box;
}

// Plays the sound of an item, if the page has a player; none ends what plays. A browser may want a click first.
export function play(player, item) {
  if (!player) return;
  player.hidden = !item;
  if (item) player.src = `api/clip/${item.i}`;
  else player.pause();
  if (item) player.play().catch(() => {});
}

export function playOrPause(player) {
  if (player?.paused) player.play().catch(() => {});
  else player?.pause();
}
